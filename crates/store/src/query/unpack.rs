//! Unpacked content of a run: values for people, and a trajectory for evaluators.

use std::io::{BufReader, Read};

use hashbrown::HashMap;

use super::restore::RestoredCall;
use crate::part::{StoredGap, StoredPart};
use crate::record::{FACTS_VERSION, IS_OF_MODEL, IS_OUTPUT, usage_of};
use crate::source::{OTHER_SUM, ResourceSums};
use spanscore_base::model::{Content, Origin, ToolCall, Trajectory};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Number, Value, json};

/// Largest unpacked content.
const CONTENT_BYTES_MAX: usize = 16 << 20;

/// Fields of a run that show its completeness.
const RUN_FIELDS: [(&str, StoredPart); 4] = [
    ("input", StoredPart::Input),
    ("output", StoredPart::Output),
    ("agent_cut", StoredPart::Agents),
    ("span_cut", StoredPart::SpanName),
];
const CALL_FIELDS: [(&str, StoredPart); 5] = [
    ("arguments", StoredPart::Arguments),
    ("result", StoredPart::Results),
    ("error_cut", StoredPart::Errors),
    ("id_cut", StoredPart::CallIds),
    ("agent_cut", StoredPart::Agents),
];

/// Unpacked content.
pub(super) struct UnpackedContent(Value<'static>);

/// Returns the text of a packed content.
pub(super) fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    zstd::bulk::decompress(packed, CONTENT_BYTES_MAX).ok()
}

/// Returns the input, the first part of a packed content, without unpacking the rest.
pub(super) fn unpacked_input(packed: &[u8]) -> Option<serde_json::Value> {
    const BEGIN: &[u8] = br#"{"input":"#;
    let mut text = BufReader::new(zstd::Decoder::with_buffer(packed).ok()?);
    let mut begin = [0; BEGIN.len()];
    text.read_exact(&mut begin).ok()?;
    let mut values = serde_json::Deserializer::from_reader(text).into_iter();
    values.next().filter(|_| begin[..] == *BEGIN)?.ok()
}

impl UnpackedContent {
    /// Reads a packed content; `None` if malformed or empty.
    pub(super) fn read(packed: &[u8]) -> Option<Self> {
        let text = String::from_utf8(unpacked(packed)?).ok()?;
        let value = json::parse(&text).ok()?.into_owned();
        value.get("calls").is_some().then_some(Self(value))
    }

    /// Returns the parts that are truncated, redacted or missing.
    pub(super) fn gaps(&self) -> HashMap<StoredPart, StoredGap> {
        let mut gaps = HashMap::new();
        for part in self.texts("replaced").filter_map(|word| word.parse::<StoredPart>().ok()) {
            gaps.insert(part, StoredGap::Redacted);
        }
        for (name, part) in RUN_FIELDS {
            if self.0.get(name).is_some_and(is_cut) {
                gaps.insert(part, StoredGap::Cut);
            }
        }
        let calls = self.0.get("calls").and_then(Value::as_list).unwrap_or_default();
        for (name, part) in CALL_FIELDS {
            if calls.iter().filter_map(|call| call.get(name)).any(is_cut) {
                gaps.insert(part, StoredGap::Cut);
            }
        }
        if self.0.get("attributes").is_none() {
            gaps.insert(StoredPart::Attributes, StoredGap::NotStored);
        }
        gaps
    }

    /// Returns the keys of attributes with a missing or redacted value.
    pub(super) fn attribute_gaps(&self) -> impl Iterator<Item = (&str, StoredGap)> {
        let all = self.0.get("attributes").and_then(Value::as_map);
        let cut = all.into_iter().flat_map(|all| all.iter()).filter(|(_, it)| it.is_null());
        let cut = cut.map(|(key, _)| (key, StoredGap::Cut));
        cut.chain(self.texts("replaced_attributes").map(|key| (key, StoredGap::Redacted)))
    }

    /// Returns the sums of the resource; for a run stored without them, those of no text.
    pub(super) fn resource_sums(&self) -> ResourceSums {
        let sums = self.0.get("facts").and_then(|facts| facts.get("resource"));
        let Some([a, b, c]) = sums.and_then(Value::as_list) else { return [Some(OTHER_SUM); 3] };
        [a, b, c].map(|sum| unsigned(sum).and_then(|sum| u32::try_from(sum).ok()))
    }

    /// Returns the texts of a list among the facts.
    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let list = self.0.get("facts").and_then(|facts| facts.get(name)).and_then(Value::as_list);
        list.unwrap_or_default().iter().filter_map(Value::as_str)
    }

    /// Completes a trajectory; `None` if the stored content has another version.
    pub(super) fn fill<'c>(
        &'c self,
        base: Trajectory<'c>,
        calls: &'c [RestoredCall],
    ) -> Option<Trajectory<'c>> {
        let facts = self.0.get("facts")?;
        let number = |name| facts.get(name).and_then(Value::as_number).and_then(Number::as_i64);
        let count = |name| number(name).and_then(|it| u64::try_from(it).ok());
        (number("version") == Some(FACTS_VERSION)).then_some(())?;
        let start_ns = count("start")?;
        let of_calls = facts.get("calls")?.as_list()?;
        let contents = self.0.get("calls")?.as_list()?;
        (of_calls.len() == calls.len() && contents.len() == calls.len()).then_some(())?;
        let text = |name| self.0.get(name).and_then(Value::as_str);
        let agent = text("agent");
        let rows = calls.iter().zip(contents).zip(of_calls);
        let tool_calls: Option<Vec<_>> = rows
            .map(|((row, content), facts)| {
                let its = call(row, content, facts.as_list()?, start_ns)?;
                Some(ToolCall { agent: agent_of(content, agent).map(Into::into), ..its })
            })
            .collect();
        let usage: Vec<_> = facts.get("usage")?.as_list()?.iter().map(unsigned).collect();
        Some(Trajectory {
            span_name: text("span").unwrap_or_default().into(),
            agent_name: agent.map(Into::into),
            attributes: self.attributes(),
            start_ns,
            end_ns: count("end")?,
            tool_calls: tool_calls?,
            user_input: content(self.0.get("input")),
            final_output: content(self.0.get("output")),
            usage: usage_of(&usage),
            bytes: usize::try_from(count("bytes")?).ok()?,
            ..base
        })
    }

    fn attributes(&self) -> Vec<(&str, AnyValue<'_>)> {
        let all = self.0.get("attributes").and_then(Value::as_map);
        let all = all.into_iter().flat_map(|all| all.iter());
        all.filter_map(|(key, value)| Some((key, scalar(value)?))).collect()
    }
}

fn scalar<'v>(value: &'v Value<'_>) -> Option<AnyValue<'v>> {
    match value {
        Value::String(text) => Some(AnyValue::String(text)),
        Value::Bool(it) => Some(AnyValue::Bool(*it)),
        Value::Number(Number::Int(it)) => Some(AnyValue::Int(*it)),
        Value::Number(number) => Some(AnyValue::Double(number.as_f64())),
        _ => None,
    }
}

/// Builds a call from its row, content and facts.
fn call<'c>(
    row: &'c RestoredCall,
    fields: &'c Value<'_>,
    facts: &[Value<'_>],
    start_ns: u64,
) -> Option<ToolCall<'c>> {
    let [group, place, flags, start, end] = facts else { return None };
    let number = |value: &Value<'_>| value.as_number().and_then(Number::as_i64);
    let flags = number(flags)?;
    let text = |name| fields.get(name).and_then(Value::as_str).map(Into::into);
    let at = |after: i64| start_ns.wrapping_add(after.cast_unsigned());
    let origin = if flags & IS_OF_MODEL == 0 { Origin::Span } else { Origin::Llm };
    Some(ToolCall {
        name: row.tool.as_str().into(),
        id: text("id"),
        arguments: content(fields.get("arguments")),
        result: content(fields.get("result")),
        error: text("error"),
        status: row.status,
        origin,
        is_output: flags & IS_OUTPUT != 0,
        is_repeated: row.is_repeated,
        span_id: row.span_id,
        group: u32::try_from(number(group)?).ok()?,
        message_place: number(place).and_then(|it| u32::try_from(it).ok()),
        start_ns: at(number(start)?),
        end_ns: number(end).map_or(0, at),
        ..ToolCall::default()
    })
}

/// Returns the agent of a call: the run's, unless the content has another, or none.
fn agent_of<'c>(fields: &'c Value<'_>, of_run: Option<&'c str>) -> Option<&'c str> {
    fields.get("agent").map_or(of_run, Value::as_str)
}

fn unsigned(value: &Value<'_>) -> Option<u64> {
    value.as_number().and_then(Number::as_i64).and_then(|it| u64::try_from(it).ok())
}

/// Reads a field: its value, or the reason that there is none.
fn content<'c>(field: Option<&'c Value<'_>>) -> Content<'c> {
    let value = field.and_then(|field| field.get("value"));
    match (field.and_then(absent), value) {
        (None, Some(value)) => Content::ready(value.clone()),
        (Some("unreadable"), Some(Value::String(text))) => Content::Unreadable((&**text).into()),
        (Some("redacted"), _) => Content::Redacted,
        _ => Content::NotRecorded,
    }
}

fn absent<'c>(field: &'c Value<'_>) -> Option<&'c str> {
    field.get("absent").and_then(Value::as_str)
}

/// Returns true for an incomplete field, and for the mark of one.
fn is_cut(field: &Value<'_>) -> bool {
    let is_marked = matches!(field, Value::Bool(true)) || field.get("truncated").is_some();
    is_marked || absent(field) == Some("left_out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CONTENT_BYTES_MAX, FIELD_BYTES_MAX, Judgement, TrajectoryRecord};
    use spanscore_base::model::Completion;

    fn check(trajectory: &Trajectory<'_>, expected: &[StoredPart]) {
        let judgement = Judgement {
            completion: Completion::RootEnded,
            is_partial: false,
            revision: 0,
            spans: 1,
            now_ns: 0,
            is_passing: false,
        };
        let content = TrajectoryRecord::new(trajectory, judgement, true).content.unwrap();
        let mut gaps = UnpackedContent(json::parse(&content.texts).unwrap().into_owned()).gaps();
        gaps.remove(&StoredPart::Attributes);
        let mut parts: Vec<StoredPart> = gaps.into_keys().collect();
        parts.sort_unstable();
        assert_eq!(parts, expected);
    }

    #[test]
    fn parts_that_are_not_whole_are_told() {
        let named = |text: String| ToolCall {
            error: Some(text.clone().into()),
            id: Some(text.clone().into()),
            agent: Some(text.into()),
            ..ToolCall::default()
        };
        let of =
            |tool_calls: Vec<ToolCall<'static>>| Trajectory { tool_calls, ..Trajectory::default() };
        let names = [StoredPart::Errors, StoredPart::CallIds, StoredPart::Agents];
        let [short, long] = [1, FIELD_BYTES_MAX + 1].map(|bytes| "e".repeat(bytes));
        check(&of(vec![named(short.clone())]), &[]);
        check(&of(vec![named(long.clone())]), &names);
        let raw = || Content::Unreadable(long.clone().into());
        check(&Trajectory { user_input: raw(), ..of(Vec::new()) }, &[StoredPart::Input]);
        check(
            &Trajectory { span_name: long.clone().into(), ..of(Vec::new()) },
            &[StoredPart::SpanName],
        );
        // The last result takes the room of the fields after it, including its quotes.
        let result = || Content::ready(Value::from("r".repeat(FIELD_BYTES_MAX - 2)));
        let full = || ToolCall { result: result(), ..ToolCall::default() };
        let calls = |last| {
            let before = std::iter::repeat_with(full).take(CONTENT_BYTES_MAX / FIELD_BYTES_MAX - 1);
            before.chain([ToolCall { result: result(), ..last }]).collect::<Vec<_>>()
        };
        check(&of(calls(ToolCall::default())), &[]);
        check(&of(calls(named(short))), &names);
    }
}
