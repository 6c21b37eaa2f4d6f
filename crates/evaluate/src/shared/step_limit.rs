//! Limit on the cost of one evaluation, so that no trace blocks a shard for long.

pub(crate) use spanscore_base::model::effort::{EVALUATION_STEPS_MAX as STEPS_MAX, WorkBudget};

/// Returns the sentence for a trajectory beyond the limit.
pub(crate) fn words() -> String {
    format!("judging it would take more than {STEPS_MAX} steps")
}
