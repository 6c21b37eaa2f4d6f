//! What a run did and answered where nothing marks it: calls that only the history of one request
//! tells of, messages in events and under keys of an instrumentation's own, output tools, answers
//! that are empty.

use serde_json::{Value as Json, json};

use crate::traps::{span, trajectory};

/// Name, id and result of each call.
fn calls(row: &Json) -> Vec<[&Json; 3]> {
    let calls = row["tool_calls"].as_array().unwrap().iter();
    calls.map(|call| [&call["name"], &call["id"], &call["result"]]).collect()
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
