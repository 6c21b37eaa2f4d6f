//! Why evaluators gave no answer about a target that is theirs to judge.

/// Why an evaluator passed over a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassReason {
    /// Its `sample` leaves the target out.
    SampledOut,
    /// Its `when` says no.
    When,
    /// Its `run_if` says no.
    RunIf,
    /// One of the two could not be evaluated, or gave no truth value.
    Error,
}

impl PassReason {
    /// All that are a choice of the config; an error is none.
    pub const CHOSEN: [Self; 3] = [Self::SampledOut, Self::When, Self::RunIf];

    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SampledOut => "sampled_out",
            Self::When => "when",
            Self::RunIf => "run_if",
            Self::Error => "error",
        }
    }
}

/// The evaluators that passed over a target: the place of each in the config, with why.
pub type Passes = Vec<(usize, PassReason)>;

/// The places of those whose expression could not be evaluated.
pub fn when_errors(passes: &Passes) -> impl Iterator<Item = usize> {
    let failed = passes.iter().filter(|(_, reason)| *reason == PassReason::Error);
    failed.map(|(index, _)| *index)
}
