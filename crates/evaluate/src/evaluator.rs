//! Traits of evaluators by code, judge or external process, and the registry entry of a kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::external::{ExternalEvaluator, ExternalPlan};
use super::inquiry::{Inquired, JudgePlan};
use spanscore_base::model::{Facts, Outcome, ToolCall, Trajectory, Want};
use spanscore_base::settings::{Node, SettingsError};

/// Settings key that marks criteria as read from the trace, so that judges see them as untrusted.
pub const CRITERIA_FROM_TRACE: &str = "criteria_from_trace";

/// Configured evaluator, by the origin of its verdict.
pub enum Evaluator {
    /// Our own code, immediately.
    Code(Box<dyn CodeEvaluator>),
    /// A judge, asked by the judge dispatcher.
    Judged(Box<dyn JudgedEvaluator>),
    /// An external process, asked by the external dispatcher.
    External(ExternalEvaluator),
}

impl Evaluator {
    /// Wraps a code evaluator.
    pub fn code(evaluator: impl CodeEvaluator + 'static) -> Self {
        Self::Code(Box::new(evaluator))
    }

    /// Returns the facts needed.
    pub fn facts(&self) -> Facts {
        match self {
            Self::Code(evaluator) => evaluator.facts(),
            Self::Judged(evaluator) => evaluator.facts(),
            Self::External(evaluator) => evaluator.facts.clone(),
        }
    }

    /// Returns true if the outcome depends on the calls. Otherwise the config rejects
    /// `level: call`, which would give each call the same outcome.
    pub fn reads_calls(&self) -> bool {
        match self {
            Self::Code(evaluator) => evaluator.reads_calls(),
            // Calls are judged within their trajectory, each on its own span.
            Self::Judged(_) => false,
            Self::External(_) => true,
        }
    }

    /// Returns true if it needs the order of parallel calls.
    pub fn asks_message_order(&self) -> bool {
        matches!(self, Self::Code(evaluator) if evaluator.asks_message_order())
    }

    /// Returns the code evaluator; `None` for others.
    #[inline]
    pub fn as_code(&self) -> Option<&dyn CodeEvaluator> {
        match self {
            Self::Code(evaluator) => Some(&**evaluator),
            Self::Judged(_) | Self::External(_) => None,
        }
    }

    /// Returns the classes of a classifier; `None` for others.
    pub fn classes(&self) -> Option<ClassifierClasses> {
        self.as_code()?.classes()
    }

    /// Returns the judged evaluator; `None` for others.
    pub fn as_judged(&self) -> Option<&dyn JudgedEvaluator> {
        match self {
            Self::Judged(evaluator) => Some(&**evaluator),
            Self::Code(_) | Self::External(_) => None,
        }
    }

    /// Returns the plan of an external evaluator; `None` for others.
    pub fn external(&self) -> Option<&Arc<ExternalPlan>> {
        match self {
            Self::External(evaluator) => Some(&evaluator.plan),
            Self::Code(_) | Self::Judged(_) => None,
        }
    }
}

/// Evaluator by code.
///
/// Called concurrently; must not panic. Targets that cannot be judged give
/// [`Outcome::NotEvaluable`], faults [`Outcome::Failed`]; neither becomes a score.
pub trait CodeEvaluator: Send + Sync {
    /// Returns the facts needed by [`evaluate`](Self::evaluate).
    fn facts(&self) -> Facts;

    /// Judges one target. For `level: call` the trajectory has only that call, for `level: session`
    /// the calls of all its traces.
    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome;

    /// Returns true if the outcome depends on the calls.
    fn reads_calls(&self) -> bool {
        true
    }

    /// Returns true if a verdict is final even if the budget ran out: a failure on a part of the
    /// evidence is a failure on all of it. Otherwise the verdict is void.
    fn stands_unfinished(&self) -> bool {
        false
    }

    /// Returns true if it needs the order of parallel calls: calls listed in a model's message are
    /// then presented as a sequence.
    fn asks_message_order(&self) -> bool {
        false
    }

    /// Returns the classes of a classifier; `None` for others.
    fn classes(&self) -> Option<ClassifierClasses> {
        None
    }

    /// Returns a judge of single calls that computes parts common to all calls once; `None` if
    /// there are none. It must not read the trajectory's list of calls.
    fn call_judge<'t>(&'t self, _: &'t Trajectory<'_>, _: Want) -> Option<CallJudge<'t>> {
        None
    }

    /// Judges an open trace by facts that no later call can change. `None` while either verdict is
    /// possible.
    fn early(&self, _: &Trajectory<'_>, _: Want) -> Option<Early> {
        None
    }
}

/// Evaluator by a judge.
pub trait JudgedEvaluator: Send + Sync {
    /// Returns the facts shown in its record.
    fn facts(&self) -> Facts;

    /// Builds the inquiry about a target, or its conclusion if no judge is needed. `threshold` is
    /// the lowest passing score.
    fn inquire(&self, trajectory: &Trajectory<'_>, threshold: f64, want: Want) -> Inquired;

    /// Returns the judge, samples and limits.
    fn plan(&self) -> &JudgePlan;
}

/// Classes of a classifier; the details of its evaluations name only those of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassifierClasses {
    /// Class names in the order of the settings.
    pub names: Vec<String>,
    /// Weight of recall in the F-score.
    pub f_value: f64,
}

/// Judge of successive calls.
pub type CallJudge<'t> = Box<dyn FnMut(&ToolCall<'_>) -> Outcome + 't>;

/// Early verdict on an open trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Early {
    /// Outcome to report; its score is at most `best`.
    pub outcome: Outcome,
    /// Highest score still possible for the trace. The outcome is reported only if that does not
    /// pass.
    pub best: f64,
}

/// Registry entry of a kind: what `spanscore evaluators` lists and the config names.
pub struct Kind {
    /// Name in the config, such as `tool_call_args`.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Known names in other systems, with their origin, such as
    /// `("uipath-tool-call-args", "UiPath")`.
    pub also_known_as: &'static [(&'static str, &'static str)],
    /// Default lowest passing score.
    pub threshold: f64,
    /// True if `criteria` are required, in the settings or by `expect`.
    pub needs_criteria: bool,
    /// True if it implements [`CodeEvaluator::early`], so that the config allows `early`.
    pub early: bool,
    /// JSON Schema of its settings, including `criteria` if any: descriptions and defaults are the
    /// documentation.
    pub schema: fn() -> schemars::Schema,
    /// Builds an evaluator from its settings: its map in the config without the keys common to all
    /// kinds (`when`, `sample`, `threshold`, `level`, `expect`, `early`).
    pub build: fn(&Node) -> Result<Evaluator, SettingsError>,
    /// Complete entry of `evaluators:` in YAML, run by a test.
    pub example: &'static str,
}

impl Kind {
    /// Base for entries: a kind without required criteria or early verdicts, which passes only at
    /// 1.
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

    /// Returns the schema of its settings, cached: reading a config needs it several times per
    /// evaluator.
    pub fn schema(&self) -> Arc<schemars::Schema> {
        static MADE: Mutex<BTreeMap<&str, Arc<schemars::Schema>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock();
        Arc::clone(made.entry(self.name).or_insert_with(|| Arc::new((self.schema)())))
    }

    /// Returns true if a key is one of its settings.
    pub fn takes(&self, key: &str) -> bool {
        self.schema().get("properties").is_some_and(|own| own.get(key).is_some())
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
