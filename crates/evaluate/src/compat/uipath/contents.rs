//! `tool_call_args` and `tool_call_output` with the package's scores: each expected call takes the
//! first unused call of its name that has the expected content.

use super::answer::{self, Explained, list_of, mark, write_model};
use super::definition::ExpectedEntry;
use super::spans::{self, UipathCall};
use crate::evaluator::CodeEvaluator;
use crate::shared::pairing::share;
use crate::shared::step_limit::WorkBudget;
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};
use spanscore_base::value::python::{PyError, PyValue};
use spanscore_base::value::{Map, Value};

/// Compared content of calls, with the package's words for it.
pub(super) struct ContentKind {
    /// The package's name of a call with its content, and of the content.
    pub(super) model: (&'static str, &'static str),
    /// Word for several of them in the package's texts.
    pub(super) plural: &'static str,
    /// Key of the explanations in the details.
    pub(super) explained: &'static str,
    /// Words after the number of expected calls found, of all.
    pub(super) told: &'static str,
    /// Content of a call.
    pub(super) read: for<'a> fn(&UipathCall<'a>) -> Result<PyValue<'a>, PyError>,
    /// Steps to compare an actual content with an expected one.
    pub(super) cost: fn(&ExpectedEntry, &PyValue<'_>) -> usize,
    /// True if an actual content, the first, is as expected.
    pub(super) fits: fn(&PyValue<'_>, &PyValue<'_>) -> bool,
    /// Text of a content in the explanations.
    pub(super) shown: fn(&PyValue<'_>) -> String,
}

/// Comparison of the contents of calls.
pub(super) struct Contents {
    pub(super) kind: ContentKind,
    /// All or nothing.
    pub(super) strict: bool,
    /// True if the first unused call of an expected name must have the content.
    pub(super) first_decides: bool,
    pub(super) expected: Vec<ExpectedEntry>,
}

impl CodeEvaluator for Contents {
    /// Returns false: the package reads spans, not our calls.
    fn reads_calls(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        super::facts()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let ContentKind { model, plural, explained: key, told, read, .. } = self.kind;
        let calls = spans::calls(trajectory);
        let contents = match calls.iter().map(read).collect::<Result<Vec<_>, _>>() {
            Ok(contents) => contents,
            Err(error) => return answer::failed(error),
        };
        let empty = answer::empty(self.expected.is_empty(), calls.is_empty(), plural);
        let (score, served, explained) = match empty {
            Some((score, explained)) => (score, 0, explained),
            None => match self.serve(&calls, &contents, &trajectory.effort, want) {
                Some(served) => served,
                None => return answer::too_large(want),
            },
        };
        answer::scored(
            score,
            want,
            || format!("{served} of {} {told}", self.expected.len()),
            || {
                let expected = list_of(&self.expected, |out, item| {
                    write_model(out, model, &item.name, &item.content, item.id.as_deref());
                });
                let actual = list_of(calls.iter().zip(&contents), |out, (call, content)| {
                    write_model(out, model, &call.name, content, call.id.as_deref());
                });
                [("expected", expected), ("actual", actual), (key, explained)]
            },
        )
    }
}

impl Contents {
    /// Returns the score, the number of expected calls found, and the explanations; `None` if the
    /// work budget is spent.
    fn serve(
        &self,
        calls: &[UipathCall<'_>],
        contents: &[PyValue<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Option<(f64, usize, Value<'static>)> {
        let ContentKind { cost, fits, shown, .. } = self.kind;
        let keys: Vec<_> = calls.iter().map(UipathCall::key).collect();
        let mut explained = Explained::default();
        let mut taken = vec![false; calls.len()];
        let mut served = 0;
        for expected in &self.expected {
            let mut found = false;
            for (index, actual) in contents.iter().enumerate() {
                if taken[index] || !expected.key.matches(&keys[index]) {
                    continue;
                }
                if !effort.spend(cost(expected, actual)) {
                    return None;
                }
                found = fits(actual, &expected.content);
                if want.details {
                    explained.add(&calls[index].name, || {
                        let actual = shown(actual);
                        let expected = shown(&expected.content);
                        format!("Actual: {actual}, Expected: {expected}, Score: {}", mark(found))
                    });
                }
                if found {
                    taken[index] = true;
                    served += 1;
                    break;
                }
                if self.first_decides {
                    return Some((0.0, served, explained.last()));
                }
            }
            if self.first_decides && !found {
                let text =
                    format!("No matching actual tool call found for expected {}", expected.name);
                let explained = Map::from([("_result", Value::from(text))]);
                return Some((0.0, served, Value::Map(explained)));
            }
        }
        Some((share(served, self.expected.len(), self.strict), served, explained.all()))
    }
}
