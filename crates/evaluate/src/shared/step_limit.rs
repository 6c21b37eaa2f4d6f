//! Limit on the cost of one evaluation, so that no trace holds a shard for long.

pub(crate) use spanscore_base::model::effort::{EVALUATION_STEPS_MAX as STEPS_MAX, WorkBudget};

/// The sentence for a trajectory that would cost more.
pub(crate) fn words() -> String {
    format!("judging it would take more than {STEPS_MAX} steps")
}
