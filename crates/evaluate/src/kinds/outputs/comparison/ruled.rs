//! Comparison with expected values that contain matchers.

use super::similarity::{self, Leaves};
use super::{Compared, Comparer, ComparisonFailure, Method, NumberReading, texts};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::matcher::{self, Expected, MatchContext};
use crate::shared::pairing::read_text;
use crate::shared::report;
use spanscore_base::model::{Explanation, WorkBudget};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;
use spanscore_base::value::python::PyValue;

/// Limit on the steps to describe the differences.
const STEPS_MAX: u64 = 1_000_000;

impl Comparer {
    /// Compiles the matchers in an expected value of `settings`, as it is written.
    ///
    /// # Errors
    /// A mistake in a matcher, or settings that do not go with one.
    pub(crate) fn with_matchers(
        self,
        mut expected: Value<'static>,
        settings: &Node,
    ) -> Result<Self, SettingsError> {
        matcher::check_criteria(settings)?;
        let looks_ruled = matcher::ruled(&mut expected)?;
        let Self { method, subject, key, numbers, delimiter, .. } = self;
        let parts = super::Parts { subject, key, numbers, delimiter };
        let is_ruled = looks_ruled.is_some();
        if is_ruled && (!parts.key.is_whole() || parts.delimiter.is_some()) {
            let message = "matchers go neither with `target_output_key` nor with single lines";
            return Err(SettingsError::new(message).with_help("use `path`").at(settings.place));
        }
        Ok(Self { rules: looks_ruled, ..Self::new(method, parts, expected) })
    }

    /// Judges one content by the rules.
    pub(super) fn judge_rules(
        &self,
        rules: &Expected,
        content: &Value<'_>,
        effort: &WorkBudget,
    ) -> Result<Compared, ComparisonFailure> {
        let Some(part) = self.subject.part(content, true) else { return Ok(self.nothing()) };
        let options = self.options();
        let matching = MatchContext { options: &options, effort };
        let wanted = self.expected.as_ref().map(PyValue::to_text).unwrap_or_default();
        let mut details = texts(wanted, part.to_text().into_owned());
        let score = match self.method {
            Method::Similar => {
                let leaves = self.leaves(&matching, rules, &part);
                let leaves = leaves.ok_or(ComparisonFailure::TooLarge)?;
                details.insert("matched_leaves", leaves.matched);
                details.insert("total_leaves", leaves.total);
                leaves.share()
            }
            method => {
                let holds = matching.result(rules, Some(&part));
                f64::from(u8::from(holds != method.is_negated()))
            }
        };
        if effort.is_spent() {
            return Err(ComparisonFailure::TooLarge);
        }
        Ok(Compared { score, details })
    }

    /// Describes the parts of an output that violate a rule.
    pub(super) fn broken_rules(&self, rules: &Expected, output: &Value<'_>) -> Explanation {
        let Some(part) = self.subject.part(output, true) else {
            return Explanation::plain("; it is not there");
        };
        let options = self.options();
        let effort = WorkBudget::new(STEPS_MAX);
        let matching = MatchContext { options: &options, effort: &effort };
        let read = read_text(&part);
        let mismatches = matching.mismatches_of(rules, read.as_ref().unwrap_or(&part));
        let mut words = Explanation::default();
        report::few(&mut words, mismatches, |words, (path, mismatch)| {
            let place = if path.is_empty() { "it".to_owned() } else { format!("`{path}`") };
            words.push(&format!("{place} {mismatch}"));
        });
        words
    }

    fn options(&self) -> ArgumentMatcher {
        let case_insensitive = matches!(self.method, Method::Exact { case_sensitive: false, .. });
        ArgumentMatcher { case_insensitive, ..ArgumentMatcher::default() }
    }

    /// Compares each leaf; a matcher is one leaf. A text of JSON is parsed if an object or a list
    /// is expected, or if a matcher fails on the text itself.
    fn leaves(
        &self,
        matching: &MatchContext<'_>,
        rules: &Expected,
        actual: &Value<'_>,
    ) -> Option<Leaves> {
        if let Expected::Rule(_) = rules {
            let matched = f64::from(u8::from(matching.result(rules, Some(actual))));
            return Some(Leaves { matched, total: 1.0 });
        }
        let read = match rules {
            Expected::Map(_) | Expected::List(_) => read_text(actual),
            Expected::Rule(_) | Expected::Plain(_) => None,
        };
        leaves(matching, self.numbers, rules, Some(read.as_ref().unwrap_or(actual)))
    }
}

fn leaves(
    matching: &MatchContext<'_>,
    numbers: NumberReading,
    rules: &Expected,
    actual: Option<&Value<'_>>,
) -> Option<Leaves> {
    let below = |rules: &Expected, actual| leaves(matching, numbers, rules, actual);
    Some(match rules {
        Expected::Rule(_) => {
            let matched = f64::from(u8::from(matching.value(rules, actual)));
            Leaves { matched, total: 1.0 }
        }
        Expected::Plain(wanted) => {
            let wanted = numbers.of(wanted.clone()).ok()?;
            match actual {
                Some(actual) => {
                    let actual = numbers.of(actual.clone()).ok()?;
                    similarity::compare(&wanted, &actual, matching.effort)?
                }
                None => similarity::missing(&wanted),
            }
        }
        Expected::List(items) => {
            let found = actual.and_then(Value::as_list).unwrap_or_default();
            let mut sum = Leaves::default();
            for (at, item) in items.iter().enumerate() {
                sum.add(below(item, found.get(at))?);
            }
            sum
        }
        Expected::Map(entries) => {
            let found = actual.unwrap_or(&Value::Null).entries().by_key();
            let mut sum = Leaves::default();
            for (key, it) in entries {
                sum.add(below(it, found.get(key))?);
            }
            sum
        }
    })
}
