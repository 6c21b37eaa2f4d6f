//! What a run did and answered where nothing marks it: calls that only the history of one request
//! tells of, messages in events and under keys of an instrumentation's own, output tools, answers
//! that are empty.

use serde_json::{Value as Json, json};

use crate::traps::{span, trajectory};

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
