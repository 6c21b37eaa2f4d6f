//! Grounding of arguments without a judge, for calls whose values all occur literally in earlier
//! text.
//!
//! A value is known if it occurs as whole tokens of at least three characters in a message of the
//! user or operator, or in an earlier result. Numbers count by value; statuses, counts, pages and
//! years are no source. A result that repeats an invented argument is none either: a value used
//! before it was known stays unknown. Null, blank texts and the schema's default need no source.

mod incidental;

use hashbrown::{HashMap, HashSet};

use self::incidental::telling_numbers;
use super::record::{LineContent, LineKind, RecordLine, RunRecord};
use super::tokens::{self, CHARS_MIN, NumberKey, fold};
use crate::inquiry::JudgeAnswer;
use spanscore_base::model::WorkBudget;
use spanscore_base::value::Value;

/// Bytes searched in one step.
const BYTES_PER_STEP: usize = 16;
/// Steps to index one byte of a source.
const STEPS_PER_BYTE: usize = 4;

/// Settles calls, in record order; `None` for those that need a judge.
pub(crate) fn settle(record: &RunRecord, effort: &WorkBudget) -> Vec<Option<JudgeAnswer>> {
    let mut known = KnownValues::new(effort);
    let defaults = defaults(record);
    let mut settled = HashMap::new();
    for (at, line) in record.lines.iter().enumerate() {
        match line.kind {
            LineKind::Operator | LineKind::User => known.said.add(line, effort),
            LineKind::Result => known.returned.add(line, effort),
            LineKind::Call => {
                settled.insert(at, known.settle_call(line, &defaults));
            }
            _ => {}
        }
    }
    let of = |line: &usize| settled.get(line).copied().flatten();
    record.calls.iter().map(|call| of(&call.line)).collect()
}

/// Collects the defaults of arguments, by tool and name.
fn defaults(record: &RunRecord) -> HashMap<(&str, &str), &Value<'static>> {
    let mut found = HashMap::new();
    for line in record.of_kind(LineKind::Tool) {
        let (Some(tool), Some(schema)) = (line.tool.as_deref(), &line.schema) else { continue };
        let properties = schema.get("properties").and_then(Value::as_map);
        for (name, property) in properties.into_iter().flat_map(|map| map.iter()) {
            if let Some(default) = property.get("default") {
                found.insert((tool, name), default);
            }
        }
    }
    found
}

#[derive(Default)]
struct KnownTexts {
    text: String,
    /// Numbers except incidental ones.
    numbers: HashSet<NumberKey>,
}

impl KnownTexts {
    fn add(&mut self, line: &RecordLine, effort: &WorkBudget) {
        let Some(value) = line.content.value() else { return };
        let mut plain = String::new();
        tokens::write_plain(value, &mut plain);
        if !effort.spend(plain.len() * STEPS_PER_BYTE) {
            return;
        }
        let folded = fold(&plain);
        telling_numbers(&plain, &mut self.numbers);
        self.text.push_str(&folded);
        self.text.push('\n');
    }
}

struct KnownValues<'e> {
    said: KnownTexts,
    returned: KnownTexts,
    /// Values used before they were known.
    invented: Vec<String>,
    invented_numbers: HashSet<NumberKey>,
    effort: &'e WorkBudget,
}

impl<'e> KnownValues<'e> {
    fn new(effort: &'e WorkBudget) -> Self {
        Self {
            said: KnownTexts::default(),
            returned: KnownTexts::default(),
            invented: Vec::new(),
            invented_numbers: HashSet::new(),
            effort,
        }
    }

    /// Returns yes if every value is known, unclear if the arguments are unrecorded; `None` if a
    /// judge is needed.
    fn settle_call(
        &mut self,
        line: &RecordLine,
        defaults: &HashMap<(&str, &str), &Value<'static>>,
    ) -> Option<JudgeAnswer> {
        let arguments = match &line.content {
            LineContent::Whole(arguments) => arguments,
            LineContent::Part(_) => return None,
            LineContent::Unknown => return Some(JudgeAnswer::Unclear),
        };
        let tool = line.tool.as_deref().unwrap_or_default();
        let mut unknown = Vec::new();
        match arguments {
            Value::Map(map) => {
                for (name, value) in map.iter() {
                    if defaults.get(&(tool, name)).is_none_or(|default| **default != *value) {
                        self.unknown_in(value, &mut unknown);
                    }
                }
            }
            other => self.unknown_in(other, &mut unknown),
        }
        let is_settled = unknown.is_empty() && !self.effort.is_spent();
        for value in unknown {
            match value {
                Value::Number(number) => {
                    self.invented_numbers.insert(tokens::key_of(number));
                }
                Value::String(text) => self.invented.push(fold(text.trim())),
                _ => {}
            }
        }
        is_settled.then_some(JudgeAnswer::Yes)
    }

    fn unknown_in<'v>(&self, value: &'v Value<'static>, unknown: &mut Vec<&'v Value<'static>>) {
        match value {
            Value::List(list) => list.iter().for_each(|item| self.unknown_in(item, unknown)),
            Value::Map(map) => map.iter().for_each(|(_, item)| self.unknown_in(item, unknown)),
            scalar => {
                if !self.is_known(scalar) {
                    unknown.push(scalar);
                }
            }
        }
    }

    fn is_known(&self, value: &Value<'static>) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) if text.trim().is_empty() => true,
            Value::String(text) => {
                let text = fold(text.trim());
                let number = tokens::key_of_text(&text);
                let holds = |known: &KnownTexts| {
                    number.as_ref().is_none_or(|number| known.numbers.contains(number))
                        && self.holds(known, &text)
                };
                text.chars().count() >= CHARS_MIN
                    && (holds(&self.said) || (holds(&self.returned) && !self.is_invented(&text)))
            }
            Value::Number(number) => {
                let key = tokens::key_of(number);
                number.to_string().trim_start_matches('-').len() >= CHARS_MIN
                    && (self.said.numbers.contains(&key)
                        || (self.returned.numbers.contains(&key)
                            && !self.invented_numbers.contains(&key)
                            && !self.is_invented(&number.to_string())))
            }
            _ => false,
        }
    }

    fn is_invented(&self, text: &str) -> bool {
        self.invented.iter().any(|invented| tokens::holds(invented, text))
    }

    fn holds(&self, known: &KnownTexts, text: &str) -> bool {
        self.effort.spend(known.text.len() / BYTES_PER_STEP + 1) && tokens::holds(&known.text, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::labelled::LabelledRun;
    use crate::judged::record::RecordWishes;
    use crate::judged::settings::SendSettings;

    fn check(trajectory: &str, expected: &str) {
        let line = format!(
            r#"{{"id":"a","evaluator":"x","trajectory":{trajectory},"label":{{"verdict":"pass"}}}}"#
        );
        let run = LabelledRun::read(&line).unwrap();
        let trajectory = run.trajectory().unwrap();
        let record = RunRecord::of(&trajectory, &SendSettings::default(), RecordWishes::default());
        let settled = settle(&record, &WorkBudget::default());
        let words = settled.iter().map(|one| one.map_or("ask", JudgeAnswer::as_str));
        assert_eq!(words.collect::<Vec<_>>().join(" "), expected, "{line}");
    }

    #[test]
    fn values_that_were_said_or_returned_need_no_judge() {
        check(
            r#"{"user_input":"Order A-17, 129.50 EUR","tool_calls":[
                {"name":"a","arguments":{"id":"a-17","amount":129.5,"note":"","x":null}},
                {"name":"a","arguments":{"id":"A-1"}}, {"name":"a","arguments":{"n":17}}]}"#,
            "yes ask ask",
        );
        check(
            r#"{"user_input":"My last order","tool_calls":[
                {"name":"list","arguments":{},"result":[{"id":"B-8"}]},
                {"name":"get","arguments":{"id":"B-8"},"result":{"owner":"Ana Lima"}},
                {"name":"mail","arguments":{"to":"Ana Lima","urgent":true}},
                {"name":"mail","arguments":null}]}"#,
            "yes yes ask unclear",
        );
    }

    #[test]
    fn an_echo_of_what_was_invented_is_no_source() {
        check(
            r#"{"user_input":"Where is my order?","tool_calls":[
                {"name":"get","arguments":{"id":"ORD-5"},"result":{"id":"ORD-5","no":7781}},
                {"name":"cancel","arguments":{"id":"ORD-5"}},
                {"name":"cancel","arguments":{"no":7781}}]}"#,
            "ask ask yes",
        );
    }

    #[test]
    fn numbers_that_stand_there_by_chance_are_no_source() {
        check(
            r#"{"user_input":"Refund B-31 of 2024, please","tool_calls":[
                {"name":"get","arguments":{"id":"B-31"},"result":{"http_status":200,"due":180}},
                {"name":"refund","arguments":{"id":"B-31","amount":200}},
                {"name":"refund","arguments":{"id":"B-31","amount":"200"}},
                {"name":"refund","arguments":{"id":"B-31","amount":2024}},
                {"name":"refund","arguments":{"id":"B-31","amount":180}}]}"#,
            "yes ask ask ask yes",
        );
    }

    #[test]
    fn a_result_is_no_source_for_calls_made_together_with_its_own() {
        check(
            r#"{"user_input":"Go","tool_calls":[
                {"name":"a","arguments":{},"result":"key-1","group":1},
                {"name":"b","arguments":{"k":"key-1"},"group":1}]}"#,
            "yes ask",
        );
    }

    #[test]
    fn the_default_of_the_schema_claims_nothing() {
        check(
            r#"{"user_input":"Go","tool_definitions":[{"name":"a","inputSchema":{"properties":
                {"limit":{"default":20},"all":{"default":false}}}}],"tool_calls":[
                {"name":"a","arguments":{"limit":20,"all":false}},
                {"name":"a","arguments":{"limit":21,"all":false}}]}"#,
            "yes ask",
        );
    }
}
