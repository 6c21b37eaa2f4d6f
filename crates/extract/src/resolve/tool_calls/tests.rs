//! Tests of calls on spans, and of their results from histories.

use opentelemetry_proto::tonic::trace::v1::{Span as SentSpan, Status};
use spanscore_base::model::CallStatus;

use crate::testing::{calls, resolved, span, text};

/// Returns a tool's span with a call's id; its result is a command with a message for each of two
/// calls.
fn commanded(id: &str) -> SentSpan {
    let message = |id, content, status| {
        let head = r#""type": "tool", "tool_call_id""#;
        format!(r#"{{{head}: "{id}", "content": "{content}", "status": "{status}"}}"#)
    };
    let both = [message("a", "packed", "success"), message("b", "no room", "error")].join(", ");
    let attributes = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", "pack"),
        text("gen_ai.tool.call.id", id),
        text("gen_ai.tool.call.result", &format!(r#"{{"update": {{"messages": [{both}]}}}}"#)),
    ];
    span(1, "execute_tool pack", attributes)
}

fn check(span: SentSpan, status: CallStatus, result: &str, error: Option<&str>) {
    resolved(calls(), vec![span], |trajectory| {
        let [call] = &trajectory.tool_calls[..] else { panic!("one call") };
        let found = call.result.value().map(ToString::to_string).unwrap_or_default();
        assert_eq!((call.status, found.as_str(), call.error.as_deref()), (status, result, error));
    });
}

#[test]
fn command_tells_of_each_call_its_own_failure() {
    check(commanded("a"), CallStatus::Ok, r#""packed""#, None);
    check(commanded("b"), CallStatus::Error, r#""no room""#, Some("no room"));
    let status = Status { code: 2, message: "lost".into() };
    let failed = |id| SentSpan { status: Some(status.clone()), ..commanded(id) };
    check(failed("a"), CallStatus::Error, r#""packed""#, Some("lost"));
    check(failed("b"), CallStatus::Error, r#""no room""#, Some("no room"));
}

/// Returns a model's message that requests the weather.
fn asks(id: &str) -> String {
    let call = r#""type": "tool_call", "name": "weather", "arguments": {"city": "Rome"}"#;
    format!(r#"{{"role": "assistant", "parts": [{{{call}, "id": "{id}"}}]}}"#)
}

/// Returns a message with the result of a call.
fn answers(id: &str, result: &str) -> String {
    let part = r#""type": "tool_call_response""#;
    format!(r#"{{"role": "tool", "parts": [{{{part}, "id": "{id}", "response": "{result}"}}]}}"#)
}

fn says(text: &str) -> String {
    let part = format!(r#"{{"type": "text", "content": "{text}"}}"#);
    format!(r#"{{"role": "user", "parts": [{part}]}}"#)
}

/// Checks the result of a model's call whose history has ids of its own.
fn check_renamed(history: &[String], expected: Option<&str>) {
    let chat = |id, start, key: &str, messages: &[String]| SentSpan {
        trace_id: vec![1; 16],
        start_time_unix_nano: start,
        end_time_unix_nano: start + 5,
        ..span(
            id,
            "chat",
            vec![
                text("gen_ai.operation.name", "chat"),
                text(key, &format!("[{}]", messages.join(", "))),
            ],
        )
    };
    let spans = vec![
        chat(1, 10, "gen_ai.output.messages", &[asks("call-2")]),
        chat(2, 20, "gen_ai.input.messages", history),
    ];
    resolved(calls(), spans, |trajectory| {
        let [call] = &trajectory.tool_calls[..] else { panic!("{}", trajectory.tool_calls.len()) };
        let found = call.result.value().and_then(|value| value.as_str());
        assert_eq!(found, expected, "{history:?}");
    });
}

#[test]
fn renamed_call_has_no_result_of_an_earlier_turn() {
    let earlier = [says("Rome?"), asks("x1"), answers("x1", "rain"), says("And now?")];
    let turn = |more: &[String]| [&earlier[..], more].concat();
    check_renamed(&turn(&[asks("x2"), answers("x2", "sun")]), Some("sun"));
    check_renamed(&turn(&[asks("x2")]), None);
    let twice = [asks("x2"), answers("x2", "sun"), asks("x3"), answers("x3", "fog")];
    check_renamed(&turn(&twice), None);
}
