//! Partial credit for expected calls with matchers.

use crate::shared::arguments::ArgumentMatcher;
use crate::shared::matcher::{Expected, MatchContext};
use crate::shared::report;
use spanscore_base::model::WorkBudget;
use spanscore_base::value::Value;

/// Returns the share of the expected arguments that match.
pub(super) fn share(rules: &Expected, actual: &Value<'_>, effort: &WorkBudget) -> f64 {
    let options = ArgumentMatcher::default();
    let matching = MatchContext { options: &options, effort };
    let Some(entries) = rules.entries() else {
        return f64::from(u8::from(matching.value(rules, Some(actual))));
    };
    let given = actual.entries().by_key();
    let held = entries.iter().filter(|(key, it)| matching.value(it, given.get(key))).count();
    report::ratio(held, entries.len())
}

/// Returns the share of keys that match in the union of both sides; nested objects count in part.
pub(super) fn similarity(rules: &Expected, actual: &Value<'_>, effort: &WorkBudget) -> f64 {
    let options = ArgumentMatcher::default();
    let matching = MatchContext { options: &options, effort };
    similar(&matching, rules, Some(actual))
}

fn similar(matching: &MatchContext<'_>, rules: &Expected, actual: Option<&Value<'_>>) -> f64 {
    let (Some(entries), Some(Value::Map(found))) = (rules.entries(), actual) else {
        return f64::from(u8::from(matching.value(rules, actual)));
    };
    let given = found.by_key();
    let shared = entries.iter().filter(|(key, _)| given.has(key)).count();
    let all = (entries.len() + found.len() - shared) as f64;
    let credit = entries.iter().map(|(key, it)| similar(matching, it, given.get(key)) / all);
    report::total(credit)
}

/// Returns true if a result matches; a text of JSON is also parsed.
pub(super) fn is_result(rules: &Expected, given: Option<&Value<'_>>, effort: &WorkBudget) -> bool {
    let options = ArgumentMatcher::default();
    MatchContext { options: &options, effort }.result(rules, given)
}
