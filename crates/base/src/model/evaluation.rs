//! Evaluations: one evaluator's answer about one target.

use std::sync::Arc;
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::{Completion, EvaluationId, Explanation, Resource, Sender, SpanId, TraceId};
use crate::value::Value;

/// Kind of target that an evaluator judges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Level {
    /// One tool call; the evaluation sits on the tool's span.
    Call,
    /// One trace; the evaluation sits on the root span.
    #[default]
    Trace,
    /// One session; the evaluation sits on the root span of its last trace.
    Session,
}

impl Level {
    /// Returns its name in the config and in records.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Target and time of a judgement, shared by its evaluations.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The trace; for a session its last one.
    pub trace_id: TraceId,
    /// Sender of the trace's first record; for a session, of its first trace.
    pub sender: Sender,
    /// The session, if the spans name one; `None` when no exporter shows it.
    pub session_id: Option<Box<str>>,
    /// The judged trace's resource.
    pub resource: Arc<Resource>,
    /// The agent, if known.
    pub agent_name: Option<Box<str>>,
    /// The id of the model reply that a span is about, with that span.
    pub response: Option<(SpanId, Box<str>)>,
    /// Cause that completed the trace.
    pub completion: Completion,
    /// True if parts of the trace are known to be missing after the wait for them.
    pub is_partial: bool,
    /// Time of the judgement, Unix nanoseconds.
    pub time_ns: u64,
    /// Earliest start of its spans, by the sender's clock, Unix nanoseconds.
    pub started_ns: u64,
    /// Latest end of its spans, by the sender's clock, Unix nanoseconds.
    pub ended_ns: u64,
}

/// A number with its explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// 0 to 1.
    pub value: f64,
    /// One readable sentence; empty when no exporter shows it ([`Want`](super::Want)).
    pub explanation: Explanation,
    /// Evidence of the score, as structured data; `Null` when no exporter shows it.
    pub details: Value<'static>,
    /// Label that overrides the threshold, as after a failed critical rule.
    pub label: Option<Label>,
}

/// Formats a share for people with `digits` decimals. A value below 1 never rounds to 1, and
/// nothing reads as `-0`: "1.00, fail" would look like a fault of the gate.
pub fn shown_share(value: f64, digits: usize) -> String {
    let steps = 10_f64.powi(digits as i32);
    let near = (value * steps).round();
    let is_cut = near >= steps && value < 1.0;
    let shown = if is_cut { steps - 1.0 } else { near + 0.0 };
    format!("{:.digits$}", shown / steps)
}

/// Formats a share in percent, rounded as by [`shown_share`].
pub fn shown_percent(value: f64) -> String {
    let near = (value * 100.0).round();
    let is_cut = near >= 100.0 && value < 1.0;
    format!("{:.0}%", if is_cut { 99.0 } else { near + 0.0 })
}

/// Reason that a target could not be judged: a closed set, used by counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// The arguments of a call that matters are not in the telemetry.
    ArgumentsNotRecorded,
    /// The result of a call that matters is not in the telemetry.
    ResultNotRecorded,
    /// The user's input is not in the telemetry.
    UserInputNotRecorded,
    /// The final output is not in the telemetry.
    FinalOutputNotRecorded,
    /// No definition of the tools is known.
    ToolDefinitionsNotRecorded,
    /// The tool schema in the telemetry cannot be used to check arguments.
    SchemaUnusable,
    /// Token counts or cost are not in the telemetry.
    UsageNotRecorded,
    /// The dataset or attribute has no expectation for this trace.
    NoExpectation,
    /// The trace holds no tool call and the evaluator judges only calls.
    NoToolCalls,
    /// The text exceeds the limit of the evaluator's input.
    TextTooLarge,
    /// The trajectory exceeds the limit of the evaluator's input.
    TrajectoryTooLarge,
    /// All evaluations of the trace together would exceed `limits.trace_steps`.
    TraceTooExpensive,
    /// The text holds too little to judge.
    InsufficientData,
    /// A judge was asked and could not tell: at least half of the applicable statements are
    /// unclear.
    JudgeUnsure,
    /// The trajectory holds nothing that the evaluator assesses.
    NothingToJudge,
    /// The record of the trajectory exceeds the limit on judge input.
    EvidenceTooLong,
    /// Evidence that a judge needs is not in the telemetry.
    EvidenceNotRecorded,
    /// No plan of the agent is in the telemetry.
    PlanNotRecorded,
    /// The record appears to influence the judge, and the settings exclude such targets.
    InjectionSuspected,
    /// The settings withhold evidence that the judge needs.
    ContentWithheld,
    /// The queue of targets for judges is full.
    QueueFull,
    /// The budget of the judge is spent.
    BudgetExhausted,
    /// The rest of the judge's budget is reserved for other senders.
    BudgetShare,
    /// The judge's rate limit allowed no request before the deadline.
    RateLimited,
    /// The circuit breaker of the judge was open after failures.
    CircuitOpen,
    /// No answer came before the deadline.
    Deadline,
    /// The process ended before an answer came.
    Shutdown,
    /// An external evaluator says that it cannot judge the target.
    ExternalNotEvaluable,
    /// An external evaluator is unreachable, or has not declared its evaluations.
    EvaluatorUnavailable,
    /// The judge, or a filter before it, refused to answer.
    JudgeRefused,
}

impl Reason {
    /// Reasons without an answer, where a later attempt may still get one.
    pub const UNANSWERED: [Self; 7] = [
        Self::QueueFull,
        Self::BudgetExhausted,
        Self::BudgetShare,
        Self::RateLimited,
        Self::CircuitOpen,
        Self::Deadline,
        Self::Shutdown,
    ];

    /// All reasons, in the order of declaration.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns its name in records and counters.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An evaluator's answer.
#[derive(Clone, Debug, PartialEq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// It was judged.
    Scored(Score),
    /// It cannot be judged: neither a pass nor a fail.
    NotEvaluable {
        /// Reason for counters.
        reason: Reason,
        /// Reason for a person; may name the call.
        explanation: String,
    },
    /// The evaluator broke: never a low score.
    Failed {
        /// The kind of error, for counters and `error.type`: lower_snake_case.
        error_type: &'static str,
        /// Error text for a person.
        error: String,
    },
}

impl Outcome {
    /// Returns the word for it in records and counters.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }

    /// Returns the score, if it has one.
    pub fn score(&self) -> Option<&Score> {
        if let Self::Scored(score) = self { Some(score) } else { None }
    }

    /// Returns the explanation, or the error.
    pub fn words(&self) -> &str {
        match self {
            Self::Scored(score) => score.explanation.as_str(),
            Self::NotEvaluable { explanation, .. } => explanation,
            Self::Failed { error, .. } => error,
        }
    }

    /// Returns true if a judge or an external evaluator may still answer a retry.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::Scored(_) => false,
            Self::NotEvaluable { reason, .. } => Reason::UNANSWERED.contains(reason),
            Self::Failed { .. } => true,
        }
    }
}

/// The verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Label {
    /// The score reaches the threshold.
    Pass,
    /// The score is below the threshold.
    Fail,
}

impl Label {
    /// Returns its name: `pass` or `fail`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Outcome and label combined, as counters distinguish them. Counters and files store the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum GivenVerdict {
    /// Scored, and passed.
    Pass = 0,
    /// Scored, and failed.
    Fail = 1,
    /// Not evaluable.
    NotEvaluable = 2,
    /// The evaluator broke.
    Failed = 3,
}

impl GivenVerdict {
    /// Returns the verdict of a number.
    pub fn numbered(number: usize) -> Option<Self> {
        Self::VARIANTS.get(number).copied()
    }

    /// Returns the verdict for an outcome and label as written in records.
    pub fn of(outcome: &str, label: Option<&str>) -> Self {
        let verdict = if outcome == "scored" { label.unwrap_or("fail") } else { outcome };
        verdict.parse().unwrap_or(Self::Failed)
    }

    /// Returns its name in records.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns its name in tables.
    pub fn words(self) -> &'static str {
        if self == Self::NotEvaluable { "not evaluable" } else { self.into() }
    }
}

/// Description of a configured evaluator, shared by all its evaluations.
#[derive(Clone, Debug, Default)]
pub struct EvaluatorInfo {
    /// The kind, such as `tool_call_args`.
    pub kind: &'static str,
    /// The full name, `kind/name` or `kind`.
    pub name: String,
    /// Lowest score that passes.
    pub threshold: f64,
    /// Kind of target.
    pub level: Level,
    /// Hash of kind, name, settings and criteria.
    pub digest: [u8; 16],
    /// The dataset case that it judges against, if any; for a single turn of a conversation `talk,
    /// turn 2`. It is not part of the identity, since the criteria are.
    pub case: Option<Box<str>>,
    /// Version that an external evaluator reports; then part of `digest`.
    pub own_version: Option<Box<str>>,
}

impl EvaluatorInfo {
    /// Returns the evaluator's version in hexadecimal. It changes with the settings, the criteria
    /// and [`own_version`](Self::own_version).
    pub fn version(&self) -> String {
        self.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Judge, votes and cost of an evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JudgeUse {
    /// The model whose answer counted.
    pub model: String,
    /// Version of the prompt.
    pub prompt_version: u32,
    /// Number of votes.
    pub samples: u32,
    /// Mean share of the votes that agree with the majority, 0 to 1.
    pub agreement: f64,
    /// True if the evaluation was escalated to another judge, which answered.
    pub escalated: bool,
    /// True if the fallback judge was asked, because the configured one could not be asked or did
    /// not answer.
    pub fallback: bool,
    /// Cost of all its requests, US dollars; 0 if cached or if prices are unknown.
    pub cost_usd: f64,
    /// True if an attempt to influence the judge was found.
    pub injection_suspected: bool,
    /// Bytes omitted from the record.
    pub cut_bytes: u64,
}

/// One evaluator's answer about one target.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Identity, stable across replays; all zero when no exporter shows it ([`Want`](super::Want)).
    pub id: EvaluationId,
    /// The evaluator that judged.
    pub evaluator: Arc<EvaluatorInfo>,
    /// The judged target.
    pub target: Arc<Target>,
    /// The span the evaluation is attached to.
    pub span_id: SpanId,
    /// The answer.
    pub outcome: Outcome,
    /// 0 for the first evaluation of a target, then counting up.
    pub revision: u32,
    /// The evaluation that this one replaces.
    pub revises: Option<EvaluationId>,
    /// The replaced verdict, if still known.
    pub supersedes: Option<GivenVerdict>,
    /// Judge, votes and cost; `None` without a judge.
    pub judge: Option<Arc<JudgeUse>>,
}

/// Last evaluation of a trace by one evaluator, remembered where the spans alone do not determine
/// it: an early verdict, one against an expectation sent with the trace, or one that a `when` may
/// have excluded before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reported {
    /// The evaluator's place in the config, from 0.
    pub evaluator: usize,
    /// The evaluation.
    pub id: EvaluationId,
    /// Its revision.
    pub revision: u32,
}

impl Evaluation {
    /// Returns outcome and label combined.
    pub fn verdict(&self) -> GivenVerdict {
        match (&self.outcome, self.label()) {
            (Outcome::Scored(_), Some(Label::Pass)) => GivenVerdict::Pass,
            (Outcome::Scored(_), _) => GivenVerdict::Fail,
            (Outcome::NotEvaluable { .. }, _) => GivenVerdict::NotEvaluable,
            (Outcome::Failed { .. }, _) => GivenVerdict::Failed,
        }
    }

    /// Returns pass or fail; `None` unless scored.
    pub fn label(&self) -> Option<Label> {
        let score = self.outcome.score()?;
        Some(score.label.unwrap_or(if score.value >= self.evaluator.threshold {
            Label::Pass
        } else {
            Label::Fail
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files hold these numbers.
    #[test]
    fn verdicts_keep_their_numbers() {
        let words = ["pass", "fail", "not_evaluable", "failed"];
        for (number, word) in words.into_iter().enumerate() {
            let verdict = GivenVerdict::numbered(number).unwrap();
            assert_eq!((verdict as usize, verdict.as_str()), (number, word));
        }
        assert_eq!(GivenVerdict::numbered(4), None);
    }

    #[test]
    fn what_is_below_one_never_reads_as_one_and_nothing_reads_as_minus_zero() {
        let check = |value: f64, share: &str, percent: &str| {
            assert_eq!(
                (shown_share(value, 2), shown_percent(value)),
                (share.into(), percent.into())
            );
        };
        check(1.0, "1.00", "100%");
        check(0.999_999_999, "0.99", "99%");
        check(0.995, "0.99", "99%");
        check(0.994, "0.99", "99%");
        check(0.333_333, "0.33", "33%");
        check(0.0, "0.00", "0%");
        check(-0.0, "0.00", "0%");
        assert_eq!(shown_share(0.999_96, 3), "0.999");
    }
}
