//! Inquiries: questions of judged evaluators, and the conclusions drawn from the answers.
//!
//! The seam between `evaluate`, which does no I/O, and the lane that asks judges: an evaluator
//! turns a trajectory into an [`Inquiry`], which owns all it needs and can wait; the lane has it
//! render a [`JudgePrompt`], sends that to a judge, has the reply read, and concludes from one or
//! more votes. Everything here is pure: the same input gives the same output.

use std::fmt;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

pub use super::external::RedactionGaps;
use spanscore_base::model::{Outcome, SpanId};
use spanscore_base::settings::{SettingsError, meant_or_known};

/// Version of the words around record and statements; hashed into the identity of evaluations.
pub const PROMPT_VERSION: u32 = 2;

/// Plan for asking: the judge, the number of samples and the limits, from an evaluator's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgePlan {
    /// Name of the judge in the config.
    pub judge: String,
    /// Further judges, each with one vote: with the first one they are the samples.
    pub jury: Vec<String>,
    /// Judge that decides where the first is unsure.
    pub escalate_to: Option<String>,
    /// Samples that are always drawn, at least 1.
    pub samples_min: u32,
    /// Samples at most; those beyond the minimum only while the answer is unsure.
    pub samples_max: u32,
    /// True if a suspected injection has the judge asked again with the suspect text withheld.
    pub rechecks_injections: bool,
    /// Record tokens at most.
    pub evidence_tokens: u32,
}

/// Result of turning a target into an inquiry.
pub enum Inquired {
    /// No judge is needed: code alone decided, or nobody can tell.
    Known(Conclusion),
    /// A judge is to be asked.
    Asked(Arc<dyn Inquiry>),
}

/// Inquiry about one target: renders the prompt, reads replies and concludes. Owned, so that it can
/// wait on the lane, and shared with the thread that renders it.
pub trait Inquiry: Send + Sync + fmt::Debug {
    /// Renders the request within the given limits.
    ///
    /// # Errors
    /// The outcome, where no request that makes sense fits in them.
    fn prompt(&self, room: &PromptRoom) -> Result<JudgePrompt, Outcome>;

    /// Reads a judge's reply to [`prompt`](Self::prompt) rendered for the same limits.
    ///
    /// # Errors
    /// The reply is no answer, with the reason: the lane asks once to repair it, then gives up as
    /// `failed`.
    fn read(&self, room: &PromptRoom, reply: &str) -> Result<JudgeAnswers, UnreadableReply>;

    /// Concludes from votes, of which the first is the first sample. `votes` is never empty.
    fn conclude(&self, room: &PromptRoom, votes: &[JudgeAnswers]) -> Conclusion;

    /// Returns the number of statements, those that code has settled among them; 0 where the reply
    /// gives one score for all.
    fn statements(&self) -> usize;

    /// Returns the bytes held while it waits.
    fn bytes(&self) -> usize;
}

/// Limits of one request: tokens, withheld lines, and the window to show.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptRoom {
    /// Record tokens at most.
    pub evidence_tokens: u32,
    /// Bytes per token: 3.5 until the judge's usage figures correct it.
    pub bytes_per_token: f64,
    /// Tokens at most that an answer may be expected to take; statements that would take more are
    /// split over several requests.
    pub answer_tokens: u32,
    /// True if strings in which an injection was found are withheld.
    pub withholds_injections: bool,
    /// Places in time of lines to withhold: those that a judge which suspected an injection cited.
    pub withheld: Vec<u64>,
    /// Number of the window to show, from 0, below [`JudgePrompt::windows`].
    pub window: usize,
    /// Key of the mark of the record: random bytes, the same for the whole life of the process.
    pub mark_key: MarkKey,
}

/// Secret key of the process from which the marks of records, and nothing else, are derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MarkKey(pub [u8; 32]);

/// Never shows the bytes.
impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(..)")
    }
}

/// Request to a judge, independent of its API.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgePrompt {
    /// System prompt: holds nothing untrusted.
    pub system: String,
    /// Record, guidance and statements.
    pub user: String,
    /// JSON Schema of the reply, as compact JSON; `None` where the reply is plain text (`compat`).
    pub schema: Option<&'static str>,
    /// Number of statements.
    pub statements: usize,
    /// Tokens that the answer is expected to take at most; 0 for short answers.
    pub answer_tokens: u32,
    /// Hash of everything that decides the answer: prompt version, record without its mark,
    /// statements.
    pub digest: [u8; 16],
    /// Bytes cut from the record.
    pub cut_bytes: u64,
    /// True if our own detectors found an injection in the record.
    pub injection_found: bool,
    /// Failures of redaction, reported once: empty where the record was laid out before.
    pub gaps: RedactionGaps,
    /// Number of requests that ask all statements, one after the other: more than one where the
    /// run, or the answer, is too long for one. Their answers together are one vote.
    pub windows: usize,
}

/// Answer to a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum JudgeAnswer {
    /// The record shows it.
    Yes,
    /// The record shows the opposite, or lacks what would have to be there.
    No,
    /// The deciding place is cut or unknown.
    Unclear,
    /// The statement does not arise.
    NotApplicable,
}

impl JudgeAnswer {
    /// Returns the word for it in replies and details.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the word of a reply.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|answer| answer.as_str() == word)
    }
}

/// Answers of a judge to all statements of one request, in their order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct JudgeAnswers {
    /// One answer per statement.
    pub items: Vec<AnsweredItem>,
    /// True if the judge found an attempt to influence it.
    pub injection_suspected: bool,
    /// True if the reply does not say whether it found one: another vote may.
    pub is_unsure: bool,
    /// Score that the reply itself gives, where the kind asks for one (`score_range`, `compat`).
    pub score: Option<f64>,
}

/// Answer of a judge to one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredItem {
    /// Answer, after code has verified its cites.
    pub answer: JudgeAnswer,
    /// Cited places of the record.
    pub cites: Vec<u64>,
    /// Reason in the judge's words.
    pub reason: String,
    /// Reason why code overturned the judge's answer, if it did.
    pub overturned: Option<&'static str>,
}

/// Error of a reply that is no answer, worded for the judge and for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableReply(pub String);

/// Conclusion from the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// Outcome of the target itself.
    pub outcome: Outcome,
    /// Outcomes of single calls, for kinds that judge each: the call's place in the trajectory's
    /// list, its span, and its outcome.
    pub calls: Vec<(usize, SpanId, Outcome)>,
    /// Mean share of the votes that agree with the majority, 0 to 1; 1 for one vote.
    pub agreement: f64,
    /// True if another vote could change it: something is unclear, was overturned, or the score is
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

/// Builds the error for a judge that `judges:` does not define.
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
