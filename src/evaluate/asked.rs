//! What waits for somebody who is asked: a judge, or an evaluator outside of this process. The
//! evaluations lack nothing but their outcome.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::external::answer::{ExternalVerdict, shown};
use super::external::{ExternalBody, ExternalInquiry};
use super::inquiry::{Conclusion, Inquiry, JudgePlan};
use crate::model::{
    Evaluation, EvaluationId, EvaluatorInfo, Explanation, JudgeUse, Outcome, Score, SpanId,
};
use crate::value::Value;

/// What is to be asked about one target.
#[derive(Debug)]
pub enum AskedTarget {
    /// Of a judge.
    Judge(AskedInquiry),
    /// Of an evaluator outside of this process.
    External(AskedExternal),
}

impl AskedTarget {
    /// What is for judges, and what is for evaluators outside of this process.
    pub fn by_lane(asked: Vec<Self>) -> (Vec<AskedInquiry>, Vec<AskedExternal>) {
        let mut judged = Vec::new();
        let mut external = Vec::new();
        for asked in asked {
            match asked {
                Self::Judge(asked) => judged.push(asked),
                Self::External(asked) => external.push(asked),
            }
        }
        (judged, external)
    }

    /// The evaluation of the target itself; its outcome is still open.
    pub fn evaluation(&mut self) -> &mut Evaluation {
        match self {
            Self::Judge(asked) => &mut asked.evaluation,
            Self::External(asked) => &mut asked.evaluation,
        }
    }

    /// The name of the evaluator that asks.
    pub fn evaluator(&self) -> &str {
        match self {
            Self::Judge(asked) => &asked.evaluation.evaluator.name,
            Self::External(asked) => &asked.evaluation.evaluator.name,
        }
    }

    /// Bytes that it holds while it waits.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Judge(asked) => asked.bytes(),
            Self::External(asked) => asked.bytes(),
        }
    }

    /// The evaluation that says that nobody could be asked: there is no lane.
    pub fn unasked(self) -> Evaluation {
        match self {
            Self::Judge(asked) => asked.unasked(),
            Self::External(asked) => asked.evaluation,
        }
    }
}

/// An inquiry on its way to a judge.
pub struct AskedInquiry {
    /// What is asked.
    pub inquiry: Arc<dyn Inquiry>,
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
        take_place((&mut self.evaluation, &mut self.calls), older);
    }
}

impl fmt::Debug for AskedInquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evaluation = &self.evaluation.id;
        f.debug_struct("AskedInquiry").field("evaluation", evaluation).finish_non_exhaustive()
    }
}

/// An inquiry on its way to an evaluator outside of this process.
#[derive(Debug)]
pub struct AskedExternal {
    /// What is sent, and to whom.
    pub inquiry: ExternalInquiry,
    /// The evaluation of the target itself; its outcome is still open.
    pub evaluation: Evaluation,
    /// The evaluations of its calls, in the order of the trajectory; theirs are open, too.
    pub calls: Vec<Evaluation>,
    /// The same for every revision of one target and evaluator.
    pub subject: [u8; 16],
}

impl AskedExternal {
    /// Bytes that it holds while it waits.
    pub fn bytes(&self) -> usize {
        let skeletons = (1 + self.calls.len()) * size_of::<Evaluation>();
        size_of::<Self>() + skeletons + self.inquiry.bytes()
    }

    /// Makes the version of the evaluator a part of what the evaluations are known by.
    pub fn know_version(&mut self, version: &str) {
        if version.is_empty() {
            return;
        }
        let of_calls = self.calls.first().map(|call| Arc::new(versioned(&call.evaluator, version)));
        let own = Arc::new(versioned(&self.evaluation.evaluator, version));
        for call in &mut self.calls {
            call.evaluator = Arc::clone(of_calls.as_ref().unwrap_or(&own));
        }
        self.evaluation.evaluator = own;
        for evaluation in std::iter::once(&mut self.evaluation).chain(&mut self.calls) {
            evaluation.id = with_version(evaluation.id, version);
            evaluation.revises = evaluation.revises.map(|id| with_version(id, version));
        }
    }

    /// The id that the evaluation of the target will have with that version.
    pub fn versioned_id(&self, version: &str) -> EvaluationId {
        if version.is_empty() {
            self.evaluation.id
        } else {
            with_version(self.evaluation.id, version)
        }
    }

    /// The evaluations that answers come to: that of the target, then those of its calls. Where
    /// only calls were judged, the target gets their mean.
    pub fn conclude(self, verdicts: Vec<ExternalVerdict>) -> Vec<Evaluation> {
        let Self { evaluation, calls, .. } = self;
        let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
        let mut own = None;
        let mut of_calls = Vec::new();
        for ExternalVerdict { span_id, outcome, .. } in verdicts {
            let is_own = span_id.is_none_or(|span| span == evaluation.span_id);
            if is_own && own.is_none() {
                own = Some(outcome);
                continue;
            }
            let is_it = |call: &&mut Option<Evaluation>| {
                call.as_ref().is_some_and(|call| Some(call.span_id) == span_id)
            };
            if let Some(call) = calls.iter_mut().find(is_it).and_then(Option::take) {
                of_calls.push(Evaluation { outcome, ..call });
            }
        }
        let outcome = own.unwrap_or_else(|| mean(&of_calls));
        let mut all = vec![Evaluation { outcome, ..evaluation }];
        all.append(&mut of_calls);
        all
    }

    /// The evaluation that says why there is no answer.
    pub fn give_up(self, outcome: Outcome) -> Vec<Evaluation> {
        vec![Evaluation { outcome, ..self.evaluation }]
    }

    /// Takes the place of an older inquiry about the same target whose answer nobody has seen.
    pub fn take_place_of(&mut self, older: &Self) {
        let spans: Vec<SpanId> = older.calls.iter().map(|call| call.span_id).collect();
        let Evaluation { revision, revises, .. } = older.evaluation;
        take_place((&mut self.evaluation, &mut self.calls), (revision, revises, &spans));
    }

    /// Says of what is sent how the trace was taken as complete, and how often it was before.
    pub(super) fn complete(mut self) -> Self {
        let Evaluation { target, revision, .. } = &self.evaluation;
        if let ExternalBody::Task(task) = &mut self.inquiry.body {
            for trajectory in &mut task.trajectories {
                trajectory.completion = target.completion.as_str().to_owned();
                trajectory.revision = *revision;
            }
        }
        self
    }
}

/// An evaluator with the version that it gives itself.
fn versioned(info: &EvaluatorInfo, version: &str) -> EvaluatorInfo {
    let EvaluationId(digest) = with_version(EvaluationId(info.digest), version);
    EvaluatorInfo { digest, own_version: Some(shown(version).into()), ..info.clone() }
}

/// Where evaluations are only counted they have no ids.
fn with_version(id: EvaluationId, version: &str) -> EvaluationId {
    if id == EvaluationId::default() {
        return id;
    }
    let mut hash = Sha256::new();
    hash.update(id.0);
    hash.update("version");
    hash.update(version);
    let mut half = [0; 16];
    half.copy_from_slice(&hash.finalize()[..16]);
    EvaluationId(half)
}

/// The answer of a target of which only calls were judged.
fn mean(calls: &[Evaluation]) -> Outcome {
    let scores: Vec<f64> = calls
        .iter()
        .filter_map(|call| match &call.outcome {
            Outcome::Scored(score) => Some(score.value),
            _ => None,
        })
        .collect();
    if scores.is_empty() {
        let error = "the evaluator gave no answer for the task".to_owned();
        return Outcome::Failed { error_type: "external_no_answer", error };
    }
    let value = scores.iter().sum::<f64>() / scores.len() as f64;
    let words = format!("the mean of {} calls", scores.len());
    let explanation = Explanation::plain(words);
    Outcome::Scored(Score { value, explanation, details: Value::Null, label: None })
}

fn take_place(
    (evaluation, calls): (&mut Evaluation, &mut [Evaluation]),
    (revision, revises, spans): (u32, Option<EvaluationId>, &[SpanId]),
) {
    (evaluation.revision, evaluation.revises) = (revision, revises);
    for call in calls {
        call.revision = revision;
        if revises.is_none() || !spans.contains(&call.span_id) {
            call.revises = None;
        }
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
