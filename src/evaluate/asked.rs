//! What waits for a judge: an inquiry, with the evaluations that lack nothing but their outcome.

use std::fmt;
use std::sync::Arc;

use super::inquiry::{Conclusion, Inquiry, JudgePlan};
use crate::model::{Evaluation, EvaluationId, JudgeUse, Outcome, SpanId};

/// An inquiry on its way to a judge.
pub struct AskedInquiry {
    /// What is asked.
    pub inquiry: Box<dyn Inquiry>,
    /// Which judge, and how.
    pub plan: JudgePlan,
    /// The evaluation of the target itself; its outcome is still open.
    pub evaluation: Evaluation,
    /// The evaluations of its calls, in the order of the trajectory; theirs are open, too.
    pub calls: Vec<Evaluation>,
    /// The same for every revision of one target and evaluator.
    pub subject: [u8; 16],
}

impl AskedInquiry {
    /// Bytes that it holds while it waits.
    pub fn bytes(&self) -> usize {
        let skeletons = (1 + self.calls.len()) * size_of::<Evaluation>();
        size_of::<Self>() + skeletons + self.inquiry.bytes()
    }

    /// The evaluations that an answer comes to.
    pub fn conclude(self, conclusion: Conclusion, used: Option<JudgeUse>) -> Vec<Evaluation> {
        let used = used.map(Arc::new);
        let Self { evaluation, calls, .. } = self;
        concluded(evaluation, calls, conclusion, used.as_ref())
    }

    /// The evaluation that says why there is no answer.
    pub fn give_up(self, outcome: Outcome, used: Option<JudgeUse>) -> Vec<Evaluation> {
        vec![Evaluation { outcome, judge: used.map(Arc::new), ..self.evaluation }]
    }

    /// The evaluation that says that nobody could be asked: there is no lane.
    pub fn unasked(self) -> Evaluation {
        self.evaluation
    }

    /// Takes the place of an older inquiry about the same target whose answer nobody has seen: it
    /// revises what that one would have revised.
    pub fn take_place_of(&mut self, older: (u32, Option<EvaluationId>, &[SpanId])) {
        let (revision, revises, spans) = older;
        (self.evaluation.revision, self.evaluation.revises) = (revision, revises);
        for call in &mut self.calls {
            call.revision = revision;
            if revises.is_none() || !spans.contains(&call.span_id) {
                call.revises = None;
            }
        }
    }
}

impl fmt::Debug for AskedInquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evaluation = &self.evaluation.id;
        f.debug_struct("AskedInquiry").field("evaluation", evaluation).finish_non_exhaustive()
    }
}

/// Fills open evaluations with what was concluded.
pub(super) fn concluded(
    mut evaluation: Evaluation,
    calls: Vec<Evaluation>,
    conclusion: Conclusion,
    used: Option<&Arc<JudgeUse>>,
) -> Vec<Evaluation> {
    evaluation.outcome = conclusion.outcome;
    evaluation.judge = used.cloned();
    let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
    let mut all = vec![evaluation];
    for (place, _, outcome) in conclusion.calls {
        if let Some(call) = calls.get_mut(place).and_then(Option::take) {
            all.push(Evaluation { outcome, judge: used.cloned(), ..call });
        }
    }
    all
}
