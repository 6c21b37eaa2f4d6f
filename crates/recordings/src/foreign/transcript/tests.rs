use serde_json::json;

use super::super::read;
use super::*;

/// Returns the spans of a text, one per line: name, duration, agent and session, then input and
/// output, shortened.
fn lines(value: &Json) -> Vec<String> {
    let spans = match value {
        Json::Array(items) => spans_of_list(items, "here").unwrap(),
        Json::Object(map) => spans_of_object(map, "here").unwrap().unwrap(),
        _ => Vec::new(),
    };
    let line = |span: &ForeignSpan| {
        let word = |key: &str| {
            let found = span.attributes.iter().find(|(known, _)| known == key);
            found.and_then(|(_, value)| value.as_str()).unwrap_or("-").to_owned()
        };
        let messages = |key: &str| {
            let messages: Vec<Json> = serde_json::from_str(&word(key)).unwrap_or_default();
            messages.len()
        };
        format!(
            "{} {} {} {} {}>{}",
            span.name,
            span.end_ns - span.start_ns,
            word("gen_ai.agent.name"),
            word("gen_ai.conversation.id"),
            messages("gen_ai.input.messages"),
            messages("gen_ai.output.messages")
        )
    };
    spans.iter().map(line).collect()
}

#[test]
fn a_run_has_a_span_for_each_turn_of_the_model() {
    let user = json!({"role": "user", "content": "hi"});
    let model = json!({"role": "assistant", "content": "ho"});
    let tool = json!({"role": "tool", "tool_call_id": "c", "content": "4"});
    assert_eq!(
        lines(&json!([user, model, tool, tool, model, model, tool])),
        ["invoke_agent 6 - - 1>1", "chat 1 - - 1>1", "chat 2 - - 2>2", "chat 0 - - 1>0"]
    );
    let items =
        json!({"input": [user], "output": [{"type": "function_call", "call_id": "c"}, model]});
    assert_eq!(lines(&items), ["invoke_agent 2 - - 1>1", "chat 2 - - 1>2"]);
}

#[test]
fn a_session_has_a_run_for_each_prompt() {
    let event = |kind: &str, second: u32, content: Json, aside: bool| {
        json!({"type": kind, "sessionId": "s", "uuid": second.to_string(), "isSidechain": aside,
            "timestamp": format!("2026-03-02T08:00:{second:02}Z"),
            "message": {"role": kind, "content": content}})
    };
    let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "x"}]);
    let session = json!([
        {"type": "summary", "leafUuid": "u", "summary": "s"},
        event("user", 0, "go".into(), false),
        event("assistant", 1, "a".into(), false),
        event("user", 2, result, false),
        event("user", 3, "aside".into(), true),
        event("assistant", 4, "b".into(), true),
        event("assistant", 5, "c".into(), false),
        event("user", 9, "more".into(), false),
    ]);
    assert_eq!(
        lines(&session),
        [
            "invoke_agent 5000000000 claude-code s 1>1",
            "chat 1000000000 - - 1>1",
            "chat 1000000000 - - 2>1",
            "chat 0 - - 0>1",
            "invoke_agent 1000000000 subagent - 0>0",
            "invoke_agent 0 claude-code s 1>0",
            "chat 0 - - 1>0",
        ]
    );
}

#[test]
fn equal_words_at_two_places_are_two_runs() {
    let chat = [json!({"role": "user", "content": "hi"})];
    let id = |origin: &str| spans_of_list(&chat, origin).unwrap()[0].trace_id.clone();
    assert_eq!(id("a.json"), id("a.json"));
    assert_ne!(id("a.json"), id("b.json"));
}

#[test]
fn what_is_no_transcript_is_said_to_be_none() {
    for (text, error) in [
        (r#"{"messages": []}"#, "a transcript without messages"),
        (r#"{"eval": {}, "status": "success"}"#, "without samples"),
        (r#"{"messages": ["hi"]}"#, "nor a transcript: messages with a `role`"),
        (r#"[{"role": "admin", "content": "x"}]"#, "nor a transcript"),
        (r#"[{"role": "user"}]"#, "nor a transcript"),
    ] {
        let found = read(text.as_bytes(), "here").unwrap_err();
        assert!(found.contains(error), "{text}: {found}");
    }
}
