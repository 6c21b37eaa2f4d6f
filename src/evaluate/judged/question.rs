//! What a judged kind asks about one trajectory: statements, and what their answers come to.

use super::dokimos::DokimosReply;
use super::prompt::quoted;
use super::record::RunRecord;
use crate::evaluate::inquiry::JudgeAnswer;
use crate::model::SpanId;

/// What is asked about one trajectory.
#[derive(Debug)]
pub(in crate::evaluate) struct Question {
    /// What the judge is shown.
    pub(in crate::evaluate) record: RunRecord,
    /// How to understand the statements.
    pub(in crate::evaluate) guidance: String,
    /// The statements in order; those that code has settled are not asked.
    pub(in crate::evaluate) items: Vec<QuestionItem>,
    /// The form of the reply.
    pub(in crate::evaluate) form: ReplyForm,
    /// What the answers come to.
    pub(in crate::evaluate) scoring: Scoring,
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

    /// Statements about a record, of which the share that holds counts.
    pub(in crate::evaluate) fn of(
        record: RunRecord,
        guidance: &str,
        items: Vec<QuestionItem>,
    ) -> Self {
        let form = ReplyForm::Items;
        let scoring = Scoring::Share;
        Self { record, guidance: guidance.to_owned(), items, form, scoring }
    }
}

/// One statement.
#[derive(Clone, Debug, Default)]
pub(in crate::evaluate) struct QuestionItem {
    /// The words of the statement: nothing in it was written by those who are judged.
    pub(in crate::evaluate) statement: String,
    /// A name for people; the statement where it is empty.
    pub(in crate::evaluate) name: String,
    /// The criterion that the statement quotes, where it quotes one.
    pub(in crate::evaluate) criterion: Option<String>,
    /// Its weight in the score.
    pub(in crate::evaluate) weight: f64,
    /// Answered no, the verdict is fail whatever the score.
    pub(in crate::evaluate) veto: bool,
    /// It counts as kept where the answer is no.
    pub(in crate::evaluate) inverted: bool,
    /// The call that it is about.
    pub(in crate::evaluate) call: Option<ItemCall>,
    /// A yes must rest on what stands before this place of the record.
    pub(in crate::evaluate) sources_before: Option<u64>,
    /// With `compat: dokimos`, the tool and the name of its flag.
    pub(in crate::evaluate) flag: Option<(usize, &'static str)>,
    /// What code knows without a judge.
    pub(in crate::evaluate) settled: Option<JudgeAnswer>,
}

/// The call that a statement is about.
#[derive(Clone, Debug)]
pub(in crate::evaluate) struct ItemCall {
    /// Its place among the calls of the trajectory.
    pub(in crate::evaluate) place: usize,
    /// Its span.
    pub(in crate::evaluate) span_id: SpanId,
}

impl QuestionItem {
    /// A statement of weight 1.
    pub(in crate::evaluate) fn new(statement: impl Into<String>) -> Self {
        Self { statement: statement.into(), weight: 1.0, ..Self::default() }
    }

    /// A statement that quotes a criterion after some words.
    pub(in crate::evaluate) fn about(words: &str, criterion: &str) -> Self {
        let criterion = criterion.to_owned();
        let statement = format!("{words}{}", quoted(&criterion));
        Self { criterion: Some(criterion.clone()), ..Self::new(statement).named(criterion) }
    }

    /// The same under a name for people.
    pub(in crate::evaluate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// What people know it by.
    pub(in crate::evaluate) fn shown(&self) -> &str {
        if self.name.is_empty() { &self.statement } else { &self.name }
    }
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum ReplyForm {
    /// One entry for each statement.
    Items,
    /// One whole number from `low` to `high`.
    Score {
        /// The lowest score.
        low: i64,
        /// The highest.
        high: i64,
    },
    /// A number from 0 to 100, as UiPath's judges give it.
    UiPath,
    /// What Dokimos reads.
    Dokimos(DokimosReply),
}

/// What answers come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::evaluate) enum Scoring {
    /// Weight of yes by weight of yes and no.
    Share,
    /// Statements come in pairs: within the topics, and answered.
    Topics(TopicMode),
    /// The reply gives the score.
    Given,
    /// By tool: the share of checks that it keeps; the mean over the tools.
    MeanOfGroups {
        /// Statements of one tool.
        size: usize,
    },
}

/// Which figure `topic_adherence` gives.
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
