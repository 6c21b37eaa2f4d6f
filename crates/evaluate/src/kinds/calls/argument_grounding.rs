//! `argument_grounding`: the share of argument values with a source in earlier text.
//!
//! A value is grounded when the user's input or the result of an earlier call holds it (none of
//! calls that were made together is earlier than another): as a whole (case, white space and
//! punctuation do not count), or word by word. Numbers are compared as they are written, without
//! thousands separators. Truth values, null, and short values are not judged. This finds ids and
//! names that were made up; it cannot tell whether a right word was used rightly.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::{self, Write};

use hashbrown::HashSet;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluator::{CallJudge, CodeEvaluator, Evaluator, Kind};
use crate::shared::difference::ANOTHER_ARGUMENT;
use crate::shared::{report, step_limit};
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{
    Content, Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::value::{Map, Value};

/// Bytes of input and results that are indexed; a larger trajectory is not evaluable.
const SOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes searched for texts with unknown words, over all values.
const SEARCHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Steps to index one byte of input or results: words are hashed and stored.
const STEPS_PER_BYTE: usize = 8;

/// Steps to look up one byte of an argument's text: its words are made plain and hashed.
const ARGUMENT_STEPS_PER_BYTE: usize = 4;

/// Steps to look at any value; the next one, to write a number as it is compared.
const VALUE_STEPS: usize = 4;
const NUMBER_STEPS: usize = 32;

/// Bytes that are searched in one step.
const SEARCHED_BYTES_PER_STEP: usize = 16;

/// Ungrounded values listed in the details, by path.
const UNGROUNDED_MAX: usize = 50;

/// Registry entry of `argument_grounding`.
pub static KIND: Kind = Kind {
    name: "argument_grounding",
    about: "The share of argument values that the user's input or an earlier result holds: others \
            may be made up.",
    also_known_as: &[],
    threshold: 0.8,
    needs_criteria: false,
    early: false,
    schema: || schemars::schema_for!(Settings),
    build: |node| Ok(Evaluator::code(Grounding { settings: node.read()? })),
    example: "\
argument_grounding:
  ignore_arguments: [unit, language]
  min_length: 4
",
};

/// Settings of `argument_grounding`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Arguments that need no source, by name: constants that the agent may choose.
    ignore_arguments: BTreeSet<String>,
    /// Tools whose calls need no source.
    ignore_tools: BTreeSet<String>,
    /// Texts and words of fewer characters are not judged. Default 3.
    min_length: usize,
    /// Numbers up to this, positive or negative, are not judged: counts and limits. Default 10.
    ignore_numbers_up_to: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ignore_arguments: BTreeSet::new(),
            ignore_tools: BTreeSet::new(),
            min_length: 3,
            ignore_numbers_up_to: 10.0,
        }
    }
}

struct Grounding {
    settings: Settings,
}

/// Reduces a text to its letters and digits in lower case, one space between words.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    words(text, |word| {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    });
    out
}

/// Calls `each` with the words of a text in lower case: runs of letters and digits, and a point or
/// comma between two digits, of which the comma is left out.
fn words(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let between_digits = |word: &str, next: Option<&char>| {
            word.ends_with(|c: char| c.is_ascii_digit()) && next.is_some_and(char::is_ascii_digit)
        };
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else if matches!(c, '.' | ',') && between_digits(&word, rest.peek()) {
            if c == '.' {
                word.push('.');
            }
        } else if !word.is_empty() {
            each(&word);
            word.clear();
        }
    }
    if !word.is_empty() {
        each(&word);
    }
}

/// Writer with a limit in bytes.
struct LimitedText {
    text: String,
    left: usize,
}

impl fmt::Write for LimitedText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.left = self.left.checked_sub(part.len()).ok_or(fmt::Error)?;
        self.text.push_str(part);
        Ok(())
    }
}

/// Index of the texts that the agent could have known.
struct GroundingSources<'t> {
    /// All texts in plain form, a space around each word, a line for each text.
    text: String,
    words: HashSet<String>,
    bytes: usize,
    searched_bytes: Cell<usize>,
    /// True if the result of an earlier call is not recorded.
    incomplete: bool,
    effort: &'t WorkBudget,
}

impl<'t> GroundingSources<'t> {
    fn new(effort: &'t WorkBudget) -> Self {
        Self {
            text: String::new(),
            words: HashSet::new(),
            bytes: 0,
            searched_bytes: Cell::new(0),
            incomplete: false,
            effort,
        }
    }

    /// Adds a text or a value; `false` once there is too much.
    fn add(&mut self, value: &Value<'_>) -> bool {
        let left = SOURCE_BYTES_MAX - self.bytes;
        let written;
        let text = match value {
            Value::String(text) => text.as_ref(),
            other => {
                let mut text = LimitedText { text: String::new(), left };
                if write!(text, "{other}").is_err() {
                    return false;
                }
                written = text.text;
                &written
            }
        };
        if text.len() > left || !self.effort.spend(text.len() * STEPS_PER_BYTE) {
            return false;
        }
        let text = plain(text);
        // Lower case may take more bytes than upper case, so the sum could pass the limit.
        self.bytes = SOURCE_BYTES_MAX.min(self.bytes + text.len());
        for word in text.split(' ') {
            if !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
        }
        self.text.push(' ');
        self.text.push_str(&text);
        self.text.push_str(" \n");
        true
    }

    /// Charges the steps to look at an argument's value; `false` if they are not left.
    fn look_at(&self, value: &Value<'_>) -> bool {
        self.effort.spend(match value {
            Value::String(text) => VALUE_STEPS + text.len() * ARGUMENT_STEPS_PER_BYTE,
            Value::Number(_) => NUMBER_STEPS,
            _ => VALUE_STEPS,
        })
    }

    fn hold(&self, text: &str, min_length: usize) -> bool {
        let text = plain(text);
        let is_known = |word: &str| word.chars().count() < min_length || self.words.contains(word);
        // Word by word first. The search is for scripts without spaces, and for parts of words.
        text.split(' ').all(is_known) || {
            self.searched_bytes.set(self.searched_bytes.get() + self.text.len());
            self.searched_bytes.get() <= SEARCHED_BYTES_MAX
                && self.effort.spend(self.text.len() / SEARCHED_BYTES_PER_STEP)
                && memchr::memmem::find(self.text.as_bytes(), text.as_bytes()).is_some()
        }
    }
}

/// Counts of judged and grounded values.
#[derive(Default)]
struct GroundingTally {
    judged: usize,
    grounded: usize,
    /// Tool and path of values without a source.
    ungrounded: Vec<(String, String)>,
}

impl Grounding {
    /// Reports for each value whether it has a source; `path` holds the keys that lead to it.
    fn judge_value<'v>(
        &self,
        value: &'v Value<'_>,
        path: &mut Vec<&'v str>,
        sources: &GroundingSources<'_>,
        tell: &mut impl FnMut(bool, &[&'v str]),
    ) {
        let min_length = self.settings.min_length;
        if !sources.look_at(value) {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number)
                if number.as_f64().abs() <= self.settings.ignore_numbers_up_to => {}
            Value::Number(number) => {
                let text = number.to_string();
                let text = text.trim_start_matches('-');
                let whole = text.strip_suffix(".0").unwrap_or(text);
                tell(sources.words.contains(whole) || sources.words.contains(text), path);
            }
            Value::String(text) => {
                if text.chars().filter(|c| c.is_alphanumeric()).count() >= min_length {
                    tell(sources.hold(text, min_length), path);
                }
            }
            Value::List(list) => {
                list.iter().for_each(|item| self.judge_value(item, path, sources, tell));
            }
            Value::Map(map) => {
                for (key, item) in map.iter() {
                    if !self.settings.ignore_arguments.contains(key) {
                        path.push(key);
                        self.judge_value(item, path, sources, tell);
                        path.pop();
                    }
                }
            }
        }
    }

    /// Indexes the user's input, known before the first call.
    fn sources<'t>(trajectory: &'t Trajectory<'_>) -> Result<GroundingSources<'t>, Reason> {
        let input = trajectory.user_input.value().ok_or(Reason::UserInputNotRecorded)?;
        let mut sources = GroundingSources::new(&trajectory.effort);
        if sources.add(input) { Ok(sources) } else { Err(Reason::TextTooLarge) }
    }

    /// Judges calls in order; each result is added to the sources once a later call could know it.
    fn judge(
        &self,
        calls: &[ToolCall<'_>],
        sources: &mut GroundingSources<'_>,
        want: Want,
    ) -> Result<GroundingTally, Reason> {
        let add = |sources: &mut GroundingSources<'_>, value: &Value<'_>| {
            if sources.add(value) { Ok(()) } else { Err(Reason::TextTooLarge) }
        };
        let mut tally = GroundingTally::default();
        // Calls of earlier groups that had not returned when the last group began.
        let mut waiting: VecDeque<Vec<&ToolCall<'_>>> = VecDeque::new();
        for group in groups(calls) {
            let start_ns = group.iter().map(|call| call.start_ns).min().unwrap_or(0);
            // Parallel calls do not know each other's results.
            while let Some(earlier) = waiting.front_mut() {
                if !sources.effort.spend(earlier.len()) {
                    return Err(Reason::TrajectoryTooLarge);
                }
                for call in earlier.extract_if(.., |call| is_known(call, start_ns)) {
                    add_result(sources, call, add)?;
                }
                if !earlier.is_empty() {
                    break;
                }
                waiting.pop_front();
            }
            self.judge_group(group, sources, &mut tally, want)?;
            waiting.push_back(group.iter().collect());
        }
        if tally.judged == 0 {
            return Err(Reason::InsufficientData);
        }
        Ok(tally)
    }

    /// Judges parallel calls against the texts known before any of them.
    fn judge_group(
        &self,
        group: &[ToolCall<'_>],
        sources: &GroundingSources<'_>,
        tally: &mut GroundingTally,
        want: Want,
    ) -> Result<(), Reason> {
        for call in group {
            if self.settings.ignore_tools.contains(&*call.name) {
                continue;
            }
            let Some(arguments) = call.arguments.value() else {
                return Err(Reason::ArgumentsNotRecorded);
            };
            let before = tally.judged - tally.grounded;
            self.judge_value(arguments, &mut Vec::new(), sources, &mut |grounded, path| {
                tally.judged += 1;
                tally.grounded += usize::from(grounded);
                if !grounded && want.reasons() && tally.ungrounded.len() < UNGROUNDED_MAX {
                    tally.ungrounded.push((call.name.to_string(), path.join(".")));
                }
            });
            if sources.searched_bytes.get() > SEARCHED_BYTES_MAX {
                return Err(Reason::TextTooLarge);
            }
            if sources.effort.is_spent() {
                return Err(Reason::TrajectoryTooLarge);
            }
            // The source of an ungrounded value may be in a result that is not recorded.
            if sources.incomplete && tally.judged - tally.grounded > before {
                return Err(Reason::ResultNotRecorded);
            }
        }
        Ok(())
    }
}

/// Returns true if a call of an earlier group had returned by that time.
fn is_known(earlier: &ToolCall<'_>, start_ns: u64) -> bool {
    earlier.end_ns == 0 || earlier.end_ns <= start_ns
}

/// Adds the result and error of a call to the sources.
fn add_result(
    sources: &mut GroundingSources<'_>,
    call: &ToolCall<'_>,
    add: impl Fn(&mut GroundingSources<'_>, &Value<'_>) -> Result<(), Reason>,
) -> Result<(), Reason> {
    match &call.result {
        Content::Recorded(value) => add(sources, value.get())?,
        Content::Unreadable(text) => {
            add(sources, &Value::from(&**text))?;
            sources.incomplete = true;
        }
        _ => sources.incomplete = true,
    }
    match &call.error {
        Some(error) => add(sources, &Value::from(&**error)),
        None => Ok(()),
    }
}

impl CodeEvaluator for Grounding {
    fn facts(&self) -> Facts {
        Facts { arguments: true, results: true, user_input: true, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        if trajectory.tool_calls.is_empty() {
            return report::no_tool_calls(want);
        }
        let sources = Self::sources(trajectory);
        let tally = sources.and_then(|mut it| self.judge(&trajectory.tool_calls, &mut it, want));
        answer(tally, want)
    }

    /// Judges calls alone: such a call knows only the input.
    fn call_judge<'t>(
        &'t self,
        trajectory: &'t Trajectory<'_>,
        want: Want,
    ) -> Option<CallJudge<'t>> {
        let mut sources = Self::sources(trajectory);
        Some(Box::new(move |call| {
            let tally = match &mut sources {
                Ok(sources) => {
                    sources.searched_bytes.set(0);
                    self.judge(std::slice::from_ref(call), sources, want)
                }
                Err(reason) => Err(*reason),
            };
            answer(tally, want)
        }))
    }
}

fn answer(tally: Result<GroundingTally, Reason>, want: Want) -> Outcome {
    let tally = match tally {
        Ok(tally) => tally,
        Err(reason) => {
            return report::not_evaluable(reason, want, || match reason {
                Reason::InsufficientData => "no argument holds anything to judge".to_owned(),
                Reason::TextTooLarge => {
                    "input, results and arguments are too large to be searched".to_owned()
                }
                Reason::TrajectoryTooLarge => step_limit::words(),
                reason => format!("cannot tell where arguments come from: {}", reason.as_str()),
            });
        }
    };
    let GroundingTally { judged, grounded, ungrounded } = &tally;
    let explain = || {
        let text = format!("{grounded} of {judged} argument values have a source");
        let mut words = Explanation::plain(text);
        report::few(&mut words, ungrounded, |words, (tool, path)| {
            words.hide(&format!("`{path}`"), ANOTHER_ARGUMENT);
            words.push(&format!(" of {tool} has none"));
        });
        words
    };
    let details = || {
        let entry = |(tool, path): &(String, String)| {
            let entry: Map<'_> =
                [("tool", Value::from(tool.clone())), ("argument", path.clone().into())]
                    .into_iter()
                    .collect();
            Value::Map(entry)
        };
        let list = Value::List(ungrounded.iter().map(entry).collect());
        [("judged", Value::from(*judged)), ("ungrounded", list)].into_iter().collect()
    };
    report::scored(report::ratio(*grounded, *judged), want, explain, details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_plain_and_numbers_whole() {
        assert_eq!(plain(" Café, 1,234.50 (A-1)!"), "café 1234.50 a 1");
        assert_eq!(plain("1, 2"), "1 2");
    }

    #[test]
    fn sources_hold_phrases_and_scattered_words() {
        let effort = &WorkBudget::default();
        let mut sources = GroundingSources::new(effort);
        assert!(sources.add(&"What is the weather tomorrow in New York?".into()));
        assert!(sources.hold("new york", 3));
        assert!(sources.hold("weather in New York tomorrow", 3));
        assert!(!sources.hold("weather in Boston", 3));
    }
}
