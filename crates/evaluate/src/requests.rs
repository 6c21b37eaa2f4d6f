//! Pending requests to judges and external evaluators, with evaluations that only lack their
//! outcome.

use std::fmt;
use std::sync::Arc;

use super::external::answer::{ExternalVerdict, shown};
use super::external::{ExternalBody, ExternalInquiry};
use super::inquiry::{Conclusion, Inquiry, JudgePlan};
use super::shared::digest::of_parts;
use spanscore_base::model::{
    Evaluation, EvaluationId, EvaluatorInfo, Explanation, JudgeUse, Outcome, Score, SpanId,
};
use spanscore_base::value::Value;

/// Request about one target, by its recipient.
#[derive(Debug)]
pub enum AskedTarget {
    /// To a judge.
    Judge(JudgeRequest),
    /// To an external evaluator.
    External(ExternalRequest),
}

impl AskedTarget {
    /// Splits requests into those to judges and those to external evaluators.
    pub fn by_dispatcher(asked: Vec<Self>) -> (Vec<JudgeRequest>, Vec<ExternalRequest>) {
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

    /// Returns the target's evaluation without an outcome yet.
    pub fn evaluation(&mut self) -> &mut Evaluation {
        match self {
            Self::Judge(asked) => &mut asked.evaluation,
            Self::External(asked) => &mut asked.evaluation,
        }
    }

    /// Returns the name of the requesting evaluator.
    pub fn evaluator(&self) -> &str {
        match self {
            Self::Judge(asked) => &asked.evaluation.evaluator.name,
            Self::External(asked) => &asked.evaluation.evaluator.name,
        }
    }

    /// Returns the bytes held while waiting.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Judge(asked) => asked.bytes(),
            Self::External(asked) => asked.bytes(),
        }
    }

    /// Returns the evaluation for a request without a dispatcher: failed, as unanswered.
    pub fn unasked(self) -> Evaluation {
        match self {
            Self::Judge(asked) => asked.unasked(),
            Self::External(asked) => asked.evaluation,
        }
    }
}

/// Request to a judge.
pub struct JudgeRequest {
    /// Renderer of prompts, and parser of replies.
    pub inquiry: Arc<dyn Inquiry>,
    /// Judge, samples and limits.
    pub plan: JudgePlan,
    /// Evaluation of the target, without an outcome yet.
    pub evaluation: Evaluation,
    /// Evaluations of its calls, in trajectory order, without outcomes yet.
    pub calls: Vec<Evaluation>,
    /// Key of target and evaluator, equal for all revisions.
    pub subject: [u8; 16],
}

impl JudgeRequest {
    /// Returns the bytes held while waiting.
    pub fn bytes(&self) -> usize {
        let skeletons = (1 + self.calls.len()) * size_of::<Evaluation>();
        size_of::<Self>() + skeletons + self.inquiry.bytes()
    }

    /// Fills in the answer: returns the evaluations of the target and its judged calls.
    pub fn conclude(self, conclusion: Conclusion, used: Option<JudgeUse>) -> Vec<Evaluation> {
        let used = used.map(Arc::new);
        let Self { evaluation, calls, .. } = self;
        concluded(evaluation, calls, conclusion, used.as_ref())
    }

    /// Returns the target's evaluation with the reason for a missing answer.
    pub fn give_up(self, outcome: Outcome, used: Option<JudgeUse>) -> Vec<Evaluation> {
        vec![Evaluation { outcome, judge: used.map(Arc::new), ..self.evaluation }]
    }

    /// Returns the evaluation for a request without a dispatcher: failed, as unanswered.
    pub fn unasked(self) -> Evaluation {
        self.evaluation
    }

    /// Replaces an older request about the same target without an emitted answer: takes over its
    /// revision number and the evaluation that it would have revised.
    pub fn take_place_of(&mut self, older: (u32, Option<EvaluationId>, &[SpanId])) {
        take_place((&mut self.evaluation, &mut self.calls), older);
    }
}

impl fmt::Debug for JudgeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evaluation = &self.evaluation.id;
        f.debug_struct("JudgeRequest").field("evaluation", evaluation).finish_non_exhaustive()
    }
}

/// Request to an external evaluator.
#[derive(Debug)]
pub struct ExternalRequest {
    /// Message, and the plan to reach the evaluator.
    pub inquiry: ExternalInquiry,
    /// Evaluation of the target, without an outcome yet.
    pub evaluation: Evaluation,
    /// Evaluations of its calls, in trajectory order, without outcomes yet.
    pub calls: Vec<Evaluation>,
    /// Key of target and evaluator, equal for all revisions.
    pub subject: [u8; 16],
}

impl ExternalRequest {
    /// Returns the bytes held while waiting.
    pub fn bytes(&self) -> usize {
        let skeletons = (1 + self.calls.len()) * size_of::<Evaluation>();
        size_of::<Self>() + skeletons + self.inquiry.bytes()
    }

    /// Adds the evaluator's reported version to the identities of all evaluations.
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

    /// Returns the id of the target's evaluation for that version.
    pub fn versioned_id(&self, version: &str) -> EvaluationId {
        if version.is_empty() {
            self.evaluation.id
        } else {
            with_version(self.evaluation.id, version)
        }
    }

    /// Fills in the answers: returns the evaluation of the target, then those of its judged calls.
    /// A target without an answer gets the mean of its calls.
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

    /// Returns the target's evaluation with the reason for a missing answer.
    pub fn give_up(self, outcome: Outcome) -> Vec<Evaluation> {
        vec![Evaluation { outcome, ..self.evaluation }]
    }

    /// Replaces an older request about the same target without an emitted answer.
    pub fn take_place_of(&mut self, older: &Self) {
        let spans: Vec<SpanId> = older.calls.iter().map(|call| call.span_id).collect();
        let Evaluation { revision, revises, .. } = older.evaluation;
        take_place((&mut self.evaluation, &mut self.calls), (revision, revises, &spans));
    }

    /// Sets the completion reason and the revision in the trajectories to be sent.
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

/// Returns the evaluator info with the reported version.
fn versioned(info: &EvaluatorInfo, version: &str) -> EvaluatorInfo {
    let EvaluationId(digest) = with_version(EvaluationId(info.digest), version);
    EvaluatorInfo { digest, own_version: Some(shown(version).into()), ..info.clone() }
}

/// Hashes a version into an id. The default id of evaluations that are only counted is unchanged.
fn with_version(id: EvaluationId, version: &str) -> EvaluationId {
    if id == EvaluationId::default() {
        return id;
    }
    EvaluationId(of_parts(&[&id.0, b"version", version.as_bytes()]))
}

/// Averages the scores of the calls for a target without an answer; failed without any.
fn mean(calls: &[Evaluation]) -> Outcome {
    let scored = calls.iter().filter_map(|call| call.outcome.score());
    let scores: Vec<f64> = scored.map(|score| score.value).collect();
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

/// Fills evaluations from a conclusion: the target's first, then those of judged calls.
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
