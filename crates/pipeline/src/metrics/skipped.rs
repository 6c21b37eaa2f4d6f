//! Counts of targets that evaluators skipped by configuration.

use spanscore_evaluate::engine::run::{SkipReason, Skips};

/// Counts of skipped targets, by index of the evaluator and reason.
#[derive(Default)]
pub(super) struct SkipCounts(pub(super) Vec<((usize, SkipReason), u64)>);

impl SkipCounts {
    /// Adds the skips of one target.
    pub(super) fn add(&mut self, skips: Skips) {
        // A scan beats a map: few evaluators skip, and mostly the same ones.
        for skip in skips {
            match self.0.iter_mut().find(|(known, _)| *known == skip) {
                Some((_, count)) => *count += 1,
                None => self.0.push((skip, 1)),
            }
        }
    }
}
