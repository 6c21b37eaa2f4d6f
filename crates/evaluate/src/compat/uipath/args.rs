//! `tool_call_args` with the package's scores.
//!
//! Each expected call takes the first unused call of its name that has all its arguments; `subset`
//! has no effect.

use super::answer::{self, Explained, list_of, mark, write_model};
use super::definition::{Definition, ExpectedEntry, Flag, expected_list, missing, required_map};
use super::spans::{self, UipathCall};
use crate::evaluator::{CodeEvaluator, Evaluator};
use crate::shared::step_limit::WorkBudget;
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::python::PyValue;

/// Builds the evaluator.
pub(crate) fn build(definition: &Definition) -> Result<Evaluator, SettingsError> {
    let strict = definition.flag(Flag("strict", "strict"))?;
    definition.flag(Flag("subset", "subset"))?;
    let expected = definition.criteria(|criteria| {
        expected_list(criteria, ("tool_calls", "toolCalls"), |item| {
            let args = item.get("args").ok_or_else(|| missing("args", item))?;
            let args = required_map(args, "args")?;
            Ok(UipathExpectedArgs { weight: args.node_count(), args: PyValue::from(args) })
        })
    })?;
    Ok(Evaluator::code(UipathArgs { strict, expected }))
}

struct UipathArgs {
    strict: bool,
    expected: Vec<ExpectedEntry<UipathExpectedArgs>>,
}

struct UipathExpectedArgs {
    args: PyValue<'static>,
    /// Number of values in the arguments.
    weight: usize,
}

impl CodeEvaluator for UipathArgs {
    /// Returns false: the package reads spans, not our calls.
    fn reads_calls(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        super::facts()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = spans::calls(trajectory);
        let args: Result<Vec<PyValue<'_>>, _> = calls.iter().map(UipathCall::args).collect();
        let args = match args {
            Ok(args) => args,
            Err(error) => return answer::unreadable(error),
        };
        let empty = answer::empty(self.expected.is_empty(), calls.is_empty(), "");
        let (score, served, explained) = match empty {
            Some((score, explained)) => (score, 0, explained),
            None => {
                let Some((served, explained)) = self.serve(&calls, &args, &trajectory.effort, want)
                else {
                    return answer::too_large(want);
                };
                let score = if self.strict {
                    f64::from(u8::from(served == self.expected.len()))
                } else {
                    served as f64 / self.expected.len() as f64
                };
                (score, served, explained.all())
            }
        };
        answer::scored(
            score,
            want,
            || {
                let expected = self.expected.len();
                format!("{served} of {expected} expected calls were made with their arguments")
            },
            || {
                let expected = list_of(&self.expected, |out, call| {
                    let id = call.id.as_deref();
                    write_model(out, ("ToolCall", "args"), &call.name, &call.content.args, id);
                });
                let actual = list_of(calls.iter().zip(&args), |out, (call, args)| {
                    write_model(out, ("ToolCall", "args"), &call.name, args, call.id.as_deref());
                });
                [
                    ("expected", expected),
                    ("actual", actual),
                    ("explained_tool_calls_args", explained),
                ]
            },
        )
    }
}

impl UipathArgs {
    /// Counts the expected calls with a match; `None` if the work budget is spent.
    fn serve(
        &self,
        calls: &[UipathCall<'_>],
        args: &[PyValue<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Option<(usize, Explained)> {
        let keys: Vec<_> = calls.iter().map(UipathCall::key).collect();
        let mut explained = Explained::default();
        let mut taken = vec![false; calls.len()];
        let mut served = 0;
        for expected in &self.expected {
            for index in 0..calls.len() {
                if taken[index] || !expected.key.matches(&keys[index]) {
                    continue;
                }
                // An upper bound: a linear search per expected key, then full comparisons.
                let cost = 1 + expected.content.weight * (1 + entry_count(&args[index]) / 4) / 2;
                if !effort.spend(cost) {
                    return None;
                }
                let fits = has_all(&args[index], &expected.content.args);
                if want.details {
                    explained.add(&calls[index].name, || {
                        let actual = args[index].repr();
                        let expected = expected.content.args.repr();
                        format!("Actual: {actual}, Expected: {expected}, Score: {}", mark(fits))
                    });
                }
                if fits {
                    taken[index] = true;
                    served += 1;
                    break;
                }
            }
        }
        Some((served, explained))
    }
}

fn entry_count(args: &PyValue<'_>) -> usize {
    if let PyValue::Dict(entries) = args { entries.len() } else { 0 }
}

/// Returns true if the actual arguments include all expected ones, by Python's equality.
fn has_all(actual: &PyValue<'_>, expected: &PyValue<'_>) -> bool {
    let PyValue::Dict(expected) = expected else { return false };
    expected.iter().all(|(key, value)| match key {
        PyValue::Str(key) => actual.get_text(key).is_some_and(|found| found == value),
        _ => true,
    })
}
