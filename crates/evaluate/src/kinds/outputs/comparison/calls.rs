//! Comparison of single tool calls: the score is their mean.

use super::subject::CallContent;
use super::{Compared, Comparer, ComparisonTarget};
use crate::shared::pairing::{counted, naming};
use crate::shared::report;
use spanscore_base::model::{Explanation, Outcome, Reason, Trajectory, Want, shown_percent};
use spanscore_base::value::{Map, Value};

/// Limit on the calls in the details.
const SHOWN_MAX: usize = 100;

/// Sum of the judged calls' scores.
#[derive(Default)]
struct Sum<'c> {
    scores: f64,
    calls: usize,
    /// Tools of the calls that do not score 1.
    wrong: Vec<&'c str>,
    shown: Vec<Value<'static>>,
}

impl<'c> Sum<'c> {
    fn add(&mut self, name: &'c str, compared: Compared, want: Want) {
        let Compared { score, details } = compared;
        self.scores += score;
        self.calls += 1;
        if score < 1.0 {
            self.wrong.push(name);
        }
        if want.details && self.shown.len() < SHOWN_MAX {
            let own =
                [("name".into(), name.to_owned().into()), ("score".into(), Value::from(score))];
            let entries = own.into_iter().chain(details.into_entries());
            self.shown.push(Value::Map(Map::from_entries(entries.collect())));
        }
    }
}

impl Comparer {
    /// Judges the calls of the named tools.
    pub(super) fn evaluate_calls(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let subject = &self.subject;
        let effort = &trajectory.effort;
        let mut sum = Sum::default();
        for call in trajectory.tool_calls.iter().filter(|call| subject.includes(call)) {
            let compared = match subject.content(call) {
                CallContent::Value(value) => self.judge(&value, effort),
                CallContent::Nothing => Ok(self.nothing()),
                CallContent::NotRecorded => {
                    return report::not_evaluable(subject.reason(), want, || {
                        let are = if self.subject.target == ComparisonTarget::ToolArguments {
                            "are"
                        } else {
                            "is"
                        };
                        format!("the {} of `{}` {are} not recorded", subject.word(), call.name)
                    });
                }
            };
            match compared {
                Ok(compared) => sum.add(&call.name, compared, want),
                Err(failure) => return failure.outcome(self.error_type()),
            }
        }
        if sum.calls == 0 {
            return report::not_evaluable(Reason::NoToolCalls, want, || {
                match subject.tools.as_slice() {
                    [] => "no tool was called".to_owned(),
                    tools => {
                        format!("no call of {}", report::names(tools.iter().map(String::as_str)))
                    }
                }
            });
        }
        let score = sum.scores / sum.calls as f64;
        let explain = || Explanation::plain(self.explain_calls(&sum, score));
        let details = || Map::from([("calls", Value::List(sum.shown.clone()))]);
        report::scored(score, want, explain, details)
    }

    fn explain_calls(&self, sum: &Sum<'_>, score: f64) -> String {
        let path = self.subject.path.as_ref().map(|path| format!("`{}` of ", path.as_str()));
        let what = format!("{}the {}", path.unwrap_or_default(), self.subject.word());
        let calls = counted(sum.calls, "call");
        if self.method.is_graded() || self.delimiter.is_some() {
            return format!("{what} of {calls}: {} as expected", shown_percent(score));
        }
        let right = sum.calls - sum.wrong.len();
        let but = if sum.wrong.is_empty() { "" } else { "; not so" };
        let names = naming(sum.wrong.iter().copied());
        format!("{what} of {right} of {calls} as expected{but}{names}")
    }
}
