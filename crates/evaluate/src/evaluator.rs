//! Contracts of evaluators by code, judge or another process, and the registry entry of a kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::external::{ExternalEvaluator, ExternalPlan};
use super::inquiry::{Inquired, JudgePlan};
use spanscore_base::model::{Facts, Outcome, ToolCall, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};

/// Settings key that marks criteria as read from the trace itself: a judge is shown them as the
/// words of a stranger.
pub const CRITERIA_FROM_TRACE: &str = "criteria_from_trace";

/// One configured way to score, by the place where the verdict is made.
pub enum Evaluator {
    /// By our own code, at once.
    Code(Box<dyn CodeEvaluator>),
    /// By a judge: the lane of the room `judge` sends the inquiry.
    Judged(Box<dyn JudgedEvaluator>),
    /// Outside of this process: the lane of the room `external` sends the message.
    External(ExternalEvaluator),
}

impl Evaluator {
    /// Wraps an evaluator that judges by code.
    pub fn code(evaluator: impl CodeEvaluator + 'static) -> Self {
        Self::Code(Box::new(evaluator))
    }

    /// Returns the facts that it reads.
    pub fn facts(&self) -> Facts {
        match self {
            Self::Code(evaluator) => evaluator.facts(),
            Self::Judged(evaluator) => evaluator.facts(),
            Self::External(evaluator) => evaluator.facts.clone(),
        }
    }

    /// Returns true if the answer depends on the calls at all. Where it does not, `level: call`
    /// would give each call the same answer, and the config refuses it.
    pub fn reads_calls(&self) -> bool {
        match self {
            Self::Code(evaluator) => evaluator.reads_calls(),
            // Calls are judged within their trajectory, each on its own span.
            Self::Judged(_) => false,
            Self::External(_) => true,
        }
    }

    /// Returns true if it asks for the order of parallel calls.
    pub fn asks_message_order(&self) -> bool {
        matches!(self, Self::Code(evaluator) if evaluator.asks_message_order())
    }

    /// Returns the evaluator that judges by code; `None` for those that ask.
    #[inline]
    pub fn as_code(&self) -> Option<&dyn CodeEvaluator> {
        match self {
            Self::Code(evaluator) => Some(&**evaluator),
            Self::Judged(_) | Self::External(_) => None,
        }
    }

    /// Returns the classes that it tells apart; `None` for evaluators of anything else.
    pub fn classes(&self) -> Option<ToldClasses> {
        self.as_code()?.classes()
    }

    /// Returns the evaluator that asks a judge; `None` for all others.
    pub fn as_judged(&self) -> Option<&dyn JudgedEvaluator> {
        match self {
            Self::Judged(evaluator) => Some(&**evaluator),
            Self::Code(_) | Self::External(_) => None,
        }
    }

    /// Returns the plan of an evaluator outside of this process; `None` for all others.
    pub fn external(&self) -> Option<&Arc<ExternalPlan>> {
        match self {
            Self::External(evaluator) => Some(&evaluator.plan),
            Self::Code(_) | Self::Judged(_) => None,
        }
    }
}

/// Evaluator that judges trajectories by code.
///
/// Called concurrently; must not panic. What cannot be judged is [`Outcome::NotEvaluable`], what
/// broke is [`Outcome::Failed`]: neither becomes a score.
pub trait CodeEvaluator: Send + Sync {
    /// Returns the facts that [`evaluate`](Self::evaluate) reads.
    fn facts(&self) -> Facts;

    /// Judges one target. For `level: call` the trajectory holds that one call, for
    /// `level: session` the calls of all its traces.
    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome;

    /// Returns true if the answer depends on the calls at all.
    fn reads_calls(&self) -> bool {
        true
    }

    /// Returns true if a verdict stands even when the evaluation ran out of steps: what failed on a
    /// part of the evidence fails on all of it. Otherwise the verdict is void.
    fn stands_unfinished(&self) -> bool {
        false
    }

    /// Returns true if it asks for the order of parallel calls: calls that a model's message lists
    /// together are then presented one by one, in that order.
    fn asks_message_order(&self) -> bool {
        false
    }

    /// Returns the classes that it tells apart; `None` for evaluators of anything else.
    fn classes(&self) -> Option<ToldClasses> {
        None
    }

    /// Returns a judge of single calls that computes what all calls of the trajectory share only
    /// once; `None` if nothing is shared. It must not look at the trajectory's list of calls.
    fn call_judge<'t>(&'t self, _: &'t Trajectory<'_>, _: Want) -> Option<CallJudge<'t>> {
        None
    }

    /// Judges a trace that is still open by what no later call can repair. `None` while either
    /// verdict is possible.
    fn early(&self, _: &Trajectory<'_>, _: Want) -> Option<Early> {
        None
    }
}

/// Evaluator that asks a judge.
pub trait JudgedEvaluator: Send + Sync {
    /// Returns the facts that its record shows.
    fn facts(&self) -> Facts;

    /// Turns one target into an inquiry, or a conclusion where nobody need be asked. `threshold` is
    /// the lowest score that passes.
    fn inquire(&self, trajectory: &Trajectory<'_>, threshold: f64, want: Want) -> Inquired;

    /// Returns the judge to ask, with samples and limits.
    fn plan(&self) -> &JudgePlan;
}

/// Classes of a classifier: the details of its evaluations name those of one run alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToldClasses {
    /// Their names, in the order of the settings.
    pub names: Vec<String>,
    /// Weight of recall in the F-score.
    pub f_value: f64,
}

/// Judge of one call after the other.
pub type CallJudge<'t> = Box<dyn FnMut(&ToolCall<'_>) -> Outcome + 't>;

/// Early verdict on a trace that is still open.
#[derive(Clone, Debug, PartialEq)]
pub struct Early {
    /// Outcome to report; its score is at most `best`.
    pub outcome: Outcome,
    /// Highest score that the trace can still reach. The outcome is reported only if that does not
    /// pass.
    pub best: f64,
}

/// Registry entry of a kind: what `spanscore evaluators` lists and the config names.
pub struct Kind {
    /// Name in the config, such as `tool_call_args`.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Names that users may know it by, each with its origin, such as
    /// `("uipath-tool-call-args", "UiPath")`.
    pub also_known_as: &'static [(&'static str, &'static str)],
    /// Lowest passing score unless the config says otherwise.
    pub threshold: f64,
    /// True if `criteria` must be given, in the settings or by `expect`.
    pub needs_criteria: bool,
    /// True if it implements [`CodeEvaluator::early`], so that the config may ask for `early`.
    pub early: bool,
    /// JSON Schema of its settings (with `criteria`, where it takes one): descriptions and
    /// defaults are the documentation.
    pub schema: fn() -> schemars::Schema,
    /// Builds an evaluator from its settings: the evaluator's map in the config without the keys
    /// that all kinds share (`when`, `sample`, `threshold`, `level`, `expect`, `early`).
    pub build: fn(&Node) -> Result<Evaluator, SettingsError>,
    /// Complete entry of `evaluators:` in YAML, run by a test.
    pub example: &'static str,
}

impl Kind {
    /// Entry that others are written over: a kind that needs no criteria, judges no open trace, and
    /// passes only at 1.
    pub const PLAIN: Self = Self {
        name: "",
        about: "",
        also_known_as: &[],
        threshold: 1.0,
        needs_criteria: false,
        early: false,
        schema: schemars::Schema::default,
        build: |_| Err(SettingsError::new("a kind without evaluators")),
        example: "",
    };

    /// Returns the schema of its settings, built once: reading a config asks for it several times
    /// for each evaluator.
    pub fn schema(&self) -> Arc<schemars::Schema> {
        static MADE: Mutex<BTreeMap<&str, Arc<schemars::Schema>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock();
        Arc::clone(made.entry(self.name).or_insert_with(|| Arc::new((self.schema)())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KINDS;

    #[test]
    fn a_schema_is_made_once() {
        for kind in KINDS {
            assert!(Arc::ptr_eq(&kind.schema(), &kind.schema()), "{}", kind.name);
            assert_eq!(*kind.schema(), (kind.schema)(), "{}", kind.name);
        }
    }
}
