//! Skipped evaluators, each with the reason.

use strum::IntoStaticStr;

/// Reason why an evaluator was skipped for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SkipReason {
    /// `sample` leaves the target out.
    SampledOut,
    /// `when` is false.
    When,
    /// `run_if` is false.
    RunIf,
    /// One of the two expressions could not be evaluated, or gave no truth value.
    Error,
}

impl SkipReason {
    /// Reasons that are a choice of the config; an error is none.
    pub const CHOSEN: [Self; 3] = [Self::SampledOut, Self::When, Self::RunIf];

    /// Returns the label value in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Skipped evaluators of a target: the index of each in the config, with the reason.
pub type Skips = Vec<(usize, SkipReason)>;

/// Returns the indexes of those whose expression could not be evaluated.
pub fn when_errors(passes: &Skips) -> impl Iterator<Item = usize> {
    let failed = passes.iter().filter(|(_, reason)| *reason == SkipReason::Error);
    failed.map(|(index, _)| *index)
}
