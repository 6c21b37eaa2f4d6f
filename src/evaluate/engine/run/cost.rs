//! What any evaluation takes, whatever it does: what is linear in the trace is taken at once, and
//! only what is more than that takes its steps where it is done.

use crate::evaluate::engine::select::STEPS_MAX as WHEN_STEPS_MAX;
use crate::evaluate::evaluator::Evaluator;
use crate::evaluate::shared::{report, step_limit};
use crate::model::{Facts, Level, Outcome, Reason, Trajectory, Want};

/// Steps of one evaluation with its identity.
pub(super) const OF_CALL: usize = 400;
/// Steps for each call of a trajectory.
const PER_CALL: usize = 16;
/// Bytes of a trace that an evaluator of contents reads in one step.
const BYTES_PER_STEP: usize = 16;
/// Steps of each value of an answer's details.
const PER_DETAIL: usize = 128;

/// Steps that an evaluation takes.
pub(super) fn of(evaluator: &dyn Evaluator, trajectory: &Trajectory<'_>, level: Level) -> usize {
    match level {
        // Of one call, what the call holds is a part of what all of them do.
        Level::Call if evaluator.reads_calls() && !reads_shared(&evaluator.facts()) => OF_CALL,
        _ => of_trace(evaluator, trajectory),
    }
}

/// Steps that one look at the whole trajectory takes.
pub(super) fn of_trace(evaluator: &dyn Evaluator, trajectory: &Trajectory<'_>) -> usize {
    let facts = evaluator.facts();
    let reads = facts.arguments || facts.results || reads_shared(&facts);
    let bytes = if reads { trajectory.bytes / BYTES_PER_STEP } else { 0 };
    OF_CALL + trajectory.tool_calls.len() * PER_CALL + bytes
}

/// Whether more than the calls is read of contents.
fn reads_shared(facts: &Facts) -> bool {
    facts.user_input
        || facts.final_output
        || facts.tool_definitions
        || facts.root_attributes
        || !facts.attributes.is_empty()
}

/// The answer where the steps of the trace are spent.
pub(super) fn too_expensive(want: Want) -> Outcome {
    let words = || "judging the trace would take more than `limits.trace_steps`".to_owned();
    let explanation = if want.explanation { words() } else { String::new() };
    Outcome::NotEvaluable { reason: Reason::TraceTooExpensive, explanation }
}

/// Steps that the details of an answer take: to make, to copy, to write and to forget.
pub(super) fn of_details(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Scored(score) if !score.details.is_null() => {
            score.details.node_count() * PER_DETAIL
        }
        _ => 0,
    }
}

/// The answer where the steps of the evaluation were spent before its end.
pub(super) fn of_evaluation(want: Want) -> Outcome {
    report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words)
}

/// The answer where it takes too long to find out whether a trajectory is judged at all.
pub(super) fn of_when(want: Want) -> Outcome {
    let words = || format!("the expression `when` would take more than {WHEN_STEPS_MAX} steps");
    let explanation = if want.explanation { words() } else { String::new() };
    Outcome::NotEvaluable { reason: Reason::TrajectoryTooLarge, explanation }
}
