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
    /// Instructions for reading the statements.
    pub(crate) guidance: String,
    /// Statements in order; those that code has settled are not asked.
    pub(crate) items: Vec<QuestionItem>,
    /// Form of the reply.
    pub(crate) form: ReplyForm,
    /// Arithmetic from answers to a score.
    pub(crate) scoring: Scoring,
}

impl Question {
    /// Moves the criteria from the statements into lines of the record: a stranger wrote them.
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

    /// Builds a question of statements about a record, scored by the share of those that hold.
    pub(crate) fn of(record: RunRecord, guidance: &str, items: Vec<QuestionItem>) -> Self {
        let form = ReplyForm::Items;
        let scoring = Scoring::Share;
        Self { record, guidance: guidance.to_owned(), items, form, scoring }
    }
}

/// One statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuestionItem {
    /// Words of the statement: none of them written by those who are judged.
    pub(crate) statement: String,
    /// Name for people; empty stands for the statement itself.
    pub(crate) name: String,
    /// Criterion that the statement quotes, if any.
    pub(crate) criterion: Option<String>,
    /// Weight in the score.
    pub(crate) weight: f64,
    /// True if a no makes the verdict fail, whatever the score.
    pub(crate) veto: bool,
    /// True if the good answer is no.
    pub(crate) inverted: bool,
    /// Call that it is about.
    pub(crate) call: Option<ItemCall>,
    /// Place of the record before which a yes must find its support.
    pub(crate) sources_before: Option<u64>,
    /// Tool and name of the flag, with `compat: dokimos`.
    pub(crate) flag: Option<(usize, &'static str)>,
    /// Answer by code, without a judge.
    pub(crate) settled: Option<JudgeAnswer>,
}

/// Call that a statement is about.
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

    /// Builds a statement that quotes a criterion after some words.
    pub(crate) fn about(words: &str, criterion: &str) -> Self {
        let criterion = criterion.to_owned();
        let statement = format!("{words}{}", quoted(&criterion));
        Self { criterion: Some(criterion.clone()), ..Self::new(statement).named(criterion) }
    }

    /// Gives the statement a name for people.
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
    /// Number from 0 to 100, as UiPath's judges give it.
    UiPath,
    /// Form that Dokimos reads.
    Dokimos(DokimosReply),
}

/// Arithmetic from answers to a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scoring {
    /// Weight of yes divided by weight of yes and no.
    Share,
    /// Statements in pairs: within the topics, and answered.
    Topics(TopicMode),
    /// Score that the reply itself gives.
    Given,
    /// Preference between the answers of the last two lines, asked in either order: each request
    /// has one statement, the second of them inverted; half for equal ones.
    Preference,
    /// Mean precision at the ranks of those statements that hold.
    Ranked,
    /// Mean over the tools of the share of checks that each keeps.
    MeanOfGroups {
        /// Number of statements of one tool.
        size: usize,
    },
}

/// Figure that `topic_adherence` gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopicMode {
    /// Turns that were treated rightly, of all.
    #[default]
    Accuracy,
    /// Of what was answered, the share within the topics.
    Precision,
    /// Of what was within the topics, the share that was answered.
    Recall,
    /// The harmonic mean of both.
    F1,
}
