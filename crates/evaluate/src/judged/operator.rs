//! System instructions of an agent, written by its operator.
//!
//! They come from the original attributes of model spans: `gen_ai.system_instructions` (GenAI
//! semantic conventions: parts with text), and the first input message if its role is `system` or
//! `developer` (OpenInference, OpenLLMetry).

use spanscore_base::model::Trajectory;
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Value, json};

/// Attribute of the GenAI semantic conventions.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";

/// Keys of role and text of the first message, by instrumentation.
const FIRST_MESSAGES: [(&str, &str); 2] = [
    ("llm.input_messages.0.message.role", "llm.input_messages.0.message.content"),
    ("gen_ai.prompt.0.role", "gen_ai.prompt.0.content"),
];

/// Limit on distinct texts; later ones of a run are rarely system instructions.
const TEXTS_MAX: usize = 8;

/// Returns the attributes to retain, for [`Facts::attributes`](spanscore_base::model::Facts).
pub(crate) fn attributes() -> Vec<Vec<String>> {
    let firsts = FIRST_MESSAGES.iter().map(|(role, text)| vec![*role, *text]);
    let groups = [vec![SYSTEM_INSTRUCTIONS]].into_iter().chain(firsts);
    groups.map(|keys| keys.into_iter().map(str::to_owned).collect()).collect()
}

/// Returns the bytes of the retained attributes, searched for instructions.
pub(crate) fn kept_bytes(trajectory: &Trajectory<'_>) -> usize {
    let attributes = trajectory.kept_spans.iter().flat_map(|span| &span.attributes);
    let bytes = |(_, value): &(&str, AnyValue<'_>)| match value {
        AnyValue::String(text) => text.len(),
        AnyValue::InvalidText(bytes)
        | AnyValue::Bytes(bytes)
        | AnyValue::Array(bytes)
        | AnyValue::KeyValues(bytes) => bytes.len(),
        _ => 0,
    };
    attributes.map(bytes).sum()
}

/// Collects the distinct system instructions of a trajectory in the order of their first span, with
/// that span's start (Unix nanoseconds).
pub(crate) fn texts(trajectory: &Trajectory<'_>) -> Vec<(u64, String)> {
    let mut spans: Vec<_> = trajectory.kept_spans.iter().collect();
    spans.sort_by_key(|span| span.start_ns);
    let mut found: Vec<(u64, String)> = Vec::new();
    for span in spans {
        let get = |key: &str| {
            let value = span.attributes.iter().find(|(own, _)| *own == key)?.1;
            value.to_value().ok()
        };
        let firsts = FIRST_MESSAGES.iter().filter_map(|(role, text)| {
            let role = get(role)?;
            matches!(role.as_str(), Some("system" | "developer")).then(|| get(text))?
        });
        for value in get(SYSTEM_INSTRUCTIONS).into_iter().chain(firsts) {
            let text = text_of(&value);
            let is_found = || found.iter().any(|(_, known)| *known == text);
            if !text.is_empty() && found.len() < TEXTS_MAX && !is_found() {
                found.push((span.start_ns, text));
            }
        }
    }
    found
}

/// Returns the text of a message, which may be a list of parts or its JSON.
fn text_of(value: &Value<'_>) -> String {
    let Value::String(text) = value else { return parts(value) };
    match json::parse(text) {
        Ok(parsed @ (Value::List(_) | Value::Map(_))) => match parts(&parsed) {
            read if read.is_empty() => text.to_string(),
            read => read,
        },
        _ => text.to_string(),
    }
}

fn parts(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::List(list) => {
            let texts = list.iter().map(parts).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Map(map) => {
            let part = map.get("content").or_else(|| map.get("text"));
            part.map(parts).unwrap_or_default()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::trajectory::KeptSpan;
    use spanscore_base::otlp::AnyValue;

    fn check(attributes: &[(&'static str, &'static str)], expected: &[&str]) {
        let attributes = attributes.iter().map(|(key, text)| (*key, AnyValue::String(text)));
        let span = KeptSpan {
            span_id: Default::default(),
            start_ns: 1,
            end_ns: 2,
            attributes: attributes.collect(),
        };
        let trajectory = Trajectory { kept_spans: vec![span], ..Trajectory::default() };
        let expected: Vec<_> = expected.iter().map(|text| (1, (*text).to_owned())).collect();
        assert_eq!(texts(&trajectory), expected);
    }

    #[test]
    fn instructions_are_read_as_frameworks_write_them() {
        check(&[(SYSTEM_INSTRUCTIONS, r#"[{"type":"text","content":"Be kind."}]"#)], &["Be kind."]);
        check(&[(SYSTEM_INSTRUCTIONS, "Be kind.")], &["Be kind."]);
        let [(role, text), _] = FIRST_MESSAGES;
        check(&[(role, "system"), (text, "Be kind.")], &["Be kind."]);
        check(&[(role, "user"), (text, "Hello")], &[]);
    }
}
