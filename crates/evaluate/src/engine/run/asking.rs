//! Requests of judged and external evaluators. They run after the other evaluators, whose scores
//! their `run_if` may read, and give a request instead of an outcome.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Evaluators, JudgedEvidence, SelectedEvaluator, SkipReason, Skips, cost, remember};
use crate::engine::identity::{self, JudgedTarget};
use crate::engine::run::selection::Selections;
use crate::engine::run::targets::each_call;
use crate::engine::select::{Scope, Selected};
use crate::evaluator::Evaluator;
use crate::external::ExternalInquiry;
use crate::inquiry::{Conclusion, Inquired, Inquiry, JudgePlan};
use crate::requests::{AskedTarget, ExternalRequest, JudgeRequest, concluded};
use crate::shared::digest::{first_half, of_parts};
use spanscore_base::model::{
    Evaluation, EvaluatorInfo, Level, Outcome, Reported, SessionKey, ToolCall, Trajectory,
};

/// Returns the placeholder outcome of an unanswered evaluation.
pub(super) fn open_outcome() -> Outcome {
    let error = "nobody has been asked".to_owned();
    Outcome::Failed { error_type: "judge_not_asked", error }
}

/// Recipient of one request about one target, with its content.
enum Addressee<'e> {
    /// None is needed.
    Nobody(Conclusion),
    /// A judge, with its plan.
    Judge(Arc<dyn Inquiry>, &'e JudgePlan),
    /// An external evaluator.
    External(ExternalInquiry),
}

/// Output of one judgement: evaluations, and requests to judges and external evaluators.
pub(super) struct Asking<'a> {
    pub(super) reported: &'a mut Vec<Reported>,
    pub(super) out: &'a mut Vec<Evaluation>,
    pub(super) asked: &'a mut Vec<AskedTarget>,
    /// Index in `out` of the first evaluation of this judgement.
    pub(super) from: usize,
}

impl Evaluators {
    /// Builds the requests of judged and external evaluators; returns those skipped by their
    /// `run_if`.
    pub(super) fn ask(
        &self,
        trajectory: &mut Trajectory<'_>,
        session: Option<&SessionKey>,
        choices: &Selections,
        subject: &JudgedEvidence,
        mut asking: Asking<'_>,
    ) -> Skips {
        let mut passes = Vec::new();
        for (index, configured) in self.evaluators.iter().enumerate().filter(|(_, e)| e.asks) {
            let is_session = configured.info.level == Level::Session;
            let chosen = choices.get(index, configured).filter(|_| is_session == session.is_some());
            let Some(chosen) = chosen else { continue };
            if let Some(run_if) = &configured.run_if {
                let scores = scores(&asking.out[asking.from..]);
                let mut scope = Scope::new(trajectory, run_if.reads());
                scope.begin(&trajectory.effort);
                let scope = scope.with_scores(scores);
                let selected = run_if.selects(&scope);
                scope.end(&trajectory.effort);
                if selected != Selected::Yes {
                    let is_choice = selected == Selected::No;
                    let why = if is_choice { SkipReason::RunIf } else { SkipReason::Error };
                    passes.push((index, why));
                    continue;
                }
            }
            let before = (asking.out.len(), asking.asked.len());
            let judged = match session {
                Some(key) => JudgedTarget::Session(key, trajectory.span_id),
                None => JudgedTarget::Trace(trajectory.span_id),
            };
            if configured.info.level == Level::Call {
                chosen.narrow(trajectory, |seen| {
                    let ordinals = identity::ordinals(&seen.tool_calls);
                    each_call(seen, ordinals, |seen, judged| {
                        self.ask_one(chosen, seen, judged, subject, &mut asking);
                    });
                });
                continue;
            }
            chosen.narrow(trajectory, |seen| {
                self.ask_one(chosen, seen, judged, subject, &mut asking);
            });
            if configured.is_remembered() {
                let first = asking.out.get_mut(before.0);
                let open = asking.asked.get_mut(before.1).map(AskedTarget::evaluation);
                if let Some(evaluation) = first.or(open) {
                    remember(asking.reported, index, evaluation);
                }
            }
        }
        passes
    }

    fn ask_one(
        &self,
        chosen: SelectedEvaluator<'_>,
        seen: &Trajectory<'_>,
        judged: JudgedTarget<'_>,
        subject: &JudgedEvidence,
        asking: &mut Asking<'_>,
    ) {
        let open = |outcome| self.evaluation(chosen.info(), judged, subject, outcome);
        let evaluator = match chosen.evaluator() {
            Ok(evaluator) => evaluator,
            Err(outcome) => return asking.out.push(open(outcome)),
        };
        if !seen.effort.begin(cost::of_trace(&evaluator.facts(), seen)) {
            return asking.out.push(open(cost::too_expensive(self.want)));
        }
        let asked = self.inquire(evaluator, seen, chosen.info().threshold);
        if seen.effort.is_trace_spent() {
            return asking.out.push(open(cost::too_expensive(self.want)));
        }
        let calls = match chosen.info().level {
            Level::Call => Vec::new(),
            Level::Trace | Level::Session => self.open_calls(chosen, seen, subject),
        };
        let evaluation = open(open_outcome());
        let subject = subject_of(chosen.info(), judged, subject);
        match asked {
            Addressee::Nobody(conclusion) => {
                asking.out.extend(concluded(evaluation, calls, conclusion, None));
            }
            Addressee::Judge(inquiry, plan) => {
                let plan = plan.clone();
                let asked = JudgeRequest { inquiry, plan, evaluation, calls, subject };
                asking.asked.push(AskedTarget::Judge(asked));
            }
            Addressee::External(inquiry) => {
                let asked = ExternalRequest { inquiry, evaluation, calls, subject };
                asking.asked.push(AskedTarget::External(asked.complete()));
            }
        }
    }

    /// Builds an evaluator's request about a target.
    fn inquire<'e>(
        &self,
        evaluator: &'e Evaluator,
        seen: &Trajectory<'_>,
        threshold: f64,
    ) -> Addressee<'e> {
        let nobody = |outcome| Addressee::Nobody(Conclusion::of(outcome));
        match evaluator {
            Evaluator::Code(evaluator) => nobody(evaluator.evaluate(seen, self.want)),
            Evaluator::Judged(evaluator) => match evaluator.inquire(seen, threshold, self.want) {
                Inquired::Known(conclusion) => Addressee::Nobody(conclusion),
                Inquired::Asked(inquiry) => Addressee::Judge(inquiry, evaluator.plan()),
            },
            Evaluator::External(evaluator) => evaluator
                .inquire(seen, threshold, self.want)
                .map_or_else(nobody, Addressee::External),
        }
    }

    /// Returns an unanswered evaluation for each call.
    fn open_calls(
        &self,
        chosen: SelectedEvaluator<'_>,
        seen: &Trajectory<'_>,
        subject: &JudgedEvidence,
    ) -> Vec<Evaluation> {
        let info = Arc::new(of_calls(chosen.info()));
        let open = |(call, ordinal): (&ToolCall<'_>, u32)| {
            self.evaluation(&info, JudgedTarget::call(call, ordinal), subject, open_outcome())
        };
        let ordinals = identity::ordinals(&seen.tool_calls);
        seen.tool_calls.iter().zip(ordinals).map(open).collect()
    }
}

/// Returns the evaluator info for single calls. Its digest differs, so that their ids differ from
/// the whole's even on the same span.
fn of_calls(info: &EvaluatorInfo) -> EvaluatorInfo {
    let digest = of_parts(&[&info.digest, b"calls"]);
    EvaluatorInfo { level: Level::Call, digest, ..info.clone() }
}

/// Returns the key of a target and evaluator, equal for all revisions.
fn subject_of(
    info: &EvaluatorInfo,
    judged: JudgedTarget<'_>,
    JudgedEvidence { target, .. }: &JudgedEvidence,
) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(&info.name);
    hash.update([0]);
    let trace = target.sender.group.key(target.trace_id);
    match judged {
        JudgedTarget::Session(key, _) => {
            hash.update(key.to_bytes());
            hash.update(key.group.to_bytes());
        }
        JudgedTarget::Trace(_) => hash.update(trace.0),
        JudgedTarget::Call { span_id, id, ordinal } => {
            hash.update(trace.0);
            hash.update(span_id.0);
            hash.update(ordinal.to_be_bytes());
            hash.update(id);
        }
    }
    first_half(hash)
}

/// Returns the scores by evaluator, averaged over calls for evaluators of calls.
fn scores(evaluations: &[Evaluation]) -> Vec<(String, f64)> {
    let mut sums: Vec<(&str, f64, f64)> = Vec::new();
    for evaluation in evaluations {
        let Outcome::Scored(score) = &evaluation.outcome else { continue };
        let name = evaluation.evaluator.name.as_str();
        match sums.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + score.value, *count + 1.0),
            None => sums.push((name, score.value, 1.0)),
        }
    }
    sums.into_iter().map(|(name, sum, count)| (name.to_owned(), sum / count)).collect()
}

/// Emits requests as failed if there is no dispatcher, instead of dropping them.
pub(super) fn unasked(asked: Vec<AskedTarget>, out: &mut Vec<Evaluation>) {
    out.extend(asked.into_iter().map(AskedTarget::unasked));
}
