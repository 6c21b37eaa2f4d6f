//! Sessions judged by turn: the score is the mean over the turns, as in the Agent Development Kit
//! (`google/adk-python`, `evaluation/trajectory_evaluator.py`).
//!
//! A turn without a required expectation is left out.

use super::expected_calls::{Criteria, ExpectedCall, best_of};
use super::report;
use spanscore_base::model::{Explanation, Outcome, Reason, Score, ToolCall, Trajectory, Want};
use spanscore_base::value::{Map, Value};

/// Limit on the turns of one session; with more it is not evaluable.
pub(crate) const TURNS_MAX: usize = 200;

/// Judges a trajectory by the form of its criteria: by the best of `any_of`, by turn, or all calls
/// at once.
pub(crate) fn judge<'a>(
    criteria: &Criteria,
    trajectory: &Trajectory<'a>,
    want: Want,
    judge: impl Fn(&[ExpectedCall], &[ToolCall<'a>]) -> Outcome,
) -> Outcome {
    let calls = &trajectory.tool_calls;
    if !criteria.any_of.is_empty() {
        return best_of(&criteria.any_of, |expected| judge(expected, calls));
    }
    if criteria.turns.is_empty() || trajectory.turn_starts.is_empty() {
        return judge(&criteria.tool_calls, calls);
    }
    mean(&criteria.turns, trajectory, want, judge)
}

/// Returns the mean over the turns. Missing turns are judged as turns without calls, unexpected
/// ones as turns without expected calls.
fn mean<'c, 'a>(
    expected: &'c [Vec<ExpectedCall>],
    session: &'c Trajectory<'a>,
    want: Want,
    judge: impl Fn(&'c [ExpectedCall], &'c [ToolCall<'a>]) -> Outcome,
) -> Outcome {
    let actual: Vec<_> = session.calls_by_turn().collect();
    let count = expected.len().max(actual.len());
    if count > TURNS_MAX {
        return report::not_evaluable(Reason::TrajectoryTooLarge, want, || {
            format!("the session has {count} turns, more than {TURNS_MAX}")
        });
    }
    let mut scores = Vec::with_capacity(count);
    let mut details = Vec::new();
    let mut wrong = Vec::new();
    for turn in 0..count {
        let expected = expected.get(turn).map_or(&[][..], Vec::as_slice);
        let actual = actual.get(turn).copied().unwrap_or_default();
        match judge(expected, actual) {
            Outcome::Scored(Score { value, explanation, details: of_turn, .. }) => {
                scores.push(value);
                if value < 1.0 {
                    wrong.push((turn + 1, explanation));
                }
                if want.details {
                    details.push(shown(turn, value, of_turn));
                }
            }
            Outcome::NotEvaluable { reason: Reason::NoExpectation, .. } => {}
            other => return other,
        }
    }
    if scores.is_empty() {
        return report::not_evaluable(Reason::NoExpectation, want, || {
            "no call is expected in any turn".to_owned()
        });
    }
    let explain = || {
        let whole = scores.iter().filter(|score| **score >= 1.0).count();
        let text = format!("{whole} of {} turns are as expected", scores.len());
        let mut words = Explanation::plain(text);
        report::few(&mut words, &wrong, |words, (turn, of_turn)| {
            words.push(&format!("turn {turn}: "));
            words.append(of_turn);
        });
        words
    };
    let value = report::total(scores.iter().copied()) / scores.len() as f64;
    let details = || Map::from([("turns", Value::List(details))]);
    report::scored(value, want, explain, details)
}

fn shown(turn: usize, score: f64, details: Value<'static>) -> Value<'static> {
    let own = [("turn".into(), Value::from(turn + 1)), ("score".into(), Value::from(score))];
    let details = match details {
        Value::Map(details) => details,
        _ => Map::new(),
    };
    Value::Map(Map::from_entries(own.into_iter().chain(details.into_entries()).collect()))
}
