//! Trajectories to evaluations.
//!
//! An evaluator is built once from its settings and criteria, then judges trajectories. Evaluators
//! do no I/O and read no clock. A newcomer adds one by writing `evaluate/<kind>.rs` with a
//! [`Kind`], naming it in [`KINDS`], and adding fixtures under `tests/fixtures/evaluators/<kind>/`.

pub mod argument_correctness;
pub mod argument_grounding;
pub mod arguments;
pub mod calls;
mod comparison;
pub mod compat;
pub mod contains;
pub mod definitions;
mod effort;
pub mod exact_match;
pub mod expect;
mod heaviest;
pub mod json_similarity;
pub mod lcs;
pub mod matching;
mod names;
pub mod output_rules;
mod reliability;
pub mod report;
pub mod run;
pub mod select;
mod subsequence;
pub mod text;
mod together;
pub mod tool_budget;
pub mod tool_call_args;
pub mod tool_call_count;
pub mod tool_call_order;
pub mod tool_call_output;
pub mod tool_call_validity;
mod tool_calls;
pub mod tool_correctness;
pub mod tool_description_reliability;
pub mod tool_efficiency;
pub mod tool_error;
pub mod tool_loop;
pub mod tool_name_reliability;
pub mod tool_policy;
pub mod tool_recovery;
pub mod tool_trajectory;
mod turns;
pub mod uipath;

pub use crate::model::Want;
use crate::model::{Facts, Outcome, Trajectory};
use crate::settings::{Node, SettingsError};

/// Judges trajectories.
///
/// Called concurrently; must not panic. What cannot be judged is
/// [`Outcome::NotEvaluable`], what broke is [`Outcome::Failed`]: neither becomes a score.
pub trait Evaluator: Send + Sync {
    /// The facts that [`evaluate`](Self::evaluate) reads.
    fn facts(&self) -> Facts;

    /// Judges one target. For `level: call` the trajectory holds that one call, for
    /// `level: session` the calls of all its traces.
    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome;

    /// Judges a trace that goes on: what no later call can repair. `None` while the end is open.
    fn early(&self, _: &Trajectory<'_>, _: Want) -> Option<Early> {
        None
    }
}

/// What an evaluator knows before the end of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Early {
    /// What is to be said; its score is at most `best`.
    pub outcome: Outcome,
    /// The highest score that the trace can still reach. It is said only if that does not pass.
    pub best: f64,
}

/// The kinds that may know before the end of a trace.
pub const EARLY_KINDS: [&str; 4] = ["tool_call_count", "tool_policy", "tool_loop", "tool_budget"];

/// A kind of evaluator: what `spanscore evaluators` lists and the config names.
pub struct Kind {
    /// The name in the config, such as `tool_call_args`.
    pub name: &'static str,
    /// What it judges, in one sentence.
    pub about: &'static str,
    /// Names that users may know it by, each with its origin, such as
    /// `("uipath-tool-call-args", "UiPath")`.
    pub also_known_as: &'static [(&'static str, &'static str)],
    /// Lowest passing score unless the config says otherwise.
    pub threshold: f64,
    /// Whether `criteria` must be given, if not by `expect`.
    pub needs_criteria: bool,
    /// JSON Schema of its settings (with `criteria`, where it takes one): descriptions and
    /// defaults are the documentation.
    pub schema: fn() -> schemars::Schema,
    /// Builds an evaluator from its settings: the evaluator's map in the config without the keys
    /// that all kinds share (`when`, `sample`, `threshold`, `level`, `expect`, `early`).
    pub build: fn(&Node) -> Result<Box<dyn Evaluator>, SettingsError>,
    /// A complete entry of `evaluators:` in YAML, run by a test.
    pub example: &'static str,
}

/// All kinds, in the order of the documentation.
pub static KINDS: &[&Kind] = &[
    &tool_call_args::KIND,
    &tool_call_count::KIND,
    &tool_call_order::KIND,
    &tool_call_output::KIND,
    &tool_error::KIND,
    &tool_efficiency::KIND,
    &tool_trajectory::KIND,
    &tool_correctness::KIND,
    &tool_call_validity::KIND,
    &tool_name_reliability::KIND,
    &tool_description_reliability::KIND,
    &argument_correctness::KIND,
    &argument_grounding::KIND,
    &tool_policy::KIND,
    &tool_loop::KIND,
    &tool_recovery::KIND,
    &tool_budget::KIND,
    &output_rules::KIND,
    &exact_match::KIND,
    &contains::KIND,
    &json_similarity::KIND,
];

/// The kind of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}
