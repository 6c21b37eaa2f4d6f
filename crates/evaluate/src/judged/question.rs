//! Question of a judged kind about one trajectory: statements, reply form and scoring.

use super::dokimos::DokimosReply;
use super::prompt::quoted;
use super::record::RunRecord;
use crate::inquiry::JudgeAnswer;
use spanscore_base::model::SpanId;

/// Question about one trajectory.
#[derive(Debug)]
pub(crate) struct Question {
    /// Record shown to the judge.
    pub(crate) record: RunRecord,
    /// Instructions for judging the statements.
    pub(crate) guidance: String,
    /// Statements in order; those settled by code are not asked.
    pub(crate) items: Vec<QuestionItem>,
    /// Form of the reply.
    pub(crate) form: ReplyForm,
    /// Computation of the score from answers.
    pub(crate) scoring: Scoring,
}

impl Question {
    /// Moves criteria from the statements into lines of the record, as they are untrusted.
    pub(super) fn record_criteria(&mut self) {
        for item in &mut self.items {
            if let Some(criterion) = item.criterion.take() {
                let seq = self.record.push_criterion(&criterion);
                let named = format!("what stands at seq {seq}");
                item.statement = item.statement.replace(&quoted(&criterion), &named);
                item.name = format!("criterion at seq {seq}");
            }
        }
    }

    /// Builds a question of statements about a record, scored by the share of true ones.
    pub(crate) fn of(record: RunRecord, guidance: &str, items: Vec<QuestionItem>) -> Self {
        let form = ReplyForm::Items;
        let scoring = Scoring::Share;
        Self { record, guidance: guidance.to_owned(), items, form, scoring }
    }
}

/// One statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionItem {
    /// Text of the statement, never written by the judged party.
    pub(crate) statement: String,
    /// Name for people; empty for the statement itself.
    pub(crate) name: String,
    /// Criterion quoted in the statement, if any.
    pub(crate) criterion: Option<String>,
    /// Weight in the score.
    pub(crate) weight: f64,
    /// True if a no fails the verdict at any score.
    pub(crate) veto: bool,
    /// True if no is the good answer.
    pub(crate) inverted: bool,
    /// Call in question.
    pub(crate) call: Option<ItemCall>,
    /// Seq before which a yes must find its support.
    pub(crate) sources_before: Option<u64>,
    /// Tool and name of the flag, with `compat: dokimos`.
    pub(crate) flag: Option<(usize, &'static str)>,
    /// Answer by code, without a judge.
    pub(crate) settled: Option<JudgeAnswer>,
}

/// Call in question.
#[derive(Clone, Debug)]
pub(crate) struct ItemCall {
    /// Index among the calls of the trajectory.
    pub(crate) place: usize,
    /// Span of the call.
    pub(crate) span_id: SpanId,
}

impl QuestionItem {
    /// Builds a statement of weight 1.
    pub(crate) fn new(statement: impl Into<String>) -> Self {
        Self { statement: statement.into(), weight: 1.0, ..Self::default() }
    }

    /// Builds a statement from a text and a quoted criterion.
    pub(crate) fn about(words: &str, criterion: &str) -> Self {
        let criterion = criterion.to_owned();
        let statement = format!("{words}{}", quoted(&criterion));
        Self { criterion: Some(criterion.clone()), ..Self::new(statement).named(criterion) }
    }

    /// Sets the statement's name for people.
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the name shown to people.
    pub(crate) fn shown(&self) -> &str {
        if self.name.is_empty() { &self.statement } else { &self.name }
    }
}

/// Form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyForm {
    /// One entry per statement.
    Items,
    /// Integer from `low` to `high`.
    Score {
        /// Lowest score.
        low: i64,
        /// Highest score.
        high: i64,
    },
    /// Number from 0 to 100, as from UiPath's judges.
    UiPath,
    /// Form parsed by Dokimos.
    Dokimos(DokimosReply),
}

/// Computation of the score from answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scoring {
    /// Weight of yes divided by weight of yes and no.
    Share,
    /// Statements in pairs: within the topics, and answered.
    Topics(TopicMode),
    /// Score in the reply.
    Given,
    /// Preference between the answers of the last two lines, asked in both orders: each request has
    /// one statement, the second one inverted; a tie is half.
    Preference,
    /// Average precision over the ranks of true statements.
    Ranked,
    /// Mean over the tools of each one's share of satisfied checks.
    MeanOfGroups {
        /// Number of statements of one tool.
        size: usize,
    },
}

/// Score of `topic_adherence`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopicMode {
    /// Correctly treated turns, divided by all turns.
    #[default]
    Accuracy,
    /// Answered turns within the topics, divided by answered turns.
    Precision,
    /// Answered turns within the topics, divided by turns within the topics.
    Recall,
    /// Harmonic mean of precision and recall.
    F1,
}
