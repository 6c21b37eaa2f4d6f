//! Differences as text.

use std::fmt::Write as _;

use super::{Difference, STEPS_MAX, Step};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::expected_calls::arguments_of;
use crate::shared::matcher::{Expected, MatchContext};
use spanscore_base::model::{Explanation, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Limit on the described differences, and on the arguments of one call.
pub(super) const SHOWN_MAX: usize = 3;

/// Replaces an argument's name that is not in the criteria.
pub const ANOTHER_ARGUMENT: &str = "another argument";

/// Successive descriptions; those beyond [`SHOWN_MAX`] are only counted.
#[derive(Default)]
struct Told {
    words: Explanation,
    count: usize,
}

impl Told {
    /// Counts a description; returns the text to append it to, if it is among the first.
    fn next(&mut self) -> Option<&mut Explanation> {
        self.count += 1;
        if self.count > SHOWN_MAX {
            return None;
        }
        if self.count > 1 {
            self.words.push("; ");
        }
        Some(&mut self.words)
    }

    fn end(mut self) -> Explanation {
        if self.count > SHOWN_MAX {
            // Writing to a string cannot fail.
            let _ = write!(self.words, "; and {} more", self.count - SHOWN_MAX);
        }
        self.words
    }

    fn end_of_arguments(self) -> Explanation {
        if self.count == 0 {
            return Explanation::plain("the arguments are not as expected");
        }
        self.end()
    }
}

/// Numbers of expected and actual calls of a tool.
#[derive(Default)]
struct ToolCount {
    expected: usize,
    actual: usize,
    /// Positions of the first unexpected calls, from 1.
    places: Vec<usize>,
}

pub(super) fn of(difference: &Difference<'_, '_>) -> Explanation {
    let mut told = Told::default();
    counts(difference, &mut told);
    for step in &difference.steps {
        match *step {
            Step::Differs { expected, actual } => {
                let wanted = &difference.expected[expected];
                let made = difference.actual[actual];
                if let Some(words) = told.next() {
                    let _ = write!(words, "{} (call {}): ", wanted.name, actual + 1);
                    let allows_more = difference.counted.allows_more;
                    let matcher = difference.matcher(&wanted.name);
                    let made = arguments_of(made);
                    let wanted = (wanted.rules.as_deref(), &wanted.arguments);
                    words.append(&argument_words(matcher, wanted, made, allows_more));
                }
            }
            Step::Moved { expected, actual } => {
                if let Some(words) = told.next() {
                    let name = &difference.expected[expected].name;
                    let call = actual + 1;
                    let place = expected + 1;
                    let _ = write!(words, "{name} came as call {call}, expected at place {place}");
                }
            }
            Step::Same { .. } | Step::Missing { .. } | Step::Extra { .. } => {}
        }
    }
    told.end()
}

/// Describes the tools called more or less often than expected.
fn counts(difference: &Difference<'_, '_>, told: &mut Told) {
    let mut names: Vec<&str> = Vec::new();
    let mut counts: hashbrown::HashMap<&str, ToolCount> = hashbrown::HashMap::new();
    let mut count = |name, add: &dyn Fn(&mut ToolCount)| {
        let entry = counts.entry(name).or_insert_with(|| {
            names.push(name);
            ToolCount::default()
        });
        add(entry);
    };
    for call in difference.expected {
        count(&*call.name, &|count| count.expected += 1);
    }
    for (place, call) in (1..).zip(difference.actual) {
        count(&*call.name, &|count| {
            count.actual += 1;
            if count.places.len() < SHOWN_MAX {
                count.places.push(place);
            }
        });
    }
    for name in names {
        let Some(ToolCount { expected, actual, places }) = counts.get(name) else { continue };
        let differs = (*actual < *expected && difference.counted.missing)
            || (*actual > *expected && difference.counted.extra);
        let Some(words) = differs.then(|| told.next()).flatten() else { continue };
        // Writing to a string cannot fail.
        let _ = match (expected, actual) {
            (0, _) => {
                let calls: Vec<String> = places.iter().map(usize::to_string).collect();
                let noun = if *actual == 1 { "call" } else { "calls" };
                let calls = calls.join(", ");
                let more = if *actual > places.len() { " and more" } else { "" };
                write!(words, "{name} was not expected ({noun} {calls}{more})")
            }
            (1, 0) => write!(words, "{name} was not called"),
            (_, 1) => write!(words, "{name} was called once, expected {expected} times"),
            (1, _) => write!(words, "{name} was called {actual} times, expected once"),
            _ => write!(words, "{name} was called {actual} times, expected {expected}"),
        };
    }
}

/// Describes the differences of a call's arguments, by the rules if any or else by the expected
/// values: the first ones by name.
pub fn argument_words(
    matcher: &ArgumentMatcher,
    (rules, expected): (Option<&Expected>, &Value<'_>),
    actual: &Value<'_>,
    allows_more: &str,
) -> Explanation {
    match rules {
        Some(rules) => of_rules(matcher, rules, actual, allows_more),
        None => of_arguments(matcher, expected, actual, allows_more),
    }
}

fn of_arguments(
    matcher: &ArgumentMatcher,
    expected: &Value<'_>,
    actual: &Value<'_>,
    allows_more: &str,
) -> Explanation {
    let mut told = Told::default();
    if !matcher.keys.is_empty() {
        return keys(matcher, expected, actual);
    }
    let (Some(expected), Some(actual)) = (expected.as_arguments(), actual.as_arguments()) else {
        return Explanation::plain("the arguments are no object");
    };
    let found = actual.by_key();
    let wanted = expected.by_key();
    for (key, value) in expected.iter().filter(|(key, _)| !matcher.is_ignored(key)) {
        let what = match found.get(key) {
            None if matcher.mode != ArgumentMode::Superset => "is missing",
            Some(found) if !matcher.matches_below(value, found) => "is not as expected",
            _ => continue,
        };
        if let Some(words) = told.next() {
            let _ = write!(words, "`{key}` {what}");
        }
    }
    further(matcher, actual, |key| wanted.has(key), allows_more, &mut told);
    told.end_of_arguments()
}

/// Describes unexpected arguments, if the mode allows none.
fn further(
    matcher: &ArgumentMatcher,
    actual: &Map<'_>,
    is_wanted: impl Fn(&str) -> bool,
    allows_more: &str,
    told: &mut Told,
) {
    if matches!(matcher.mode, ArgumentMode::Subset | ArgumentMode::NestedSubset) {
        return;
    }
    let is_further = |key: &str| !is_wanted(key) && !matcher.is_ignored(key);
    for (key, _) in actual.iter().filter(|(key, _)| is_further(key)) {
        let Some(words) = told.next() else { continue };
        words.hide(&format!("`{key}`"), ANOTHER_ARGUMENT);
        words.push(" was not expected");
        if !allows_more.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(words, " (`{allows_more}` allows more)");
        }
    }
}

/// Describes the arguments that violate rules.
fn of_rules(
    options: &ArgumentMatcher,
    rules: &Expected,
    actual: &Value<'_>,
    allows_more: &str,
) -> Explanation {
    let effort = WorkBudget::new(STEPS_MAX);
    let matching = MatchContext { options, effort: &effort };
    let mut told = Told::default();
    let Some((entries, found)) = rules.entries().zip(actual.as_arguments()) else {
        return told.end_of_arguments();
    };
    for (path, mismatch) in matching.mismatches(entries, found) {
        if let Some(words) = told.next() {
            let _ = write!(words, "`{path}` {mismatch}");
        }
    }
    if options.keys.is_empty() {
        let is_wanted = |key: &str| entries.iter().any(|(name, _)| name == key);
        further(options, found, is_wanted, allows_more, &mut told);
    }
    told.end_of_arguments()
}

/// Returns the paths of `keys` with different values.
fn keys(matcher: &ArgumentMatcher, expected: &Value<'_>, actual: &Value<'_>) -> Explanation {
    let mut told = Told::default();
    for key in &matcher.keys {
        let alone = ArgumentMatcher { keys: vec![key.clone()], ..matcher.clone() };
        if !alone.matches(expected, actual)
            && let Some(words) = told.next()
        {
            let _ = write!(words, "`{key}` is not as expected");
        }
    }
    told.end()
}
