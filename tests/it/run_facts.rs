//! Facts of a run that telemetry tells twice, in the wrong order, in pieces or of somebody else.

use serde_json::{Value as Json, json};

use crate::captures::{resolver, rows, traces};
use crate::traps::{request, span};

/// A tool's span, with the id, arguments and result that are given.
fn tool(name: &str, more: Json) -> Json {
    let mut tool = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name });
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool
}

/// A model's span whose answer asks for a tool.
fn asks(id: &str, name: &str) -> Json {
    let call = json!([{ "role": "assistant", "parts": [
        { "type": "tool_call", "id": id, "name": name, "arguments": { "q": 1 } }] }]);
    json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": call.to_string() })
}

/// A model's span whose answer is a text.
fn says(text: &str) -> Json {
    let said = json!([{ "role": "assistant", "parts": [{ "type": "text", "content": text }] }]);
    json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": said.to_string() })
}

/// A span with times of its own, in milliseconds.
fn timed(mut span: Json, start: u64, end: u64) -> Json {
    span["startTimeUnixNano"] = (start * 1_000_000).to_string().into();
    span["endTimeUnixNano"] = (end * 1_000_000).to_string().into();
    span
}

/// The row of spans that stand in scopes.
fn row(scopes: &[(&str, Vec<Json>)]) -> Json {
    let resolver = resolver(Vec::new());
    let requests: Vec<_> = scopes.iter().map(|(scope, spans)| request(scope, spans)).collect();
    let mut rows = rows(&resolver, &traces(&resolver, &requests));
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// The calls of these spans, as `name id arguments result`.
fn check(scopes: &[(&str, Vec<Json>)], expected: &[&str]) {
    let row = row(scopes);
    let text = |value: &Json| value.as_str().map_or(value.to_string(), str::to_owned);
    let calls = row["tool_calls"].as_array().unwrap().iter();
    let found: Vec<String> = calls
        .map(|call| ["name", "id", "arguments", "result"].map(|key| text(&call[key])).join(" "))
        .collect();
    assert_eq!(found, expected, "{row:#}");
}

fn call(id: &str, arguments: &str, result: &str) -> Json {
    json!({
        "gen_ai.tool.call.id": id,
        "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": result,
    })
}

#[test]
fn calls_beside_each_other_with_one_id_are_calls_of_their_own() {
    let run = |at, result| {
        let span = span(at, None, "t", tool("look_up", call("c1", r#"{"q":1}"#, result)));
        timed(span, 10 * at as u64, 10 * at as u64 + 5)
    };
    check(
        &[("x", vec![run(1, "a"), run(2, "b"), run(3, "c")])],
        &[r#"look_up c1 {"q":1} a"#, r#"look_up c1 {"q":1} b"#, r#"look_up c1 {"q":1} c"#],
    );
}

#[test]
fn one_call_that_two_instrumentations_record_beside_each_other_is_one() {
    let told = |at, arguments| span(at, None, "t", tool("look_up", call("c1", arguments, "a")));
    check(
        &[("x", vec![told(1, r#"{"q":1}"#)]), ("y", vec![told(2, r#"{"q":1}"#)])],
        &[r#"look_up c1 {"q":1} a"#],
    );
    check(
        &[("x", vec![told(1, r#"{"q":1}"#)]), ("y", vec![told(2, r#"{"q":2}"#)])],
        &[r#"look_up c1 {"q":1} a"#, r#"look_up c1 {"q":2} a"#],
    );
}

#[test]
fn a_client_s_span_within_the_adapter_s_is_its_call_under_the_server_s_name() {
    let adapter = span(1, None, "t", tool("mcp__shop__look_up", call("c1", r#"{"q":1}"#, "a")));
    let client = span(
        2,
        Some(1),
        "t",
        tool(
            "look_up",
            json!({
        "gen_ai.tool.call.arguments": r#"{"q":1}"# }),
        ),
    );
    let hook = span(3, Some(1), "t", tool("log", json!({})));
    check(
        &[("x", vec![adapter, client, hook])],
        &[r#"mcp__shop__look_up c1 {"q":1} a"#, "log null null null"],
    );
}

#[test]
fn nested_spans_of_one_request_without_ids_ask_once() {
    let mut model = asks("", "look_up");
    model["gen_ai.output.messages"] = json!([{ "role": "assistant", "parts": [
        { "type": "tool_call", "name": "look_up", "arguments": { "q": 1 } }] }])
    .to_string()
    .into();
    let outer = timed(span(1, None, "chat", model.clone()), 1, 9);
    let inner = timed(span(2, Some(1), "chat", model.clone()), 2, 8);
    check(&[("x", vec![outer.clone(), inner])], &[r#"look_up null {"q":1} null"#]);
    let beside = timed(span(3, None, "chat", model), 11, 19);
    check(
        &[("x", vec![outer, beside])],
        &[r#"look_up null {"q":1} null"#, r#"look_up null {"q":1} null"#],
    );
}

#[test]
fn messages_order_calls_whatever_the_clocks_of_tools_say() {
    let agent = json!({ "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a" });
    let found = row(&[(
        "x",
        vec![
            timed(span(0, None, "a", agent), 0, 900),
            timed(span(1, Some(0), "chat", asks("c1", "first")), 100, 110),
            timed(span(2, Some(0), "chat", asks("c2", "second")), 200, 210),
            timed(span(3, Some(0), "t", tool("first", call("c1", "{}", "a"))), 800, 810),
            timed(span(4, Some(0), "t", tool("second", call("c2", "{}", "b"))), 20, 30),
        ],
    )]);
    let calls = found["tool_calls"].as_array().unwrap();
    let names: Vec<_> = calls.iter().map(|call| call["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
    assert!(calls[0]["end_time_unix_nano"].as_u64() <= calls[1]["start_time_unix_nano"].as_u64());
}

#[test]
fn runs_of_one_request_are_tries_in_order() {
    let run = |at: usize, start, more| {
        timed(span(at, None, "t", tool("look_up", more)), start, start + 5)
    };
    let failed = json!({ "gen_ai.tool.call.id": "c1", "error.type": "Timeout" });
    let found = row(&[(
        "x",
        vec![
            timed(span(1, None, "chat", asks("c1", "look_up")), 1, 2),
            run(2, 10, failed),
            run(3, 20, call("c1", r#"{"q":1}"#, "a")),
        ],
    )]);
    let calls = found["tool_calls"].as_array().unwrap();
    let statuses: Vec<_> = calls.iter().map(|call| &call["status"]).collect();
    assert_eq!(statuses, ["error", "ok"], "{found:#}");
    assert!(calls[0]["group"].is_null() && calls[1]["group"].is_null(), "{found:#}");
}

#[test]
fn what_an_evaluator_does_is_no_part_of_the_run() {
    let kind = |kind: &str, more: Json| {
        let mut kind = json!({ "openinference.span.kind": kind });
        kind.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        kind
    };
    let spans = vec![
        span(0, None, "agent", kind("AGENT", json!({ "output.value": "done" }))),
        span(1, Some(0), "look_up", kind("TOOL", json!({ "output.value": "a" }))),
        span(2, Some(0), "judge", kind("EVALUATOR", json!({}))),
        span(3, Some(2), "vote", kind("TOOL", json!({ "output.value": "good" }))),
    ];
    check(&[("x", spans)], &["look_up null null a"]);
}

#[test]
fn the_name_of_a_conversation_is_no_answer() {
    let agent = json!({ "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a" });
    for name in ["generate_title", "TitleChain", "conversation title"] {
        let found = row(&[(
            "x",
            vec![
                span(0, None, "a", agent.clone()),
                span(1, Some(0), "chat", says("It is on its way.")),
                span(2, Some(0), name, json!({})),
                span(3, Some(2), "chat", says("About a parcel")),
            ],
        )]);
        assert_eq!(found["final_output"], "It is on its way.", "{name}");
    }
    let found = row(&[(
        "x",
        vec![
            span(0, None, "a", agent),
            span(1, Some(0), "chat", says("It is on its way.")),
            span(2, Some(0), "subtitles", json!({})),
            span(3, Some(2), "chat", says("Here they are.")),
        ],
    )]);
    assert_eq!(found["final_output"], "Here they are.");
}

#[test]
fn pieces_of_a_streamed_call_are_put_together() {
    let piece = |text: &str| {
        json!({ "tool_calls": [
        { "index": 0, "function": { "arguments": text } }] })
    };
    let messages = json!([
        { "role": "assistant", "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
            "function": { "name": "look_up", "arguments": "" } }] },
        piece(r#"{"q""#), piece(": "), piece("1}"),
    ]);
    let check_pieces = |messages: &Json, expected: &str| {
        let chat = json!({ "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": messages.to_string() });
        check(&[("x", vec![span(0, None, "chat", chat)])], &[expected]);
    };
    check_pieces(&messages, r#"look_up c1 {"q":1} null"#);
    let mut broken = messages;
    broken.as_array_mut().unwrap().pop();
    check_pieces(&broken, r#"look_up c1 {"_raw":"{\"q\": "} null"#);
}

#[test]
fn a_wrapper_s_span_is_the_call_of_the_tool_that_it_was_given() {
    let wrapper = json!({
        "mlflow.spanType": "TOOL",
        "mlflow.spanInputs": json!({ "call": {
            "tool_name": "look_up", "args": { "q": 1 }, "tool_call_id": "c1" } }).to_string(),
        "mlflow.spanOutputs": r#""a""#,
    });
    check(
        &[("x", vec![span(0, None, "Toolset.call_tool", wrapper)])],
        &[r#"look_up c1 {"q":1} a"#],
    );
    let plain = json!({
        "mlflow.spanType": "TOOL",
        "mlflow.spanInputs": r#"{"call":"me","args":{"q":1}}"#,
        "mlflow.spanOutputs": r#""a""#,
    });
    check(
        &[("x", vec![span(0, None, "phone", plain)])],
        &[r#"phone null {"call":"me","args":{"q":1}} a"#],
    );
}

#[test]
fn a_result_that_was_cut_off_is_not_whole() {
    let result = |text: &str| {
        let tool = tool("look_up", json!({ "gen_ai.tool.call.result": text }));
        row(&[("x", vec![span(0, None, "t", tool)])])["tool_calls"][0]["not_recorded"].clone()
    };
    for text in [r#"{"rows": ["a", "b"... [truncated]"#, r#"[{"n": 1}, {"n"#, "<omitted>"] {
        let found = row(&[(
            "x",
            vec![span(0, None, "t", tool("look_up", json!({ "gen_ai.tool.call.result": text })))],
        )]);
        assert_eq!(found["tool_calls"][0]["result"], json!({ "_raw": text }), "{found:#}");
    }
    assert_eq!(result("Loading..."), json!(["id", "arguments"]));
}

#[test]
fn of_several_choices_the_one_counts_that_was_run() {
    let choice = |id: &str, q: u32| {
        json!({ "role": "assistant", "finish_reason": "tool_calls",
        "parts": [{ "type": "tool_call", "id": id, "name": "look_up", "arguments": { "q": q } }] })
    };
    let chat = json!({ "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json!([choice("c1", 1), choice("c2", 2)]).to_string() });
    let model = span(0, None, "chat", chat);
    let run = span(1, None, "t", tool("look_up", call("c2", r#"{"q":2}"#, "b")));
    check(&[("x", vec![model.clone(), run])], &[r#"look_up c2 {"q":2} b"#]);
    check(&[("x", vec![model])], &[r#"look_up c1 {"q":1} null"#]);
}

#[test]
fn calls_that_a_framework_writes_into_the_history_are_none() {
    let agent = json!({ "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a",
        "gen_ai.output.messages": json!([{ "role": "assistant", "parts": [
            { "type": "tool_call", "id": "made-up", "name": "give_back", "arguments": {} }] },
            { "role": "tool", "parts": [
            { "type": "tool_call_response", "id": "made-up", "response": "given" }] }]).to_string()
    });
    let spans = vec![
        span(0, None, "a", agent),
        span(1, Some(0), "chat", asks("c1", "look_up")),
        span(2, Some(0), "t", tool("look_up", call("c1", r#"{"q":1}"#, "a"))),
    ];
    check(&[("x", spans)], &[r#"look_up c1 {"q":1} a"#]);
}
