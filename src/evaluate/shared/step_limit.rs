//! What one evaluation may cost, so that no trace holds a shard for long.

pub(in crate::evaluate) use crate::model::effort::{EVALUATION_STEPS_MAX as STEPS_MAX, Effort};

/// The sentence for a trajectory that would cost more.
pub(in crate::evaluate) fn words() -> String {
    format!("judging it would take more than {STEPS_MAX} steps")
}
