//! `tool_call_order` with the package's scores.

use super::answer;
use super::definition::{Definition, Flag, required_list, required_text};
use super::spans::{self, ExpectedKey, MatchKey, UipathCall};
use crate::evaluator::{CodeEvaluator, Evaluator};
use crate::shared::order::{self, Masks};
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;
use spanscore_base::value::python::PyValue;

/// Builds the evaluator.
pub(crate) fn build(definition: &Definition) -> Result<Evaluator, SettingsError> {
    let strict = definition.flag(Flag("strict", "strict"))?;
    let names: Vec<String> = definition.criteria(|criteria| {
        let name = |item: &Node| required_text(item, "tool name");
        required_list(criteria, ("tool_calls_order", "toolCallsOrder"), name)
    })?;
    let keys = names.iter().map(|name| ExpectedKey::new(name, None)).collect();
    let by_id = Masks::new(&names);
    let by_name = Masks::new(names.iter().map(|name| spans::sanitize(name)));
    Ok(Evaluator::code(UipathOrder { strict, names, keys, by_id, by_name }))
}

struct UipathOrder {
    strict: bool,
    names: Vec<String>,
    keys: Vec<ExpectedKey>,
    /// Positions of each expected id, as bit masks.
    by_id: Masks,
    /// Positions of each expected sanitized name, as bit masks.
    by_name: Masks,
}

impl CodeEvaluator for UipathOrder {
    /// Returns false: the package reads spans, not our calls.
    fn reads_calls(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        super::facts()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = spans::calls(trajectory);
        let empty = answer::empty(self.names.is_empty(), calls.is_empty(), "");
        let (score, common) = match empty {
            Some((score, _)) => (score, Vec::new()),
            None if self.strict => self.exact(&calls),
            None => self.longest(&calls, want),
        };
        let names = |names: &[&str]| {
            PyValue::List(names.iter().map(|name| PyValue::text(name)).collect()).repr()
        };
        answer::scored(
            score,
            want,
            || {
                let len = self.names.len();
                let kept = score * len as f64;
                format!("{kept:.0} of {len} expected calls were made in the expected order")
            },
            || {
                let expected: Vec<&str> = self.names.iter().map(String::as_str).collect();
                let actual: Vec<&str> =
                    calls.iter().map(|call| call.id.as_deref().unwrap_or(&call.name)).collect();
                let common = common.iter().map(|at| Value::from(self.names[*at].clone()));
                [
                    ("actual", names(&actual).into()),
                    ("expected", names(&expected).into()),
                    ("lcs", Value::List(common.collect())),
                ]
            },
        )
    }
}

impl UipathOrder {
    fn exact(&self, calls: &[UipathCall<'_>]) -> (f64, Vec<usize>) {
        let same = calls.len() == self.keys.len()
            && self.keys.iter().zip(calls).all(|(key, call)| key.matches(&call.key()));
        if same { (1.0, (0..self.keys.len()).collect()) } else { (0.0, Vec::new()) }
    }

    fn longest(&self, calls: &[UipathCall<'_>], want: Want) -> (f64, Vec<usize>) {
        let rows = calls.iter().map(|call| match call.key() {
            MatchKey { is_id: true, text } => self.by_id.get(&text),
            MatchKey { is_id: false, text } => self.by_name.get(&text),
        });
        let (length, common) = order::of_singles(rows, self.names.len(), want.details);
        (length as f64 / self.names.len() as f64, common)
    }
}
