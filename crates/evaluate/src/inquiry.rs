//! Inquiries: requests of judged evaluators, and the conclusions drawn from the answers.
//!
//! Interface between evaluators, which do no I/O, and the judge dispatcher. An evaluator turns a
//! trajectory into an [`Inquiry`], which owns its data and can wait. The dispatcher lets it render
//! a [`JudgePrompt`], sends that to a judge, lets it read the reply, and concludes from one or more
//! votes. All functions are pure.

use std::fmt;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

pub use super::external::RedactionGaps;
use spanscore_base::model::{Outcome, SpanId};
use spanscore_base::settings::{SettingsError, meant_or_known};

/// Version of the prompt text around record and statements, hashed into the identity of
/// evaluations.
pub const PROMPT_VERSION: u32 = 2;

/// Plan for asking, from an evaluator's settings: judge, number of samples and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgePlan {
    /// Name of the judge in the config.
    pub judge: String,
    /// Additional judges with one vote each; together with the first they are the samples.
    pub jury: Vec<String>,
    /// Judge that decides if the first is unsure.
    pub escalate_to: Option<String>,
    /// Minimum number of samples, at least 1.
    pub samples_min: u32,
    /// Maximum number of samples; those beyond the minimum are drawn only while the answer is
    /// unsure.
    pub samples_max: u32,
    /// True if, after a suspected injection, the judge is asked again without the suspect text.
    pub rechecks_injections: bool,
    /// Limit on the tokens of the record.
    pub evidence_tokens: u32,
}

/// Result of building an inquiry about a target.
pub enum Inquired {
    /// No judge is needed: code decided, or the answer cannot be known.
    Known(Conclusion),
    /// A judge must be asked.
    Asked(Arc<dyn Inquiry>),
}

/// Inquiry about one target: renders the prompt, reads replies and concludes. It owns its data to
/// wait in a queue, and is shared with the rendering thread.
pub trait Inquiry: Send + Sync + fmt::Debug {
    /// Renders the request within the limits.
    ///
    /// # Errors
    /// Returns the outcome if no useful request fits the limits.
    fn prompt(&self, room: &PromptRoom) -> Result<JudgePrompt, Outcome>;

    /// Parses a judge's reply to [`prompt`](Self::prompt) rendered with the same limits.
    ///
    /// # Errors
    /// Returns the reason for an invalid reply: the dispatcher asks once for a repair, then gives
    /// up as `failed`.
    fn read(&self, room: &PromptRoom, reply: &str) -> Result<JudgeAnswers, UnreadableReply>;

    /// Concludes from the votes, at least one, with the first sample at the start.
    fn conclude(&self, room: &PromptRoom, votes: &[JudgeAnswers]) -> Conclusion;

    /// Returns the number of statements, including those settled by code; 0 if the reply has one
    /// score for all.
    fn statements(&self) -> usize;

    /// Returns the bytes held while waiting.
    fn bytes(&self) -> usize;
}

/// Limits of one request: tokens, withheld lines, and the window.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptRoom {
    /// Limit on the tokens of the record.
    pub evidence_tokens: u32,
    /// Bytes per token: 3.5 until corrected by the judge's usage figures.
    pub bytes_per_token: f64,
    /// Limit on the expected tokens of an answer; further statements are split over several
    /// requests.
    pub answer_tokens: u32,
    /// True if strings with a detected injection are withheld.
    pub withholds_injections: bool,
    /// Seq of withheld lines, cited by a judge that suspected an injection.
    pub withheld: Vec<u64>,
    /// Number of the window, from 0, below [`JudgePrompt::windows`].
    pub window: usize,
    /// Key of the record's mark: random bytes, constant for the life of the process.
    pub mark_key: MarkKey,
}

/// Secret key of the process, only used to derive the marks of records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MarkKey(pub [u8; 32]);

/// Hides the bytes.
impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(..)")
    }
}

/// Request to a judge, independent of its API.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgePrompt {
    /// System prompt, without untrusted text.
    pub system: String,
    /// Record, guidance and statements.
    pub user: String,
    /// JSON Schema of the reply, as compact JSON; `None` for plain text (`compat`).
    pub schema: Option<&'static str>,
    /// Number of statements.
    pub statements: usize,
    /// Limit on the expected tokens of the answer; 0 for short answers.
    pub answer_tokens: u32,
    /// Hash of everything that determines the answer: prompt version, record without its mark,
    /// statements.
    pub digest: [u8; 16],
    /// Bytes cut from the record.
    pub cut_bytes: u64,
    /// True if our detectors found an injection in the record.
    pub injection_found: bool,
    /// Failures of redaction, reported once: empty if the record was rendered before.
    pub gaps: RedactionGaps,
    /// Number of successive requests for all statements: more than one if the run or the answer is
    /// too long for one. Their answers together are one vote.
    pub windows: usize,
}

/// Answer to a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum JudgeAnswer {
    /// The record confirms it.
    Yes,
    /// The record contradicts it, or lacks the necessary evidence.
    No,
    /// The decisive part is cut or unknown.
    Unclear,
    /// The statement does not apply.
    NotApplicable,
}

impl JudgeAnswer {
    /// Returns its word in replies and details.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the word of a reply.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|answer| answer.as_str() == word)
    }
}

/// Answers of a judge to all statements of a request, in order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct JudgeAnswers {
    /// One answer per statement.
    pub items: Vec<AnsweredItem>,
    /// True if the judge suspects an attempt to influence it.
    pub injection_suspected: bool,
    /// True if the reply lacks that finding, so that another vote may have it.
    pub is_unsure: bool,
    /// Score in the reply, if the kind asks for one (`score_range`, `compat`).
    pub score: Option<f64>,
}

/// Answer of a judge to one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredItem {
    /// Answer after the verification of its cites by code.
    pub answer: JudgeAnswer,
    /// Cited lines of the record.
    pub cites: Vec<u64>,
    /// Reason given by the judge.
    pub reason: String,
    /// Reason if code overturned the judge's answer.
    pub overturned: Option<&'static str>,
}

/// Error of an invalid reply, worded for the judge and for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableReply(pub String);

/// Conclusion from the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// Outcome of the target.
    pub outcome: Outcome,
    /// Outcomes of single calls, for kinds that judge each: the call's index in the trajectory, its
    /// span, and its outcome.
    pub calls: Vec<(usize, SpanId, Outcome)>,
    /// Mean share of the votes equal to the majority, 0 to 1; 1 for one vote.
    pub agreement: f64,
    /// True if another vote could change it: an answer is unclear or overturned, or the score is
    /// within 0.1 of the threshold.
    pub is_unsure: bool,
    /// True if an injection was found, by code or by the judge.
    pub injection_suspected: bool,
}

impl Conclusion {
    /// Returns the conclusion for an outcome that needs no judge.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            calls: Vec::new(),
            agreement: 1.0,
            is_unsure: false,
            injection_suspected: false,
        }
    }
}

/// Returns the error for a judge missing in `judges:`.
pub fn unknown_judge<'n>(
    key: &str,
    name: &str,
    judges: impl Iterator<Item = &'n str>,
) -> SettingsError {
    let error = SettingsError::new(format!("`{key}` names `{name}`, which is no judge"));
    let names: Vec<_> = judges.collect();
    error.with_help(match &names[..] {
        [] => format!(
            "add `judges: {{{name}: {{api: openai, base_url: \"http://localhost:11434/v1\", \
             model: ...}}}}`"
        ),
        names => meant_or_known(name, names),
    })
}
