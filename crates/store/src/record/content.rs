//! Content of a run as JSON: input, output, calls, and the root span's data for evaluators.

use std::fmt;

use super::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, CALLS_MAX, CONTENT_BYTES_MAX, FIELD_BYTES_MAX};
use spanscore_base::model::{Content, ToolCall, Trajectory};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Value, json};

/// Mark of a truncated field.
const TRUNCATED: &str = r#","truncated":true"#;

/// Writes input, output, calls, names and attributes as one JSON object.
pub(super) fn content_of(trajectory: &Trajectory<'_>) -> String {
    let mut out = String::from(r#"{"input":"#);
    field(&trajectory.user_input, &mut out);
    out.push_str(r#","output":"#);
    field(&trajectory.final_output, &mut out);
    named("agent", trajectory.agent_name.as_deref(), &mut out);
    named("span", Some(&trajectory.span_name), &mut out);
    out.push_str(r#","calls":["#);
    for (at, call) in trajectory.tool_calls.iter().take(CALLS_MAX).enumerate() {
        out.push_str(if at == 0 { r#"{"arguments":"# } else { r#",{"arguments":"# });
        field(&call.arguments, &mut out);
        out.push_str(r#","result":"#);
        field(&call.result, &mut out);
        names(call, trajectory.agent_name.as_deref(), &mut out);
        out.push('}');
    }
    out.push(']');
    attributes(&trajectory.attributes, &mut out);
    out.push('}');
    out
}

/// Writes error, id and agent of a call; the agent only if it differs from the run's.
fn names(call: &ToolCall<'_>, agent_of_run: Option<&str>, out: &mut String) {
    named("error", call.error.as_deref(), out);
    named("id", call.id.as_deref(), out);
    match call.agent.as_deref() {
        agent if agent == agent_of_run => {}
        None => out.push_str(r#","agent":null"#),
        agent => named("agent", agent, out),
    }
}

/// Writes a text under a name, after other fields; a truncated one under `<name>_cut`.
fn named(name: &str, value: Option<&str>, out: &mut String) {
    let Some(value) = value else { return };
    let has_room = out.len() <= CONTENT_BYTES_MAX;
    if has_room {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":");
        text(value, out);
    }
    if !has_room || value.len() > FIELD_BYTES_MAX {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("_cut\":true");
    }
}

/// Writes the attributes of the root span; `null` replaces a value that is long or not a scalar.
/// Nothing is written without attributes, with too many or with a long key.
fn attributes(all: &[(&str, AnyValue<'_>)], out: &mut String) {
    let is_over = all.len() > ATTRIBUTES_MAX || out.len() > CONTENT_BYTES_MAX;
    if all.is_empty() || is_over || all.iter().any(|(key, _)| key.len() > ATTRIBUTE_BYTES_MAX) {
        return;
    }
    out.push_str(r#","attributes":{"#);
    for (at, (key, value)) in all.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        text(key, out);
        out.push(':');
        let is_short = |it: &&str| it.len() <= ATTRIBUTE_BYTES_MAX;
        let scalar = match *value {
            AnyValue::String(it) => Some(it).filter(is_short).map_or(Value::Null, Value::from),
            AnyValue::Bool(it) => Value::from(it),
            AnyValue::Int(it) => Value::from(it),
            AnyValue::Double(it) => Value::from(it),
            _ => Value::Null,
        };
        // Writing to a String cannot fail.
        let _ = json::write(&scalar, out);
    }
    out.push('}');
}

/// Writes one field: its value under `value`, or the reason that it is `absent`.
fn field(content: &Content<'_>, out: &mut String) {
    if out.len() > CONTENT_BYTES_MAX {
        out.push_str(r#"{"absent":"left_out"}"#);
        return;
    }
    match content {
        Content::NotRecorded => out.push_str(r#"{"absent":"not_recorded"}"#),
        Content::Redacted => out.push_str(r#"{"absent":"redacted"}"#),
        Content::Unreadable(raw) => {
            out.push_str(r#"{"absent":"unreadable","value":"#);
            text(raw, out);
            out.push_str(if raw.len() > FIELD_BYTES_MAX { TRUNCATED } else { "" });
            out.push('}');
        }
        Content::Recorded(value) => {
            out.push_str(r#"{"value":"#);
            recorded(value.get(), out);
            out.push('}');
        }
    }
}

/// Writes a value; one that is too long becomes a text of its beginning.
fn recorded(value: &Value<'_>, out: &mut String) {
    let start = out.len();
    let mut limited = LimitedWriter { out, left: FIELD_BYTES_MAX };
    if json::write(value, &mut limited).is_err() {
        let beginning = out.split_off(start);
        text(&beginning, out);
        out.push_str(TRUNCATED);
    }
}

/// Writer that fails at its limit, so that the rest of a long value is not read.
pub(super) struct LimitedWriter<'a> {
    pub(super) out: &'a mut String,
    /// Remaining bytes.
    pub(super) left: usize,
}

impl fmt::Write for LimitedWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fitting = &text[..text.floor_char_boundary(self.left)];
        self.out.push_str(fitting);
        self.left -= fitting.len();
        if fitting.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

fn text(text: &str, out: &mut String) {
    let end = text.floor_char_boundary(FIELD_BYTES_MAX);
    // Writing to a String cannot fail.
    let _ = json::write_string(&text[..end], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(trajectory: Trajectory<'_>) -> serde_json::Value {
        serde_json::from_str(&content_of(&trajectory)).unwrap()
    }

    #[test]
    fn long_values_are_cut_to_a_text_that_says_so() {
        let check = |bytes: usize, is_cut: bool| {
            let user_input = Content::ready(Value::from("ä".repeat(bytes / 2)));
            let content = content(Trajectory { user_input, ..Trajectory::default() });
            let input = &content["input"];
            assert_eq!(input["truncated"] == true, is_cut, "{bytes}");
            assert!(input["value"].as_str().unwrap().len() <= FIELD_BYTES_MAX, "{bytes}");
        };
        // Two bytes are the quotes.
        check(FIELD_BYTES_MAX - 2, false);
        check(FIELD_BYTES_MAX, true);
        check(8 * FIELD_BYTES_MAX, true);
    }

    #[test]
    fn errors_count_toward_the_content_of_a_run() {
        let error = || Some("e".repeat(FIELD_BYTES_MAX).into());
        let call = || ToolCall { error: error(), ..ToolCall::default() };
        let tool_calls = std::iter::repeat_with(call).take(100).collect();
        let content = content_of(&Trajectory { tool_calls, ..Trajectory::default() });
        assert!(content.len() < CONTENT_BYTES_MAX + 2 * FIELD_BYTES_MAX, "{}", content.len());
    }
}
