//! `argument_grounding`: the share of argument values with a source in earlier text.
//!
//! A value is grounded if the user's input, the operator's instructions, an earlier call's result
//! or the preceding conversation contains it, either as a whole (ignoring case, white space and
//! punctuation) or word by word. Parallel calls are never earlier than each other. The model's own
//! words ground nothing. Dates are compared across notations, numbers without thousands separators.
//! A message counts from the start of the first span that contains it; values of examples in
//! instructions count as known.
//!
//! Also known are:
//! - the sum of the numbers under one key, or of two if they are few: `150` after
//!   `[{"fare": 70}, {"fare": 80}]`;
//! - the product of such a number or sum with a count in the call, or else in the input or a
//!   result: `140` for two passengers;
//! - the product of an entry's price and quantity: `60` after `{"price": 20, "quantity": 3}`;
//! - the remainder of an amount with known parts: `50` in payments of 100 and 50, if 100 and 150
//!   are known;
//! - the parts of a date: `{"day": "17"}` after "17 May 2025";
//! - the code of a named place, currency or country: `SEA` after "Seattle";
//! - a value listed in the tool's schema as an `enum`, or named in its description;
//! - a file whose name without extension is known: `Order.java` after "class Order".
//!
//! Metadata of a result counts as unknown: status codes, counts, pages, years. Not judged are
//! booleans, null, short values, options of the tool (`timeout_ms`, `width`, `line`), names without
//! digits of files that a call creates or searches for, and free texts. The metric detects invented
//! ids and names; it cannot detect a known value in the wrong place.

mod dates;
mod declared;
mod free;
mod numbers;
mod sources;

use std::collections::{BTreeSet, VecDeque};

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::evaluator::{CallJudge, CodeEvaluator, Evaluator, Kind};
use crate::judged::operator;
use crate::shared::difference::ANOTHER_ARGUMENT;
use crate::shared::{report, roles, step_limit};
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{
    Content, Explanation, Facts, HeardText, Outcome, Reason, TextOrigin, ToolCall, ToolDefinition,
    Trajectory, Want,
};
use spanscore_base::value::{ByKey, Map, Value};

use numbers::AmountParts;
use sources::{GroundingSources, SEARCHED_BYTES_MAX};
#[cfg(test)]
use sources::{plain, words};

/// Limit on ungrounded values in the details, by path.
const UNGROUNDED_MAX: usize = 50;

/// Bytes of instructions read in one step; each model span may repeat them.
const READ_BYTES_PER_STEP: usize = 4;

/// Keys of an object that are searched for among the declared ones; those of larger objects are
/// looked up in an index, which costs as much as this many searches.
const SEARCHED_KEYS_MAX: usize = 4;

/// Registry entry of `argument_grounding`.
pub static KIND: Kind = Kind {
    name: "argument_grounding",
    about: "Share of the argument values that occur in the conversation, the operator's \
            instructions or an earlier result. Other values may be made up.",
    threshold: 0.8,
    schema: || schemars::schema_for!(Settings),
    build: |node| Ok(Evaluator::code(Grounding { settings: node.read()? })),
    example: "\
argument_grounding:
  ignore_arguments: [unit, language]
  min_length: 4
",
    ..Kind::PLAIN
};

/// Settings of `argument_grounding`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Names of arguments that need no source, such as a constant that the agent may choose.
    ignore_arguments: BTreeSet<String>,
    /// Names of tools whose arguments need no source.
    ignore_tools: BTreeSet<String>,
    /// Length in characters below which texts and words are not judged, unless they are numbers.
    /// Default 3.
    #[default = 3]
    min_length: usize,
    /// Largest number, positive or negative, that is not judged: counts and limits are often chosen
    /// freely. Default 10.
    #[default = 10.0]
    ignore_numbers_up_to: f64,
    /// Handling of texts that the agent is meant to write: `ignore` (default) skips them, `judge`
    /// checks them word by word. Such texts are long texts, searches, code and the words of
    /// arguments such as `type`, `mode` and `action`.
    free_texts: FreeTexts,
}

/// Handling of texts that the agent is meant to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FreeTexts {
    /// Skipped.
    #[default]
    Ignore,
    /// Checked like other texts.
    Judge,
}

struct Grounding {
    settings: Settings,
}

/// Counts of judged and grounded values.
#[derive(Default)]
struct GroundingTally {
    judged: usize,
    grounded: usize,
    /// Tool and path of ungrounded values.
    ungrounded: Vec<(String, String)>,
}

impl Grounding {
    /// Calls back for each value with its groundedness; `path` holds its keys, `schema` its part of
    /// the tool's definition.
    fn judge_value<'v>(
        &self,
        (value, schema): (&'v Value<'_>, Option<&Value<'_>>),
        path: &mut Vec<&'v str>,
        sources: &GroundingSources<'_>,
        tell: &mut impl FnMut(bool, &[&'v str]),
    ) {
        if !sources.look_at(value) {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(_) | Value::String(_) => {
                let key = path.last().copied().unwrap_or_default();
                if let Some(is_grounded) = self.judge_scalar((value, schema), key, sources) {
                    tell(is_grounded, path);
                }
            }
            Value::List(list) => {
                let schema = schema.map(declared::of_items);
                list.iter().for_each(|item| self.judge_value((item, schema), path, sources, tell));
            }
            Value::Map(map) => {
                let known = schema.and_then(|schema| schema.get("properties"));
                let known = known.unwrap_or(&Value::Null).entries();
                let searched = map.len().min(SEARCHED_KEYS_MAX);
                if !sources.effort.spend(known.len() * searched / SEARCHED_KEYS_MAX) {
                    return;
                }
                let is_indexed = map.len() > SEARCHED_KEYS_MAX;
                let known = if is_indexed { known.by_key() } else { ByKey::Few(known) };
                for (key, item) in map.iter() {
                    if !self.settings.ignore_arguments.contains(key) {
                        path.push(key);
                        self.judge_value((item, known.get(key)), path, sources, tell);
                        path.pop();
                    }
                }
            }
        }
    }

    /// Returns true if a number or text is grounded; `None` if it is not judged.
    fn judge_scalar(
        &self,
        (value, schema): (&Value<'_>, Option<&Value<'_>>),
        key: &str,
        sources: &GroundingSources<'_>,
    ) -> Option<bool> {
        let text = value.as_str().unwrap_or_default();
        let min_length = self.settings.min_length;
        let is_short = text.chars().filter(|c| c.is_alphanumeric()).count() < min_length;
        let written;
        let number = if let Value::Number(number) = value {
            written = number.to_string();
            Some((&*written, number.as_f64()))
        } else {
            numbers::of_text(text)
        };
        let Some((digits, number)) = number else {
            return if is_short {
                None
            } else if declared::is_named(value, schema, sources.effort) {
                Some(true)
            } else {
                self.judge_text(text, key, schema, sources)
            };
        };
        let is_small = number.abs() <= self.settings.ignore_numbers_up_to;
        if is_small || (is_short || text.is_empty()) && numbers::is_the_agents(key) {
            return None;
        }
        // Parts of a date are not factors of an amount.
        let is_part = is_short && !text.is_empty() || key.to_lowercase().contains("year");
        let is_part = is_part && sources.words.contains(digits);
        let is_declared = || declared::is_named(value, schema, sources.effort);
        let is_id = || !text.is_empty() && sources.has_version_of(digits);
        Some(is_part || is_declared() || sources.has_number(digits) || is_id())
    }

    /// Returns true if a text is grounded; `None` if it is not judged.
    fn judge_text(
        &self,
        text: &str,
        key: &str,
        schema: Option<&Value<'_>>,
        sources: &GroundingSources<'_>,
    ) -> Option<bool> {
        if let Some(is_known) = sources.has_date(text) {
            return Some(is_known || sources.has_whole(text));
        }
        if numbers::is_expression(text) {
            return self.judge_expression(text, sources);
        }
        let is_new = || sources.may_name_files.get() && free::is_new_file(text);
        let is_ignored = self.settings.free_texts == FreeTexts::Ignore;
        if is_ignored && (free::is_free(key, text, schema) || free::is_file(key) && is_new()) {
            return None;
        }
        let min_length = self.settings.min_length;
        let is_stem_held = || {
            let (stem, extension) = text.rsplit_once('.').unwrap_or_default();
            free::is_file(key) && free::is_extension(extension) && sources.hold(stem, min_length)
        };
        Some(sources.hold(text, min_length) || sources.has_code(text) || is_stem_held())
    }

    /// Returns true if the numbers of an expression are grounded, or an address or version with
    /// several points as a whole; `None` if all of its numbers are small.
    fn judge_expression(&self, text: &str, sources: &GroundingSources<'_>) -> Option<bool> {
        let mut judged = Vec::new();
        for digits in numbers::of_expression(text) {
            match digits.parse::<f64>() {
                Ok(number) if number > self.settings.ignore_numbers_up_to => judged.push(digits),
                Ok(_) => {}
                Err(_) => return Some(sources.has_whole(text)),
            }
        }
        if judged.is_empty() {
            return None;
        }
        let is_phrase = numbers::of_expression(text).nth(1).is_some() && sources.has_whole(text);
        Some(is_phrase || judged.iter().all(|digits| sources.has_number(digits)))
    }

    /// Indexes the user's input, known before the first call, and queues later messages by time.
    fn sources<'t>(trajectory: &'t Trajectory<'_>) -> Result<GroundingSources<'t>, Reason> {
        let input = trajectory.user_input.value().ok_or(Reason::UserInputNotRecorded)?;
        let kept_bytes = operator::kept_bytes(trajectory);
        if !trajectory.effort.spend(trajectory.kept_spans.len() + kept_bytes / READ_BYTES_PER_STEP)
        {
            return Err(Reason::TrajectoryTooLarge);
        }
        let mut sources = GroundingSources::new(&trajectory.effort, trajectory.start_ns);
        sources.heard = sources::heard(trajectory).into();
        if sources.add(input, TextOrigin::User) { Ok(sources) } else { Err(Reason::TextTooLarge) }
    }

    /// Judges calls in order; adds messages and results to the sources once a later call can know
    /// them.
    fn judge(
        &self,
        (calls, tools): (&[ToolCall<'_>], &[ToolDefinition<'_>]),
        sources: &mut GroundingSources<'_>,
        want: Want,
    ) -> Result<GroundingTally, Reason> {
        let add = |sources: &mut GroundingSources<'_>, value: &Value<'_>| {
            let is_held = sources.add(value, TextOrigin::Tool);
            if is_held { Ok(()) } else { Err(Reason::TextTooLarge) }
        };
        let mut tally = GroundingTally::default();
        // Calls of earlier groups that had not returned before the last group started.
        let mut waiting: VecDeque<Vec<&ToolCall<'_>>> = VecDeque::new();
        for group in groups(calls) {
            let start_ns = group.iter().map(|call| call.start_ns).min().unwrap_or(0);
            let is_given = |heard: &mut HeardText<'_>| heard.since_ns <= start_ns;
            while let Some(heard) = sources.heard.pop_front_if(is_given) {
                if !sources.add(&heard.value, heard.origin) {
                    return Err(Reason::TextTooLarge);
                }
            }
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
            self.judge_group((group, tools), sources, &mut tally, want)?;
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
        (group, tools): (&[ToolCall<'_>], &[ToolDefinition<'_>]),
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
            sources.effort.spend(tools.len());
            let tool = tools.iter().rev().find(|tool| tool.name == call.name);
            let schema = tool.map(|tool| &tool.input_schema);
            sources.call.replace(AmountParts::of(arguments, sources.effort));
            sources
                .may_name_files
                .set(roles::is_creation(&call.name) || roles::is_search(&call.name));
            let mut path = Vec::new();
            self.judge_value((arguments, schema), &mut path, sources, &mut |grounded, path| {
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
            // An unrecorded result may contain the source of an ungrounded value.
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
        Facts {
            arguments: true,
            results: true,
            user_input: true,
            heard: true,
            tool_definitions: true,
            attributes: operator::attributes(),
            ..Facts::default()
        }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        if trajectory.tool_calls.is_empty() {
            return report::no_tool_calls(want);
        }
        let sources = Self::sources(trajectory);
        let evidence = (&trajectory.tool_calls[..], &trajectory.tool_definitions[..]);
        let tally = sources.and_then(|mut it| self.judge(evidence, &mut it, want));
        answer(tally, want)
    }

    /// Judges single calls, which know only the input.
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
                    let calls = std::slice::from_ref(call);
                    self.judge((calls, &trajectory.tool_definitions), sources, want)
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
mod tests;
