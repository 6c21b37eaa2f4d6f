//! Skipped evaluators with their reasons.

use strum::IntoStaticStr;

/// Reason why an evaluator was skipped for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SkipReason {
    /// Excluded by `sample`.
    SampledOut,
    /// `when` is false.
    When,
    /// `run_if` is false.
    RunIf,
    /// Either expression failed, or gave no boolean.
    Error,
}

impl SkipReason {
    /// Reasons chosen by the config, unlike an error.
    pub const CHOSEN: [Self; 3] = [Self::SampledOut, Self::When, Self::RunIf];

    /// Returns the metric label.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Skipped evaluators of a target: their config index and reason.
pub type Skips = Vec<(usize, SkipReason)>;

/// Returns the indexes of evaluators with a failed expression.
pub fn when_errors(passes: &Skips) -> impl Iterator<Item = usize> {
    let failed = passes.iter().filter(|(_, reason)| *reason == SkipReason::Error);
    failed.map(|(index, _)| *index)
}
