//! Counts of targets that evaluators skipped as the config says.

use spanscore_evaluate::engine::run::{SkipReason, Skips};

/// Counts of skipped targets, by index of the evaluator and reason.
#[derive(Default)]
pub(super) struct PassCounts(pub(super) Vec<((usize, SkipReason), u64)>);

impl PassCounts {
    /// Adds the skips of one target.
    pub(super) fn add(&mut self, passes: Skips) {
        // A scan beats a map: few evaluators skip, and mostly the same ones.
        for pass in passes {
            match self.0.iter_mut().find(|(known, _)| *known == pass) {
                Some((_, count)) => *count += 1,
                None => self.0.push((pass, 1)),
            }
        }
    }
}
