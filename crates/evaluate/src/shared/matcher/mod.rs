//! Matchers: expected values given by a rule instead of literally.
//!
//! A matcher is a map with the single key `$is`: `{$is: {near: 90, within: 0.01}}`, `{$is: any}`.
//! Criteria are compiled when read ([`read`]); values without matchers stay plain, at no extra
//! cost. Comparing is charged to the trace: once its budget is spent, nothing matches, and the
//! caller detects that.

mod mismatch;
mod mistake;
mod read;
mod rule;

use super::arguments::{ArgumentMatcher, ArgumentMode, at_path};
use super::pairing;
pub use read::{
    MATCHED_KINDS, check, check_criteria, check_rule, escaped, expected, rule_of, ruled,
};
pub use rule::MatchRule;
use spanscore_base::model::WorkBudget;
use spanscore_base::value::{Map, Value};

/// Expected value, possibly with rules in it.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Value without matchers.
    Plain(Value<'static>),
    /// Matcher.
    Rule(Box<MatchRule>),
    /// List with matchers.
    List(Vec<Expected>),
    /// Object with matchers.
    Map(Vec<(String, Expected)>),
}

/// Part of an expected value at a path.
enum ExpectedPart<'e> {
    Plain(&'e Value<'static>),
    Ruled(&'e Expected),
}

/// Options and budget of one comparison.
#[derive(Clone, Copy)]
pub struct MatchContext<'m> {
    /// Options for literal values.
    pub options: &'m ArgumentMatcher,
    /// Budget charged for the comparison.
    pub effort: &'m WorkBudget,
}

impl MatchContext<'_> {
    /// Returns true if the arguments of a call match.
    pub fn arguments(&self, expected: &Expected, actual: &Value<'_>) -> bool {
        let options = self.options;
        if !options.keys.is_empty() {
            let is_met = |path: &String| match (part_at(expected, path), at_path(actual, path)) {
                (Some(ExpectedPart::Ruled(expected)), found) => self.value(expected, found),
                (Some(ExpectedPart::Plain(wanted)), Some(found)) => self.plain(wanted, found),
                (wanted, found) => wanted.is_none() && found.is_none(),
            };
            return options.keys.iter().all(is_met);
        }
        match (expected, actual.as_arguments()) {
            _ if options.mode == ArgumentMode::Ignore => true,
            (Expected::Map(entries), Some(found)) => {
                self.map(entries, found, options.mode, &options.ignore)
            }
            _ => self.value(expected, Some(actual)),
        }
    }

    /// Returns true if a value, or its absence, matches.
    pub fn value(&self, expected: &Expected, actual: Option<&Value<'_>>) -> bool {
        if !self.effort.spend(1) {
            return false;
        }
        match (expected, actual) {
            (Expected::Rule(rule), actual) => rule.holds(self, actual),
            (_, None) => false,
            (Expected::Plain(wanted), Some(found)) => self.plain(wanted, found),
            (Expected::List(wanted), Some(Value::List(found))) => {
                let mut pairs = wanted.iter().zip(found);
                wanted.len() == found.len() && pairs.all(|(it, found)| self.value(it, Some(found)))
            }
            (Expected::Map(wanted), Some(Value::Map(found))) => {
                let mode = match self.options.mode {
                    ArgumentMode::NestedSubset => ArgumentMode::Subset,
                    _ => ArgumentMode::Exact,
                };
                self.map(wanted, found, mode, &[])
            }
            (Expected::List(_) | Expected::Map(_), Some(_)) => false,
        }
    }

    /// Returns true if a result matches; a text of JSON is also parsed.
    pub fn result(&self, expected: &Expected, actual: Option<&Value<'_>>) -> bool {
        if self.value(expected, actual) {
            return true;
        }
        let Some(text) = actual.and_then(Value::as_str) else { return false };
        if !self.effort.spend(text.len()) {
            return false;
        }
        let read = actual.and_then(pairing::read_text);
        read.is_some_and(|read| self.value(expected, Some(&read)))
    }

    fn plain(&self, wanted: &Value<'_>, found: &Value<'_>) -> bool {
        self.effort.spend(wanted.node_count()) && self.options.matches_below(wanted, found)
    }

    /// Compares the entries of an object without `ignored` keys.
    fn map(
        &self,
        wanted: &[(String, Expected)],
        found: &Map<'_>,
        mode: ArgumentMode,
        ignored: &[String],
    ) -> bool {
        if !self.effort.spend(1 + found.len() / 4) {
            return false;
        }
        let entries = found.by_key();
        let is_counted = |key: &str| !ignored.iter().any(|ignored| ignored == key);
        let mut known = 0;
        for (key, expected) in wanted.iter().filter(|(key, _)| is_counted(key)) {
            let value = entries.get(key);
            known += usize::from(value.is_some());
            let may_miss = mode == ArgumentMode::Superset && value.is_none();
            if !may_miss && !self.value(expected, value) {
                return false;
            }
        }
        let allows_more = matches!(mode, ArgumentMode::Subset | ArgumentMode::NestedSubset);
        allows_more || found.iter().filter(|(key, _)| is_counted(key)).count() == known
    }

    /// Returns true if each of `wanted` matches a distinct item of `found`.
    fn each_among(&self, wanted: &[Expected], found: &[Value<'_>]) -> bool {
        // The matching checks each pair at most once; its search costs about as much.
        if !self.effort.spend(wanted.len().saturating_mul(found.len())) {
            return false;
        }
        let fits = |e: usize, a: usize| self.value(&wanted[e], Some(&found[a]));
        let Ok(pairs) = pairing::pairs(wanted.len(), found.len(), fits) else {
            // Spends the budget, so that the caller does not read a missing answer as "no".
            self.effort.spend(self.effort.left().saturating_add(1));
            return false;
        };
        pairs == wanted.len()
    }
}

impl Expected {
    /// Returns the entries of an object with matchers.
    pub fn entries(&self) -> Option<&[(String, Expected)]> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the value if it has no matcher.
    pub fn into_plain(self) -> Result<Value<'static>, Self> {
        match self {
            Self::Plain(value) => Ok(value),
            ruled => Err(ruled),
        }
    }
}

/// Returns the part of an expected value at a dotted path; `null` counts as absent.
fn part_at<'e>(expected: &'e Expected, path: &str) -> Option<ExpectedPart<'e>> {
    let entries = match expected {
        Expected::Plain(value) => return at_path(value, path).map(ExpectedPart::Plain),
        Expected::Map(entries) => entries,
        Expected::Rule(_) | Expected::List(_) => return None,
    };
    let entry = |key: &str| entries.iter().find(|(name, _)| name == key).map(|(_, part)| part);
    match entry(path) {
        Some(Expected::Plain(Value::Null)) => None,
        Some(Expected::Plain(value)) => Some(ExpectedPart::Plain(value)),
        Some(ruled) => Some(ExpectedPart::Ruled(ruled)),
        None => {
            let (first, rest) = path.split_once('.')?;
            part_at(entry(first)?, rest)
        }
    }
}

#[cfg(test)]
mod tests;
