//! Tests of calls that spans hold.

use opentelemetry_proto::tonic::trace::v1::{Span as SentSpan, Status};
use spanscore_base::model::CallStatus;

use crate::testing::{calls, resolved, span, text};

/// A tool's span, by the id of its call, whose result is a command with a message for each of two.
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
