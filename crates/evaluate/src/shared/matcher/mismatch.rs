//! Mismatches between an expected value with rules and an actual one, by argument and rule.

use super::rule::MatchRule;
use super::{Expected, MatchContext};
use crate::shared::arguments::ArgumentMode;
use spanscore_base::value::{Map, Value};

/// Limit on the mismatches collected of one call.
const MISMATCHES_MAX: usize = 1_000;

impl MatchRule {
    /// Returns the description of a rule's mismatch.
    fn mismatch(&self) -> &'static str {
        match self {
            Self::Any => "is missing",
            Self::Absent => "is there, expected absent",
            Self::Near { .. } => "is not within the tolerance",
            Self::Pattern(_) => "does not match the pattern",
            Self::OneOf(_) => "is none of the expected values",
            Self::Range(..) => "is not within the range",
            Self::Unordered(_) => "does not have the expected items in any order",
            Self::Contains(_) => "does not contain what is expected",
            Self::Instant(_) => "is not the expected moment",
            Self::Text(_) => "is not the expected text",
            Self::Json(_) => "is no JSON of the expected value",
        }
    }
}

impl MatchContext<'_> {
    /// Returns the mismatches of the arguments: the path of each in the criteria, and the violated
    /// rule.
    pub fn mismatches(
        &self,
        entries: &[(String, Expected)],
        actual: &Map<'_>,
    ) -> Vec<(String, &'static str)> {
        let found = actual.by_key();
        let mut mismatches = Vec::new();
        let is_counted = |key: &String| !self.options.is_ignored(key) && self.is_looked_at(key);
        for (key, expected) in entries.iter().filter(|(key, _)| is_counted(key)) {
            let value = found.get(key);
            let may_miss = self.options.mode == ArgumentMode::Superset && value.is_none();
            if !may_miss {
                self.add(expected, key.clone(), value, &mut mismatches);
            }
        }
        mismatches
    }

    /// Returns the mismatches of a value; the path of the whole is empty.
    pub fn mismatches_of(
        &self,
        expected: &Expected,
        actual: &Value<'_>,
    ) -> Vec<(String, &'static str)> {
        let mut mismatches = Vec::new();
        self.add(expected, String::new(), Some(actual), &mut mismatches);
        mismatches
    }

    /// Returns true if `keys` has a top-level key or a path below it.
    fn is_looked_at(&self, key: &str) -> bool {
        let keys = &self.options.keys;
        let leads = |path: &String| path == key || path.split('.').next() == Some(key);
        keys.is_empty() || keys.iter().any(leads)
    }

    /// Adds the mismatches at and below a path.
    fn add(
        &self,
        expected: &Expected,
        path: String,
        actual: Option<&Value<'_>>,
        mismatches: &mut Vec<(String, &'static str)>,
    ) {
        if mismatches.len() >= MISMATCHES_MAX || self.value(expected, actual) {
            return;
        }
        match (expected, actual) {
            (Expected::Rule(rule), Some(_)) => mismatches.push((path, rule.mismatch())),
            (_, None) => mismatches.push((path, "is missing")),
            (Expected::Map(entries), Some(Value::Map(actual))) => {
                let found = actual.by_key();
                let before = mismatches.len();
                for (key, expected) in entries {
                    let path = joined(&path, key);
                    self.add(expected, path, found.get(key), mismatches);
                }
                if mismatches.len() == before {
                    mismatches.push((path, "has an entry that was not expected"));
                }
            }
            (Expected::List(items), Some(Value::List(actual))) if items.len() == actual.len() => {
                for (at, (expected, actual)) in items.iter().zip(actual).enumerate() {
                    let path = joined(&path, &at.to_string());
                    self.add(expected, path, Some(actual), mismatches);
                }
            }
            _ => mismatches.push((path, "is not as expected")),
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
