//! Calls of other tools that substitute for a failed one.

use std::fmt::{self, Write};

use super::{STEPS_PER_NAME_BYTE, STEPS_PER_REACTION};
use crate::shared::arguments::counters::is_counter;
use crate::shared::roles;
use spanscore_base::model::{ToolCall, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Bytes of an argument searched in one step.
const SEARCHED_BYTES_PER_STEP: usize = 4;
/// Bytes at the start of a failure that are searched for the words for something missing.
const MISSING_BYTES_MAX: usize = 2000;
const MISSING: [&str; 11] = [
    "not found", "no such", "not exist", "no record", "unknown user", "unknown id",
    "unknown customer", "unknown order", "unknown account", "unknown item", "unknown file",
];
/// Fewest characters of an argument that shows that two tools seek the same thing.
const SHARED_CHARS_MIN: usize = 4;

/// Returns true if another tool substitutes for the failed one. It must receive most of the same
/// values under the same names, at least two, without counters, booleans and null. It must also
/// share a word of the name, or be a lookup. If one name contains the other, equal arguments
/// suffice.
pub(super) fn is_substitute(call: &ToolCall<'_>, next: &ToolCall<'_>, effort: &WorkBudget) -> bool {
    let given = call.arguments.value().and_then(Value::as_map);
    let taken = next.arguments.value().and_then(Value::as_map);
    let (Some(given), Some(taken)) = (given, taken) else { return false };
    if !effort.spend(STEPS_PER_REACTION + given.len() * taken.len()) || call.name == next.name {
        return false;
    }
    let is_respelled = call.name.contains(&*next.name) || next.name.contains(&*call.name);
    if is_respelled && effort.spend(call.name.len()) && given == taken {
        return true;
    }
    let is_taken = |(key, value): &(&str, &Value<'_>)| {
        effort.spend(value.node_count()) && taken.get(key) == Some(*value)
    };
    let is_telling = |(key, value): &(&str, &Value<'_>)| {
        !matches!(value, Value::Null | Value::Bool(_)) && !is_counter(key)
    };
    let telling = given.iter().filter(is_telling).count();
    let same = given.iter().filter(is_telling).filter(is_taken).count();
    same > 1
        && same * 2 > telling
        && effort.spend((call.name.len() + next.name.len()) * STEPS_PER_NAME_BYTE)
        && (roles::is_lookup(&next.name) || roles::share_one_word(&call.name, &next.name))
}

/// Returns true if the failed call reports something missing.
pub(super) fn reports_missing(call: &ToolCall<'_>, effort: &WorkBudget) -> bool {
    let mut told = FirstBytes(String::new());
    // Text beyond the limit is cut.
    let _ = match (&call.error, call.result.value()) {
        (Some(error), _) => told.write_str(error),
        (None, Some(Value::String(text))) => told.write_str(text),
        (None, Some(value)) => write!(told, "{value}"),
        (None, None) => return false,
    };
    effort.spend(told.0.len()) && {
        let told = told.0.to_lowercase();
        MISSING.iter().any(|word| told.contains(word))
    }
}

/// Writer that keeps the first bytes of a failure.
struct FirstBytes(String);

impl fmt::Write for FirstBytes {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let fitting = &part[..part.floor_char_boundary(MISSING_BYTES_MAX - self.0.len())];
        self.0.push_str(fitting);
        if fitting.len() == part.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Returns true if another tool seeks the same thing: with a similar name or an equal argument.
pub(super) fn has_same_target(
    call: &ToolCall<'_>,
    next: &ToolCall<'_>,
    effort: &WorkBudget,
) -> bool {
    roles::share_half_of_words(&call.name, &next.name) || shares_argument(call, next, effort)
}

/// Returns true if a call receives one of another's arguments, whole or within a text, except
/// booleans and null.
pub(super) fn shares_argument(
    call: &ToolCall<'_>,
    next: &ToolCall<'_>,
    effort: &WorkBudget,
) -> bool {
    let values = |call: &ToolCall<'_>| -> Vec<String> {
        let values = call.arguments.value().and_then(Value::as_map).into_iter().flat_map(Map::iter);
        let said = values.filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(_)));
        let texts = said.map(|(_, value)| value.to_string().to_lowercase());
        texts.take_while(|text| effort.spend(text.len())).collect()
    };
    let given = values(next);
    let given_steps = given.iter().map(String::len).sum::<usize>() / SEARCHED_BYTES_PER_STEP;
    let holds = |text: &String| {
        let text = text.trim_matches('"');
        text.chars().count() >= SHARED_CHARS_MIN
            && effort.spend(given_steps)
            && given.iter().any(|given| given.contains(text))
    };
    values(call).iter().any(holds)
}
