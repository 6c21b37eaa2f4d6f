//! Actions and answers of runs where nothing marks them: calls that only the history of one request
//! tells of, messages in events and under keys of an instrumentation's own, output tools, answers
//! that are empty.

use serde_json::{Value as Json, json};
use spanscore_extract::reconcile;

use crate::captures::{resolver, traces};
use crate::traps::{request, span, trajectory};

fn history() -> Json {
    json!([
        { "role": "user", "content": "Earlier?" },
        { "role": "assistant", "content": null, "tool_calls": [call("c0", "old")] },
        { "role": "tool", "tool_call_id": "c0", "content": "then" },
        { "role": "user", "content": "Go?" },
        { "role": "assistant", "content": null,
          "tool_calls": [call("c1", "weather"), call("c2", "book")] },
        { "role": "tool", "tool_call_id": "c1", "content": "fair" },
        { "role": "tool", "tool_call_id": "c2", "content": "booked" }])
}

fn call(id: &str, name: &str) -> Json {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } })
}

fn reply() -> Json {
    json!({ "choices": [{ "message": { "role": "assistant", "content": "Fair." } }] })
}

fn model_call(more: Json) -> Json {
    let mut attributes = json!({ "acme.request": json!({ "messages": history() }).to_string(),
        "acme.response": reply().to_string() });
    attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    attributes
}

/// Name, id and result of each call.
fn calls(row: &Json) -> Vec<[&Json; 3]> {
    let calls = row["tool_calls"].as_array().unwrap().iter();
    calls.map(|call| [&call["name"], &call["id"], &call["result"]]).collect()
}

fn with_events(mut span: Json, events: &[(&str, Json)]) -> Json {
    let events = events.iter().map(|(name, attributes)| {
        let text =
            |(key, text): (&String, &Json)| json!({ "key": key, "value": { "stringValue": text } });
        let attributes: Vec<_> = attributes.as_object().unwrap().iter().map(text).collect();
        json!({ "name": name, "timeUnixNano": "1000000", "attributes": attributes })
    });
    span["events"] = events.collect();
    span
}

#[test]
fn calls_behind_the_users_last_message_belong_to_the_run_of_the_only_request() {
    let spans = [span(0, None, "run", json!({})), span(1, Some(0), "call", model_call(json!({})))];
    let row = trajectory(Vec::new(), "x", &spans);
    let expected = [
        [&json!("weather"), &json!("c1"), &json!("fair")],
        [&json!("book"), &json!("c2"), &json!("booked")],
    ];
    assert_eq!(calls(&row), expected, "{row:#}");
    assert_eq!(row["user_input"], "Go?");
    assert_eq!(row["final_output"], "Fair.");
}

#[test]
fn calls_before_a_request_that_is_all_of_its_trace_are_another_trace_s() {
    let row = trajectory(Vec::new(), "x", &[span(0, None, "call", model_call(json!({})))]);
    assert_eq!(calls(&row), <[[&Json; 3]; 0]>::default(), "{row:#}");
    assert!(row["not_recorded"].as_array().unwrap().contains(&json!("tool_calls")), "{row:#}");
}

#[test]
fn a_call_that_another_trace_of_the_session_asked_for_is_not_repeated() {
    let session = json!({ "session.id": "s" });
    let asked = json!([{ "role": "assistant", "parts": [
        { "type": "tool_call", "id": "c1", "name": "weather", "arguments": {} }] }]);
    let first = json!({ "gen_ai.operation.name": "chat", "session.id": "s",
        "gen_ai.output.messages": asked.to_string() });
    let resolver = resolver(Vec::new());
    let mut both = traces(&resolver, &[request("x", &[span(0, None, "chat", first)])]);
    let second = [span(5, None, "run", session), span(6, Some(5), "call", model_call(json!({})))];
    both.extend(traces(&resolver, &[request("x", &second)]));
    let mut trajectories: Vec<_> = both.iter().map(|trace| resolver.resolve(trace)).collect();
    reconcile(&mut trajectories);
    let names = trajectories.iter().map(|trajectory| {
        trajectory.tool_calls.iter().map(|call| call.name.to_string()).collect::<Vec<_>>()
    });
    assert_eq!(names.collect::<Vec<_>>(), [vec!["weather"], vec!["book"]]);
}

#[test]
fn span_events_tell_messages_by_their_names_and_attributes() {
    let chat = || span(1, Some(0), "chat m", json!({ "gen_ai.operation.name": "chat" }));
    let asked = json!([call("c1", "weather")]).to_string();
    let flat = [
        ("gen_ai.user.message", json!({ "content": "Go?" })),
        ("gen_ai.assistant.message", json!({ "tool_calls": asked })),
        ("gen_ai.tool.message", json!({ "id": "c1", "content": "fair" })),
        ("gen_ai.choice", json!({ "message": json!({ "content": "Fair." }).to_string() })),
    ];
    let whole = |content: Json| json!({ "gen_ai.event.content": content.to_string() });
    let wrapped = [
        ("gen_ai.user.message", whole(json!({ "content": "Go?" }))),
        ("gen_ai.assistant.message", whole(json!({ "tool_calls": [call("c1", "weather")] }))),
        ("gen_ai.tool.message", whole(json!({ "id": "c1", "content": "fair" }))),
        ("gen_ai.choice", whole(json!({ "message": { "content": "Fair." } }))),
    ];
    for events in [flat, wrapped] {
        let spans = [span(0, None, "run", json!({})), with_events(chat(), &events)];
        let row = trajectory(Vec::new(), "x", &spans);
        let expected = [[&json!("weather"), &json!("c1"), &json!("fair")]];
        assert_eq!(calls(&row), expected, "{row:#}");
        assert_eq!([&row["user_input"], &row["final_output"]], ["Go?", "Fair."], "{row:#}");
    }
}

#[test]
fn messages_stand_field_by_field_behind_any_prefix() {
    for message in ["message.", ""] {
        let asked = format!("acme.input_messages.1.{message}tool_calls.0.tool_call");
        let keys = json!({
            format!("acme.input_messages.0.{message}role"): "user",
            format!("acme.input_messages.0.{message}content"): "Go?",
            format!("acme.input_messages.1.{message}role"): "assistant",
            format!("{asked}.id"): "c1",
            format!("{asked}.function.name"): "weather",
            format!("{asked}.function.arguments"): "{}",
            format!("acme.input_messages.2.{message}role"): "tool",
            format!("acme.input_messages.2.{message}tool_call_id"): "c1",
            format!("acme.input_messages.2.{message}content"): "fair",
            format!("acme.output_messages.0.{message}role"): "assistant",
            format!("acme.output_messages.0.{message}content"): "Fair.",
        });
        let spans = [span(0, None, "run", json!({})), span(1, Some(0), "llm", keys)];
        let row = trajectory(Vec::new(), "x", &spans);
        let expected = [[&json!("weather"), &json!("c1"), &json!("fair")]];
        assert_eq!(calls(&row), expected, "{row:#}");
        assert_eq!([&row["user_input"], &row["final_output"]], ["Go?", "Fair."], "{row:#}");
    }
}

#[test]
fn an_output_tool_is_known_by_its_name_or_by_what_it_was_given() {
    let check = |tool: &str, given: Json, told: &str, answer: Json, later: bool| {
        let agent = json!({ "openinference.span.kind": "AGENT", "input.value": "Go?",
            "output.value": answer.as_str().map_or(answer.to_string(), str::to_owned) });
        let keys = json!({ "openinference.span.kind": "TOOL", "tool.name": tool,
            "input.value": given.to_string(), "output.value": told });
        let mut spans = vec![span(0, None, "agent", agent), span(1, Some(0), tool, keys)];
        if later {
            let model = json!({ "openinference.span.kind": "LLM" });
            spans.push(span(2, Some(0), "llm", model));
        }
        let row = trajectory(Vec::new(), "x", &spans);
        row["tool_calls"][0]["is_output"] == true
    };
    let object = || json!({ "a": 1 });
    for named in ["set_model_response", "StructuredOutput", "final_result_Trip", "json_tool_call"] {
        assert!(check(named, object(), "ok", json!("Done."), true), "{named}");
    }
    assert!(!check("final_resulting", object(), "ok", json!("Done."), true));
    assert!(check("submit", object(), "ok", object(), false));
    // The text of the answer tells the object, or the framework says what the call was.
    for told in ["{\"a\": 1}", "a=1", "Returning structured response: a=1"] {
        assert!(check("submit", object(), "ok", json!(told), false), "{told}");
        assert!(!check("submit", object(), "ok", json!(told), true), "{told}");
    }
    let told = "Successfully validated Trip structured output";
    assert!(check("Trip", object(), told, json!(""), true));
    assert!(!check("submit", object(), "ok", json!("a=2"), false));
    // The model was asked again, and wrote the answer itself.
    assert!(!check("submit", object(), "ok", object(), true));
    assert!(check("submit", json!({ "answer": "Fair." }), "ok", json!("Fair."), false));
    // What a tool gives back, an agent may pass on.
    assert!(!check("say", json!({ "answer": "Fair." }), "Fair.", json!("Fair."), false));
    assert!(!check("pay", object(), "ok", json!("Paid."), false));
}

#[test]
fn a_wrapped_answer_is_what_the_output_tool_gives_back() {
    let keys = json!({ "openinference.span.kind": "TOOL", "tool.name": "set_model_response",
        "input.value": "{\"items\": [1, 2]}", "output.value": "[1, 2]" });
    let agent = json!({ "openinference.span.kind": "AGENT", "input.value": "Go?" });
    let spans = [span(0, None, "agent", agent), span(1, Some(0), "set_model_response", keys)];
    let row = trajectory(Vec::new(), "x", &spans);
    assert_eq!(row["final_output"], json!([1, 2]), "{row:#}");
}

#[test]
fn an_empty_reply_is_the_answer_though_flattened_messages_leave_it_out() {
    let reply = |content: Json, asks: Json| {
        let message = json!({ "role": "assistant", "content": content, "tool_calls": asks });
        json!({ "choices": [{ "message": message }] }).to_string()
    };
    let first = json!({ "openinference.span.kind": "LLM",
        "output.value": reply(json!("One moment."), json!([call("c1", "weather")])),
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "One moment." });
    let last = |content: Json| {
        json!({ "openinference.span.kind": "LLM",
            "output.value": reply(content, Json::Null),
            "llm.output_messages.0.message.role": "assistant" })
    };
    let answer = |content: Json| {
        let spans = [
            span(0, None, "run", json!({})),
            span(1, Some(0), "llm", first.clone()),
            span(2, Some(0), "llm", last(content)),
        ];
        trajectory(Vec::new(), "x", &spans)["final_output"].clone()
    };
    assert_eq!(answer(json!("")), "");
    assert_eq!(answer(json!("Fair.")), "Fair.");
}
