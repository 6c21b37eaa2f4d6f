//! What an evaluator is, and what a kind of evaluator is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::external::ExternalPlan;
use super::inquiry::{Inquired, JudgePlan};
use crate::model::{Facts, Outcome, ToolCall, Trajectory, Want};
use crate::settings::{Node, SettingsError};

/// The key that settings of judged kinds get beside criteria that stood in the trace itself: what a
/// stranger wrote is shown to a judge as such.
pub const CRITERIA_FROM_TRACE: &str = "criteria_from_trace";

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

    /// Whether the answer depends on the calls at all. Where it does not, `level: call` would give
    /// each call the same answer, and the config refuses it.
    fn reads_calls(&self) -> bool {
        true
    }

    /// Whether a verdict stands though the steps of the evaluation ran out: what failed on a part
    /// of the evidence fails on all of it. Where it does not stand it is void.
    fn stands_unfinished(&self) -> bool {
        false
    }

    /// Whether it asks for the order of calls that were made together: then calls that are listed
    /// by a model's message are given to it as calls by themselves, in that order.
    fn asks_message_order(&self) -> bool {
        false
    }

    /// Judges each call alone, with what is the same for all calls of the trajectory made once;
    /// `None` where nothing is. The calls of the trajectory itself are not to be looked at.
    fn call_judge<'t>(&'t self, _: &'t Trajectory<'_>, _: Want) -> Option<CallJudge<'t>> {
        None
    }

    /// Asks a judge, or another process, about the target instead of judging it. `Some` for judged
    /// and external kinds, and always; then [`evaluate`](Self::evaluate) is never called.
    /// `threshold` is the score that passes.
    fn inquire(&self, _: &Trajectory<'_>, _threshold: f64, _: Want) -> Option<Inquired> {
        None
    }

    /// Which judge is asked, and how; `None` for deterministic kinds.
    fn judge(&self) -> Option<&JudgePlan> {
        None
    }

    /// Whom it asks outside of this process, and how; `None` for all other kinds. Then
    /// [`inquire`](Self::inquire) gives what is sent.
    fn external(&self) -> Option<&Arc<ExternalPlan>> {
        None
    }

    /// Judges a trace that goes on: what no later call can repair. `None` while the end is open.
    fn early(&self, _: &Trajectory<'_>, _: Want) -> Option<Early> {
        None
    }
}

/// Judges one call after the other.
pub type CallJudge<'t> = Box<dyn FnMut(&ToolCall<'_>) -> Outcome + 't>;

/// What an evaluator knows before the end of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Early {
    /// What is to be said; its score is at most `best`.
    pub outcome: Outcome,
    /// The highest score that the trace can still reach. It is said only if that does not pass.
    pub best: f64,
}

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
    /// Whether it implements [`Evaluator::early`], so that the config may ask for `early`.
    pub early: bool,
    /// JSON Schema of its settings (with `criteria`, where it takes one): descriptions and
    /// defaults are the documentation.
    pub schema: fn() -> schemars::Schema,
    /// Builds an evaluator from its settings: the evaluator's map in the config without the keys
    /// that all kinds share (`when`, `sample`, `threshold`, `level`, `expect`, `early`).
    pub build: fn(&Node) -> Result<Box<dyn Evaluator>, SettingsError>,
    /// A complete entry of `evaluators:` in YAML, run by a test.
    pub example: &'static str,
}

impl Kind {
    /// The schema of its settings, made once: reading a config asks for it several times for each
    /// evaluator.
    pub fn schema(&self) -> Arc<schemars::Schema> {
        static MADE: Mutex<BTreeMap<&str, Arc<schemars::Schema>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(made.entry(self.name).or_insert_with(|| Arc::new((self.schema)())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::KINDS;

    #[test]
    fn a_schema_is_made_once() {
        for kind in KINDS {
            assert!(Arc::ptr_eq(&kind.schema(), &kind.schema()), "{}", kind.name);
            assert_eq!(*kind.schema(), (kind.schema)(), "{}", kind.name);
        }
    }
}
