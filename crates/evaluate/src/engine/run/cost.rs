//! Base cost of evaluations, charged to the work budget before they start.
//!
//! The base cost is linear in the trace and equal for all kinds; a kind charges additional work
//! where it occurs.

use crate::engine::select::STEPS_MAX as WHEN_STEPS_MAX;
use crate::evaluator::CodeEvaluator;
use crate::shared::{report, step_limit};
use spanscore_base::model::{Facts, Level, Outcome, Reason, Trajectory, Want};

/// Steps of one evaluation, including its identity.
pub(super) const OF_CALL: usize = 400;
/// Steps per call of a trajectory.
const PER_CALL: usize = 16;
/// Bytes of a trace read in one step by an evaluator of contents.
const BYTES_PER_STEP: usize = 16;
/// Steps per value in an outcome's details.
const PER_DETAIL: usize = 128;

/// Returns the steps of one evaluation.
pub(super) fn of(
    evaluator: &dyn CodeEvaluator,
    trajectory: &Trajectory<'_>,
    level: Level,
) -> usize {
    let facts = evaluator.facts();
    match level {
        // The contents of all calls are charged together, before the first one is judged.
        Level::Call if evaluator.reads_calls() && !reads_shared(&facts) => OF_CALL,
        _ => of_trace(&facts, trajectory),
    }
}

/// Returns the steps of one pass over the whole trajectory.
pub(super) fn of_trace(facts: &Facts, trajectory: &Trajectory<'_>) -> usize {
    let reads = facts.arguments || facts.results || reads_shared(facts);
    let bytes = if reads { trajectory.bytes / BYTES_PER_STEP } else { 0 };
    OF_CALL + trajectory.tool_calls.len() * PER_CALL + bytes
}

/// Returns true if contents other than those of the calls are read.
fn reads_shared(facts: &Facts) -> bool {
    facts.user_input
        || facts.final_output
        || facts.tool_definitions
        || facts.root_attributes
        || !facts.attributes.is_empty()
}

/// Returns the outcome for a trace with a spent budget.
pub(super) fn too_expensive(want: Want) -> Outcome {
    let words = || "judging the trace would take more than `limits.trace_steps`".to_owned();
    report::not_evaluable(Reason::TraceTooExpensive, want, words)
}

/// Returns the steps to build, copy, write and drop an outcome's details.
pub(super) fn of_details(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Scored(score) if !score.details.is_null() => {
            score.details.node_count() * PER_DETAIL
        }
        _ => 0,
    }
}

/// Returns the outcome of an evaluation that spent the budget.
pub(super) fn of_evaluation(want: Want) -> Outcome {
    report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words)
}

/// Returns the outcome if `when` takes too many steps to evaluate.
pub(super) fn of_when(want: Want) -> Outcome {
    let words = || format!("the expression `when` would take more than {WHEN_STEPS_MAX} steps");
    report::not_evaluable(Reason::TrajectoryTooLarge, want, words)
}
