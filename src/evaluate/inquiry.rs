//! What a judged evaluator asks, and what it makes of the answers.
//!
//! The seam between `evaluate`, which does no I/O, and the lane that asks judges: an evaluator
//! turns a trajectory into an [`Inquiry`], which owns all it needs and can wait; the lane has it
//! render a [`JudgePrompt`], sends that to a judge, has the reply read, and concludes from one or
//! more votes. Everything here is pure: the same input gives the same output.

use std::fmt;
use std::sync::Arc;

use super::external::ExternalInquiry;
pub use super::external::RedactionGaps;
use crate::model::{Outcome, SpanId};

/// Version of the words around record and statements: part of what an evaluation is known by.
pub const PROMPT_VERSION: u32 = 1;

/// Which judge an evaluator asks, and how: what its settings tell the lane.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgePlan {
    /// The judge, as the config names it.
    pub judge: String,
    /// The judge that has the last word where the first is unsure.
    pub escalate_to: Option<String>,
    /// Samples that are always taken, at least 1.
    pub samples_min: u32,
    /// Samples at most; those beyond the least only while the answer is unsure.
    pub samples_max: u32,
    /// Whether to ask again, without what may be one, where an injection is suspected.
    pub rechecks_injections: bool,
    /// Tokens of the record at most.
    pub evidence_tokens: u32,
}

/// What an evaluator makes of a target that only a judge can tell about.
pub enum Inquired {
    /// No judge is needed: what code alone knows, or why nobody can tell.
    Known(Conclusion),
    /// This is to be asked.
    Asked(Arc<dyn Inquiry>),
    /// This is to be sent to an evaluator outside of this process.
    External(ExternalInquiry),
}

/// What is to be asked about one target. Owned, so that it can wait on the lane, and shared with
/// the thread that renders it.
pub trait Inquiry: Send + Sync + fmt::Debug {
    /// Renders the request within some room.
    ///
    /// # Errors
    /// The outcome, where no request that makes sense fits in it.
    fn prompt(&self, room: &PromptRoom) -> Result<JudgePrompt, Outcome>;

    /// Reads a judge's reply to [`prompt`](Self::prompt) rendered for the same room.
    ///
    /// # Errors
    /// Why it is no answer: the lane asks once to repair it, then gives up as `failed`.
    fn read(&self, room: &PromptRoom, reply: &str) -> Result<JudgeAnswers, UnreadableReply>;

    /// What some votes come to, the first of them being the first sample. Never empty.
    fn conclude(&self, room: &PromptRoom, votes: &[JudgeAnswers]) -> Conclusion;

    /// Bytes that it holds while it waits.
    fn bytes(&self) -> usize;
}

/// How much of a trajectory a request may show.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptRoom {
    /// Tokens of the record at most.
    pub evidence_tokens: u32,
    /// Bytes that make one token: 3.5 until the judge's own counts correct it.
    pub bytes_per_token: f64,
    /// Tokens that an answer may be expected to take; what would take more is asked in several
    /// requests.
    pub answer_tokens: u32,
    /// Whether strings in which an injection was found are withheld.
    pub withholds_injections: bool,
    /// Lines that are withheld, by their place in time: what a judge rested on that suspected an
    /// injection.
    pub withheld: Vec<u64>,
    /// Which of [`JudgePrompt::windows`] is shown, from 0.
    pub window: usize,
    /// What the mark of the record is made with: random bytes, the same for the whole life of the
    /// process.
    pub mark_key: MarkKey,
}

/// A secret of the process that nothing but the marks of records is made with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MarkKey(pub [u8; 32]);

/// Never the bytes.
impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(..)")
    }
}

/// One request to a judge, whatever its wire shape.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgePrompt {
    /// The instructions: nothing untrusted stands in it.
    pub system: String,
    /// Record, guidance and statements.
    pub user: String,
    /// JSON Schema of the reply, as compact JSON; `None` where the reply is plain text (`compat`).
    pub schema: Option<&'static str>,
    /// Statements that are asked.
    pub statements: usize,
    /// Tokens that the answer is expected to take at most; 0 where it is short.
    pub answer_tokens: u32,
    /// Hash of all that decides the answer: prompt version, record without its mark, statements.
    pub digest: [u8; 16],
    /// Bytes of the record that were left out.
    pub cut_bytes: u64,
    /// An injection was found in the record by our own detectors.
    pub injection_found: bool,
    /// What redaction could not do as it should; nothing where the record was laid out before.
    pub gaps: RedactionGaps,
    /// In how many requests all is asked, one after the other: more than one where the run, or the
    /// answer, is too long for one. Their answers, put together, are one vote.
    pub windows: usize,
}

/// How a statement was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
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
    /// The word for it in replies and details.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unclear => "unclear",
            Self::NotApplicable => "not_applicable",
        }
    }

    /// The answer that a word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Yes, Self::No, Self::Unclear, Self::NotApplicable];
        all.into_iter().find(|answer| answer.as_str() == word)
    }
}

/// What a judge said to all statements of one request, in their order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct JudgeAnswers {
    /// One for each statement.
    pub items: Vec<AnsweredItem>,
    /// The judge found an attempt to influence it.
    pub injection_suspected: bool,
    /// A score that the reply gives itself, where the kind asks for one (`score_range`, `compat`).
    pub score: Option<f64>,
}

/// What a judge said to one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredItem {
    /// The answer, after code has verified its cites.
    pub answer: JudgeAnswer,
    /// The places of the record that it rests on.
    pub cites: Vec<u64>,
    /// The judge's own words.
    pub reason: String,
    /// Code has overturned what the judge said, and how.
    pub overturned: Option<&'static str>,
}

/// Why a reply is no answer, in words for the judge and for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableReply(pub String);

/// What the answers come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The evaluation of the target itself.
    pub outcome: Outcome,
    /// Evaluations of single calls, for kinds that judge each: the call's place in the trajectory's
    /// list, its span, and its outcome.
    pub calls: Vec<(usize, SpanId, Outcome)>,
    /// Mean share of the votes that agree with the majority, 0 to 1; 1 for one vote.
    pub agreement: f64,
    /// Another vote could change it: something is unclear, was overturned, or the score is within
    /// 0.1 of the threshold.
    pub is_unsure: bool,
    /// An injection was found, by code or by the judge.
    pub injection_suspected: bool,
}

impl Conclusion {
    /// An outcome that nobody needs to be asked for.
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
