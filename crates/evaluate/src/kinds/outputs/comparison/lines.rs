//! Comparison of texts line by line.

use super::{Compared, Comparer, ComparisonFailure, Method};
use spanscore_base::model::WorkBudget;
use spanscore_base::value::python::PyValue;
use spanscore_base::value::{Map, Value};

impl Comparer {
    /// Judges each line; the score is their mean.
    pub(super) fn by_line(
        &self,
        output: &Value<'_>,
        delimiter: &str,
        effort: &WorkBudget,
    ) -> Result<Compared, ComparisonFailure> {
        let (expected, actual) = self.both(output)?;
        if delimiter.is_empty() {
            return Err(ComparisonFailure::Error("empty separator".to_owned()));
        }
        let [actual_text, expected_text] =
            [&actual, expected].map(|value| self.key.unwrap(value).to_text());
        let [actual_lines, expected_lines] =
            [&actual_text, &expected_text].map(|text| lines(text, delimiter));
        let count = actual_lines.len().max(expected_lines.len());
        let line = |lines: &[&str], at: usize| lines.get(at).copied().unwrap_or("").to_owned();
        let mut results = Vec::new();
        let mut sum = 0.0;
        for at in 0..count {
            let [actual, wanted] = [&actual_lines, &expected_lines].map(|list| line(list, at));
            let (score, details) = match self.one_line(&actual, &wanted, expected, effort)? {
                Ok(Compared { score, details }) => (score, Value::Map(details)),
                Err(error) => (0.0, format!("Exception thrown by evaluator: {error}").into()),
            };
            sum += score;
            let mut entry = Map::new();
            entry.insert("line_number", at + 1);
            entry.insert("actual", actual);
            entry.insert("expected", wanted);
            entry.insert("score", score);
            entry.insert("details", details);
            results.push(Value::Map(entry));
        }
        let mut details = Map::new();
        details.insert("line_by_line_results", results);
        details.insert("total_lines_actual", actual_lines.len());
        details.insert("total_lines_expected", expected_lines.len());
        details.insert("aggregation_method", "average");
        let score = if count == 0 { 0.0 } else { sum / count as f64 };
        Ok(Compared { score, details })
    }

    /// Judges a line as its own output, under the judged key.
    fn one_line(
        &self,
        actual: &str,
        wanted: &str,
        expected: &PyValue<'_>,
        effort: &WorkBudget,
    ) -> Result<Result<Compared, String>, ComparisonFailure> {
        if let Err(error) = self.key.takes_lines() {
            return Ok(Err(error));
        }
        let wanted = match self.method {
            Method::Contains { .. } => expected.clone(),
            _ => PyValue::text(wanted),
        };
        self.compare(&wanted, &PyValue::text(actual), effort).map(Ok)
    }
}

/// Splits a text into lines without blank ones.
fn lines<'t>(text: &'t str, delimiter: &str) -> Vec<&'t str> {
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    text.split(delimiter).filter(|line| !line.chars().all(is_space)).collect()
}
