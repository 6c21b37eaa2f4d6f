//! Runs one evaluator on one target, within the trace's remaining steps.

use super::{Evaluators, JudgedEvidence, SelectedEvaluator, cost, details, refuse_out_of_range};
use crate::engine::identity::{self, JudgedTarget};
use crate::evaluator::CodeEvaluator;
use spanscore_base::model::{Evaluation, Level, Outcome, ToolCall, Trajectory};

impl Evaluators {
    /// Judges each call alone in the trajectory. Once the trace's budget is spent, one outcome
    /// stands for all remaining calls.
    pub(super) fn evaluate_calls(
        &self,
        chosen: SelectedEvaluator<'_>,
        trajectory: &mut Trajectory<'_>,
        subject: &JudgedEvidence,
        out: &mut Vec<Evaluation>,
    ) {
        let ordinals = identity::ordinals(&trajectory.tool_calls);
        let calls = std::mem::take(&mut trajectory.tool_calls);
        let is_judged =
            self.judged_with_shared(chosen, trajectory, (&calls, &ordinals), subject, out);
        trajectory.tool_calls = calls;
        if !is_judged {
            each_call(trajectory, ordinals, |seen, judged| {
                let outcome = self.outcome(chosen, seen, Level::Call);
                self.push(chosen, seen, judged, subject, outcome, out);
            });
        }
    }

    /// Judges each call with [`call_judge`](CodeEvaluator::call_judge), which computes shared parts
    /// once; `false` if the evaluator has none.
    fn judged_with_shared(
        &self,
        chosen: SelectedEvaluator<'_>,
        trajectory: &Trajectory<'_>,
        (calls, ordinals): (&[ToolCall<'_>], &[u32]),
        subject: &JudgedEvidence,
        out: &mut Vec<Evaluation>,
    ) -> bool {
        let Ok(evaluator) = chosen.code() else { return false };
        if !trajectory.effort.begin(cost::of_trace(&evaluator.facts(), trajectory)) {
            return false;
        }
        let Some(mut judge) = evaluator.call_judge(trajectory, self.want) else { return false };
        for (call, ordinal) in calls.iter().zip(ordinals) {
            let is_left = trajectory.effort.begin(cost::OF_CALL);
            let outcome = if is_left {
                self.unless_void(evaluator, trajectory, judge(call))
            } else {
                cost::too_expensive(self.want)
            };
            let judged = JudgedTarget::call(call, *ordinal);
            self.push(chosen, trajectory, judged, subject, outcome, out);
            if trajectory.effort.is_trace_spent() {
                break;
            }
        }
        true
    }

    /// Judges one target as a whole.
    pub(super) fn evaluate_one(
        &self,
        chosen: SelectedEvaluator<'_>,
        trajectory: &Trajectory<'_>,
        judged: JudgedTarget<'_>,
        subject: &JudgedEvidence,
        out: &mut Vec<Evaluation>,
    ) {
        let outcome = self.outcome(chosen, trajectory, Level::Trace);
        self.push(chosen, trajectory, judged, subject, outcome, out);
    }

    fn outcome(
        &self,
        chosen: SelectedEvaluator<'_>,
        trajectory: &Trajectory<'_>,
        level: Level,
    ) -> Outcome {
        match chosen.code() {
            Ok(evaluator) if trajectory.effort.begin(cost::of(evaluator, trajectory, level)) => {
                self.unless_void(evaluator, trajectory, evaluator.evaluate(trajectory, self.want))
            }
            Ok(_) => cost::too_expensive(self.want),
            Err(outcome) => {
                trajectory.effort.begin(cost::OF_CALL);
                outcome
            }
        }
    }

    /// Returns the outcome, replaced by the void one if the evaluation spent the budget.
    fn unless_void(
        &self,
        evaluator: &dyn CodeEvaluator,
        trajectory: &Trajectory<'_>,
        outcome: Outcome,
    ) -> Outcome {
        let is_void = trajectory.effort.is_spent()
            && matches!(outcome, Outcome::Scored(_))
            && !evaluator.stands_unfinished();
        if is_void { cost::of_evaluation(self.want) } else { outcome }
    }

    /// Adds an outcome, charged for its details; if that spends the trace's budget, it is void.
    fn push(
        &self,
        chosen: SelectedEvaluator<'_>,
        trajectory: &Trajectory<'_>,
        judged: JudgedTarget<'_>,
        subject: &JudgedEvidence,
        mut outcome: Outcome,
        out: &mut Vec<Evaluation>,
    ) {
        trajectory.effort.spend(cost::of_details(&outcome));
        if trajectory.effort.is_trace_spent() {
            outcome = cost::too_expensive(self.want);
        }
        refuse_out_of_range(&mut outcome);
        trajectory.effort.note_cut(details::cut(&mut outcome));
        out.push(self.evaluation(chosen.info(), judged, subject, outcome));
    }
}

/// Visits each call alone in the trajectory, until the trace's budget is spent.
pub(super) fn each_call(
    trajectory: &mut Trajectory<'_>,
    ordinals: Vec<u32>,
    mut visit: impl FnMut(&Trajectory<'_>, JudgedTarget<'_>),
) {
    let calls = std::mem::take(&mut trajectory.tool_calls);
    let mut done = Vec::with_capacity(calls.len());
    let mut rest = calls.into_iter().zip(ordinals);
    for (call, ordinal) in rest.by_ref() {
        trajectory.tool_calls.push(call);
        if let [call] = &trajectory.tool_calls[..] {
            visit(trajectory, JudgedTarget::call(call, ordinal));
        }
        done.append(&mut trajectory.tool_calls);
        if trajectory.effort.is_trace_spent() {
            break;
        }
    }
    done.extend(rest.map(|(call, _)| call));
    trajectory.tool_calls = done;
}
