//! `tool_call_output` with the package's scores.
//!
//! Results are compared as text. With `strict`, the first unused call of an expected name must
//! match.

use super::answer::{self, Explained, list_of, mark, write_model};
use super::definition::{Definition, ExpectedEntry, Flag, expected_list, missing, required_text};
use super::spans::{self, UipathCall};
use crate::evaluator::{CodeEvaluator, Evaluator};
use crate::shared::step_limit::WorkBudget;
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::python::{PyStr, PyValue};
use spanscore_base::value::{Map, Value};

/// Builds the evaluator.
pub(crate) fn build(definition: &Definition) -> Result<Evaluator, SettingsError> {
    let strict = definition.flag(Flag("strict", "strict"))?;
    let expected = definition.criteria(|criteria| {
        expected_list(criteria, ("tool_outputs", "toolOutputs"), |item| {
            let output = item.get("output").ok_or_else(|| missing("output", item))?;
            required_text(output, "output")
        })
    })?;
    Ok(Evaluator::code(UipathOutput { strict, expected }))
}

struct UipathOutput {
    strict: bool,
    expected: Vec<ExpectedEntry<String>>,
}

impl CodeEvaluator for UipathOutput {
    /// Returns false: the package reads spans, not our calls.
    fn reads_calls(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        super::facts()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = spans::calls(trajectory);
        let outputs: Result<Vec<PyStr<'_>>, _> = calls.iter().map(UipathCall::output).collect();
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return answer::unreadable(error),
        };
        let empty = answer::empty(self.expected.is_empty(), calls.is_empty(), " outputs");
        let (score, served, explained) = match empty {
            Some((score, explained)) => (score, 0, explained),
            None => match self.serve(&calls, &outputs, &trajectory.effort, want) {
                Some(served) => served,
                None => return answer::too_large(want),
            },
        };
        let model = ("ToolOutput", "output");
        answer::scored(
            score,
            want,
            || format!("{served} of {} expected results were returned", self.expected.len()),
            || {
                let expected = list_of(&self.expected, |out, item| {
                    let output = PyValue::text(&item.content);
                    write_model(out, model, &item.name, &output, item.id.as_deref());
                });
                let actual = list_of(calls.iter().zip(&outputs), |out, (call, output)| {
                    let output = PyValue::Str(output.clone());
                    write_model(out, model, &call.name, &output, call.id.as_deref());
                });
                [
                    ("expected", expected),
                    ("actual", actual),
                    ("explained_tool_calls_outputs", explained),
                ]
            },
        )
    }
}

impl UipathOutput {
    /// Returns the score, the number of matched results, and their explanations; `None` if the work
    /// budget is spent.
    fn serve(
        &self,
        calls: &[UipathCall<'_>],
        outputs: &[PyStr<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Option<(f64, usize, Value<'static>)> {
        let keys: Vec<_> = calls.iter().map(UipathCall::key).collect();
        let mut explained = Explained::default();
        let mut taken = vec![false; calls.len()];
        let mut served = 0;
        for expected in &self.expected {
            let mut found = false;
            for index in 0..calls.len() {
                if taken[index] || !expected.key.matches(&keys[index]) {
                    continue;
                }
                let wanted = expected.content.as_bytes();
                let output = outputs[index].as_bytes();
                // Texts of different lengths are different without a comparison.
                let compared = if output.len() == wanted.len() { wanted.len() } else { 0 };
                if !effort.spend(1 + compared / 16) {
                    return None;
                }
                let fits = output == wanted;
                if want.details {
                    explained.add(&calls[index].name, || {
                        let actual = outputs[index].clone().into_text();
                        let expected = &expected.content;
                        let mark = mark(fits);
                        format!("Actual: {actual}, Expected: {expected}, Score: {mark}")
                    });
                }
                if fits {
                    (taken[index], found) = (true, true);
                    served += 1;
                    break;
                }
                if self.strict {
                    return Some((0.0, served, explained.last()));
                }
            }
            if self.strict && !found {
                let text =
                    format!("No matching actual tool call found for expected {}", expected.name);
                let explained = Map::from([("_result", Value::from(text))]);
                return Some((0.0, served, Value::Map(explained)));
            }
        }
        let score = served as f64 / self.expected.len() as f64;
        Some((score, served, explained.all()))
    }
}
