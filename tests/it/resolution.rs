//! One call counts once, and every call counts: what belongs together in a trace and in a session.

use serde_json::{Value as Json, json};
use spanscore_extract::reconcile;

use crate::captures::{resolver, traces};
use crate::traps::{request, span, trajectory};

fn tool(name: &str, more: Json) -> Json {
    let mut tool = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name });
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool
}

fn asks(id: &str, name: &str) -> Json {
    let call = json!([{ "role": "assistant", "parts": [
        { "type": "tool_call", "id": id, "name": name, "arguments": { "q": 1 } }] }]);
    json!({ "gen_ai.operation.name": "chat", "gen_ai.output.messages": call.to_string() })
}

fn repeats(id: &str, name: &str, result: &str) -> Json {
    let messages = json!([
        { "role": "user", "parts": [{ "type": "text", "content": "go" }] },
        { "role": "assistant", "parts": [
            { "type": "tool_call", "id": id, "name": name, "arguments": { "q": 1 } }] },
        { "role": "tool", "parts": [
            { "type": "tool_call_response", "id": id, "response": result }] }]);
    json!({ "gen_ai.operation.name": "chat", "gen_ai.input.messages": messages.to_string() })
}

/// The calls of these spans, as `name id origin result`.
fn check(spans: &[Json], expected: &[&str]) {
    let row = trajectory(Vec::new(), "x", spans);
    let calls = row["tool_calls"].as_array().unwrap().iter();
    let text = |value: &Json| value.as_str().map_or(value.to_string(), str::to_owned);
    let found: Vec<String> = calls
        .map(|call| ["name", "id", "origin", "result"].map(|key| text(&call[key])).join(" "))
        .collect();
    assert_eq!(found, expected, "{row:#}");
}

#[test]
fn a_span_inside_a_call_of_the_same_tool_is_that_call() {
    let client = json!({ "mcp.method.name": "tools/call" });
    let server = tool("find", json!({ "mcp.method.name": "tools/call", "error.type": "x" }));
    let spans = [
        span(0, None, "execute_tool find", tool("find", json!({ "gen_ai.tool.call.id": "c1" }))),
        span(1, Some(0), "MCP send tools/call find", client),
        span(2, Some(1), "tools/call find", server),
    ];
    check(&spans, &["find c1 span null"]);
    let row = trajectory(Vec::new(), "x", &spans);
    assert_eq!(row["tool_calls"][0]["status"], "error");
}

#[test]
fn a_tool_that_calls_itself_is_two_calls() {
    let call = |id: &str| tool("find", json!({ "gen_ai.tool.call.id": id }));
    check(
        &[span(0, None, "t", call("c1")), span(1, Some(0), "t", call("c2"))],
        &["find c1 span null", "find c2 span null"],
    );
    let call = |q: &str| tool("find", json!({ "gen_ai.tool.call.arguments": q }));
    check(
        &[span(0, None, "t", call("{\"q\":1}")), span(1, Some(0), "t", call("{\"q\":2}"))],
        &["find null span null", "find null span null"],
    );
}

#[test]
fn a_span_that_comes_again_counts_once_as_it_ended() {
    let mut started = span(0, None, "t", tool("find", json!({})));
    started["endTimeUnixNano"] = json!("0");
    let ended = span(0, None, "t", tool("find", json!({ "gen_ai.tool.call.result": "r" })));
    check(&[started.clone(), ended.clone()], &["find null span r"]);
    check(&[ended, started], &["find null span r"]);
}

#[test]
fn calls_that_only_messages_tell_of_count_once_with_their_result() {
    let spans = [
        span(0, None, "chat", asks("c1", "find")),
        span(1, None, "chat", repeats("c1", "find", "r")),
        span(2, None, "chat", repeats("c1", "find", "r")),
    ];
    check(&spans, &["find c1 llm r"]);
}

#[test]
fn a_span_without_an_id_takes_that_of_the_model_s_call() {
    let arguments = json!({ "gen_ai.tool.call.arguments": "{\"q\":1}" });
    let spans = [
        span(0, None, "chat", asks("c1", "find")),
        span(1, None, "execute_tool find", tool("find", arguments)),
        span(2, None, "chat", repeats("c1", "find", "r")),
    ];
    check(&spans, &["find c1 span r"]);
}

#[test]
fn two_ids_of_one_call_are_one_call() {
    let mut again = repeats("call_1", "find", "r");
    again["gen_ai.output.messages"] = json!("[]");
    let mut second = span(1, None, "chat", again);
    second["startTimeUnixNano"] = json!("2000500");
    let spans = [span(0, None, "chat", asks("fc_9", "find")), second];
    let row = trajectory(Vec::new(), "x", &spans);
    let ids: Vec<_> = row["tool_calls"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
    assert_eq!(ids, ["call_1"], "{row:#}");
}

#[test]
fn a_call_asked_for_in_one_trace_and_run_in_the_next_is_one_call() {
    let session = |mut attributes: Json| {
        attributes["session.id"] = json!("s");
        attributes
    };
    let resolver = resolver(Vec::new());
    let run = tool("pay", json!({ "gen_ai.tool.call.id": "c1" }));
    let mut traces =
        traces(&resolver, &[request("x", &[span(0, None, "chat", session(asks("c1", "pay")))])]);
    let second = request("x", &[span(5, None, "execute_tool pay", session(run))]);
    traces.extend(crate::captures::traces(&resolver, &[second]));
    let mut trajectories: Vec<_> = traces.iter().map(|trace| resolver.resolve(trace)).collect();
    let count = |trajectory: &spanscore_base::model::Trajectory<'_>| trajectory.tool_calls.len();
    assert_eq!(trajectories.iter().map(count).collect::<Vec<_>>(), [1, 1]);
    reconcile(&mut trajectories);
    assert_eq!(trajectories.iter().map(count).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn tokens_count_once_though_outer_spans_repeat_them() {
    let counted = |input: u64| json!({ "gen_ai.usage.input_tokens": input });
    let spans = [
        span(0, None, "invoke_agent a", counted(30)),
        span(1, Some(0), "chat", counted(10)),
        span(2, Some(0), "chat", counted(20)),
    ];
    let row = trajectory(Vec::new(), "x", &spans);
    assert_eq!(row["usage"]["input_tokens"], 30);
    assert_eq!(row["usage"]["output_tokens"], Json::Null);
}

#[test]
fn reply_that_the_root_span_is_about_is_known_by_its_id() {
    let chat = |id: &str| json!({ "gen_ai.operation.name": "chat", "gen_ai.response.id": id });
    let check = |spans: &[Json], expected: Option<&str>| {
        let resolver = resolver(Vec::new());
        let traces = traces(&resolver, &[request("x", spans)]);
        assert_eq!(resolver.resolve(&traces[0]).response_id.as_deref(), expected);
    };
    check(&[span(0, None, "chat", chat("resp_1"))], Some("resp_1"));
    let inside = [span(0, None, "run", json!({})), span(1, Some(0), "chat", chat("resp_1"))];
    check(&inside, None);
}

#[test]
fn large_traces_are_not_quadratic() {
    let spans: Vec<Json> = (0..10_000)
        .map(|at| {
            let parent = (at > 0).then(|| at - 1);
            span(at, parent, "t", tool(&format!("tool_{}", at % 7), json!({})))
        })
        .collect();
    let resolver = resolver(Vec::new());
    let traces = traces(&resolver, &[request("x", &spans)]);
    let start = std::time::Instant::now();
    let trajectory = resolver.resolve(&traces[0]);
    assert_eq!(trajectory.tool_calls.len(), 10_000);
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn explanations_name_sources_and_reasons() {
    let arguments = json!({ "tool.name": "find", "openinference.span.kind": "TOOL",
                            "gen_ai.tool.call.arguments": "{\"q\":1}" });
    let merged = tool("(merged tools)", json!({}));
    let spans = [
        span(0, None, "chat", asks("c1", "find")),
        span(1, None, "find", tool("find", arguments)),
        span(2, None, "merged", merged),
        span(3, None, "tool.approval", json!({ "tool.name": "pay", "tool.arguments": "{}" })),
        span(4, None, "memory.run", json!({ "tool.name": "find", "tool.arguments": "{\"q\":1}" })),
    ];
    let resolver = resolver(Vec::new());
    let traces = traces(&resolver, &[request("x", &spans)]);
    let text = resolver.explain(&traces[0]).to_string();
    for line in [
        "chat: no tool call",
        "find: tool call (openinference; genai-semconv matched too)",
        "    name: attribute `tool.name` (openinference)",
        "    id: messages of a model call",
        "    arguments: attribute `gen_ai.tool.call.arguments` (genai-semconv)",
        "merged: dropped: excluded (by google-adk)",
        "tool.approval: dropped: its name is that of no call",
        "memory.run: part of the call on span 0000000000000002",
        "find c1: the call of a tool span, 0000000000000002",
        "    result: not recorded; there is no",
        "    status: ok, nothing on the span says that it failed",
        "  session_id: not recorded",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn explanations_say_where_each_fact_came_from_and_what_was_passed_over() {
    let root = json!({ "openinference.span.kind": "AGENT", "agent.name": "planner",
        "session.id": "s-1", "input.value": "plan it", "output.value": "__REDACTED__" });
    let inner = json!({ "openinference.span.kind": "CHAIN", "output.value": "the plan" });
    let mut spans = vec![span(0, None, "agent", root), span(1, Some(0), "chain", inner)];
    for at in [2, 3] {
        let mut tool = span(at, Some(0), "find", tool("find", json!({})));
        tool["startTimeUnixNano"] = "1500000".into();
        spans.push(tool);
    }
    let mut answer = span(4, Some(0), "final_result", tool("final_result", json!({})));
    answer["startTimeUnixNano"] = "3000000".into();
    answer["endTimeUnixNano"] = "3100000".into();
    spans.push(answer);
    let resolver = resolver(Vec::new());
    let traces = traces(&resolver, &[request("x", &spans)]);
    let text = resolver.explain(&traces[0]).to_string();
    for line in [
        "  session_id: attribute `session.id` (sessions)",
        "  agent_name: attribute `agent.name` (openinference) on span 0000000000000001",
        "  user_input: attribute `input.value` (openinference) on span 0000000000000001",
        "  group 1: find, find: they began in one instant",
        "    not attribute `output.value` (openinference) on span 0000000000000001: a placeholder",
        "  output tool final_result on span 0000000000000005: a framework's way",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_span_named_by_its_kind_only_is_part_of_the_call_of_its_id() {
    let outer = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
        "gen_ai.tool.call.id": "c1" });
    let inner = json!({ "acme.span.kind": "tool.execution", "acme.tool_call_id": "c1",
        "acme.output": "found" });
    let alone = json!({ "acme.span.kind": "tool.execution", "acme.tool_call_id": "c2",
        "acme.output": "paid" });
    check(
        &[
            span(0, None, "execute_tool find", outer),
            span(1, Some(0), "acme.tool.execution", inner),
            span(2, None, "pay", alone),
        ],
        &["find c1 span found", "pay c2 span paid"],
    );
}

#[test]
fn spans_that_hold_the_id_of_a_call_tell_of_it_under_any_key() {
    let call = json!({ "tool.name": "read", "tool.call_id": "c1" });
    let runs = json!({ "ai.operationId": "ai.toolCall", "ai.toolCall.name": "read",
        "ai.toolCall.id": "c1", "ai.toolCall.result": "r" });
    // A span about the call that names no tool is part of it, or nothing.
    let asks_person = json!({ "acme.toolCallId": "c1", "acme.result": "granted" });
    let spans = [
        span(0, None, "Tool.execute", call),
        span(1, None, "ai.toolCall", runs),
        span(2, None, "Permission.ask", asks_person.clone()),
    ];
    check(&spans, &["read c1 span r"]);
    let own = json!({ "acme.tool.name": "read", "acme.toolCallId": "c2", "acme.output": "r" });
    check(&[span(0, None, "tool.execute", own)], &["read c2 span r"]);
    let chat = json!({ "gen_ai.operation.name": "chat" });
    check(&[span(0, None, "chat", chat), span(1, None, "Permission.ask", asks_person)], &[]);
}

#[test]
fn a_span_written_in_retrospect_is_no_call_but_what_is_run_or_asked_again_is() {
    const SECOND_NS: u64 = 1_000_000_000;
    let at = |second: usize, length_ns: u64, name: &str, attributes: Json| {
        let mut span = span(second, None, name, attributes);
        let start_ns = second as u64 * SECOND_NS;
        span["startTimeUnixNano"] = start_ns.to_string().into();
        span["endTimeUnixNano"] = (start_ns + length_ns).to_string().into();
        span
    };
    let asks = |second: usize, query: &str| {
        let call = json!([{ "role": "assistant", "parts": [{ "type": "tool_call", "id": "c1",
            "name": "find", "arguments": { "q": query } }] }]);
        let chat = json!({ "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": call.to_string() });
        at(second, 9, "chat", chat)
    };
    let runs = |second: usize, length_ns: u64, query: &str, result: &str| {
        let more = json!({ "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": result,
            "gen_ai.tool.call.arguments": json!({ "q": query }).to_string() });
        at(second, length_ns, "execute_tool find", tool("find", more))
    };
    const CALL: &str = "find c1 span r";
    check(&[asks(1, "a"), runs(2, 9, "a", "r"), runs(3, 0, "a", "r")], &[CALL]);
    check(&[asks(1, "a"), runs(2, 9, "a", "r"), runs(3, 9, "a", "r")], &[CALL; 2]);
    let limited = r#"{"error":"rate limited"}"#;
    let failed = format!("find c1 span {limited}");
    let spans = [asks(1, "a"), runs(2, 9, "a", limited), runs(3, 0, "a", limited)];
    check(&spans, &[&*failed; 2]);
    // Numbered per message, an id is asked for three times.
    let query = |at: usize| ["a", "b", "a"][at];
    let turn = |at: usize| [asks(2 * at + 1, query(at)), runs(2 * at + 2, 0, query(at), "r")];
    check(&(0..3).flat_map(turn).collect::<Vec<_>>(), &[CALL; 3]);
}

#[test]
fn a_model_that_stopped_for_tools_without_a_call_records_none() {
    const REASONS: &str = "gen_ai.response.finish_reasons";
    let chat = |reason: Json| json!({ "gen_ai.operation.name": "chat", REASONS: reason });
    let tells = |spans: &[Json]| {
        let row = trajectory(Vec::new(), "x", spans);
        row["not_recorded"].as_array().unwrap().contains(&json!("tool_calls"))
    };
    for reason in ["[\"tool_calls\"]", "[\"stop\",\"tool_use\"]", "tool-calls"] {
        assert!(tells(&[span(0, None, "chat", chat(json!(reason)))]), "{reason}");
    }
    for reason in ["[\"stop\"]", "UNEXPECTED_TOOL_CALL", ""] {
        assert!(!tells(&[span(0, None, "chat", chat(json!(reason)))]), "{reason}");
    }
    let asked = span(0, None, "chat", chat(json!("tool_calls")));
    assert!(!tells(&[asked, span(1, None, "execute_tool find", tool("find", json!({})))]));
}

#[test]
fn a_result_whose_id_no_call_has_names_the_call_of_which_only_the_item_is_known() {
    let messages = json!([
        { "role": "assistant", "parts": [
            { "type": "tool_call", "id": "fc_1", "name": "find", "arguments": { "q": 1 } },
            { "type": "tool_call", "id": "fc_2", "name": "find", "arguments": { "q": 2 } }] },
        { "role": "tool", "parts": [
            { "type": "tool_call_response", "id": "call_x", "response": "one" },
            { "type": "tool_call_response", "id": "call_y", "response": "two" }] }]);
    let answer = json!([messages[0]]);
    let asked = json!({ "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": answer.to_string() });
    let given = json!({ "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": messages.to_string() });
    let mut second = span(1, None, "chat", given);
    second["startTimeUnixNano"] = json!("2000500");
    let found = trajectory(Vec::new(), "x", &[span(0, None, "chat", asked), second]);
    let calls = found["tool_calls"].as_array().unwrap();
    let told: Vec<_> = calls.iter().map(|call| [&call["id"], &call["result"]]).collect();
    let expected = [[&json!("call_x"), &json!("one")], [&json!("call_y"), &json!("two")]];
    assert_eq!(told, expected, "{found:#}");
}

#[test]
fn a_call_of_a_tool_that_the_failed_turn_around_it_does_not_know_failed() {
    let mut turn = span(0, None, "turn", json!({ "openinference.span.kind": "CHAIN" }));
    turn["status"] = json!({ "code": 2, "message": "Tool not found: {'tool_name': 'nope'}" });
    for (name, status) in [("nope", "error"), ("other", "unknown")] {
        let spans = [turn.clone(), span(1, Some(0), "chat", asks("c1", name))];
        let row = trajectory(Vec::new(), "x", &spans);
        assert_eq!(row["tool_calls"][0]["status"], status, "{row:#}");
    }
}
