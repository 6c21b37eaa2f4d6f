//! What one evaluation may cost, so that no trace holds a shard for long.

use std::cell::Cell;

/// Steps of one evaluation: a value that is looked at, or a few that are compared. A trajectory
/// that would take more is not evaluable (`trajectory_too_large`).
pub(in crate::evaluate) const STEPS_MAX: usize = 64_000_000;

/// What is left of [`STEPS_MAX`].
#[derive(Debug)]
pub(in crate::evaluate) struct Effort(Cell<Option<usize>>);

impl Effort {
    /// All of it.
    pub(in crate::evaluate) fn new() -> Self {
        Self(Cell::new(Some(STEPS_MAX)))
    }

    /// Takes so many steps; `false` where they are not left, and ever after.
    pub(in crate::evaluate) fn spend(&self, steps: usize) -> bool {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(steps)));
        !self.is_spent()
    }

    /// Whether more was asked for than there was.
    pub(in crate::evaluate) fn is_spent(&self) -> bool {
        self.0.get().is_none()
    }
}

/// The sentence for a trajectory that would cost more.
pub(in crate::evaluate) fn words() -> String {
    format!("judging it would take more than {STEPS_MAX} steps")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_stays_spent() {
        let effort = Effort::new();
        assert!(effort.spend(STEPS_MAX));
        assert!(!effort.is_spent());
        assert!(!effort.spend(1));
        assert!(!effort.spend(0));
        assert!(effort.is_spent());
    }
}
