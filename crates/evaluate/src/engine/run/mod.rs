//! Runs the configured evaluators over a trajectory: those that are selected for it, on its levels,
//! each answer with an identity ([`identity`]) and the evaluation that it revises.

mod asking;
mod cost;
mod details;
mod selection;
mod skips;
mod targets;

use std::sync::Arc;

use self::asking::Asking;
use self::selection::{SelectedEvaluator, Selection, Selections};
pub use self::skips::{SkipReason, Skips, when_errors};
use super::expect::Expectations;
use super::identity::{self, JudgedTarget};
use super::select::{Randomness, Reads, RootReads, Scope, Selected, When};
use super::tool_choice::ToolChoice;
use crate::evaluator::{Early, Evaluator, ToldClasses};
use crate::external::{ExternalPlan, is_external};
use crate::requests::AskedTarget;
use spanscore_base::model::Want;
use spanscore_base::model::{
    Completion, Evaluation, EvaluationId, EvaluatorInfo, Facts, Level, Outcome, Reported, Score,
    SessionKey, Target, Trajectory,
};

/// Configured evaluator, ready to run.
pub struct Configured {
    /// Evaluator info of its evaluations.
    pub info: Arc<EvaluatorInfo>,
    /// Condition on trajectories; all when `None`.
    pub when: Option<When>,
    /// Sampled fraction of them, 0 to 1.
    pub sample: f64,
    /// True if it may report a verdict before a trace is complete.
    pub early: bool,
    /// True if it asks a judge, or an evaluator outside of this process.
    pub asks: bool,
    /// Condition on the scores of the others for asking at all; always when `None`.
    pub run_if: Option<When>,
    /// Filter of the tool calls that it sees.
    pub tools: ToolChoice,
    /// Criteria: fixed, or looked up for each trajectory.
    pub against: Against,
}

/// Criteria that an evaluator judges against.
pub enum Against {
    /// Those of its settings: the same for every trajectory.
    Settings(Evaluator),
    /// Those found for each trajectory.
    Expectations(Expectations),
}

impl Configured {
    /// Returns the facts that the evaluator and its `when` read.
    pub fn facts(&self) -> Facts {
        let when = self.when.as_ref().map(When::facts).unwrap_or_default();
        let run_if = self.run_if.as_ref().map(When::facts).unwrap_or_default();
        let when = when.union(&run_if);
        match &self.against {
            Against::Settings(evaluator) => evaluator.facts().union(&when),
            Against::Expectations(expectations) => when.union(expectations.facts()),
        }
    }

    /// Returns true if its answers depend on the calls; otherwise it cannot judge call by call.
    pub fn reads_calls(&self) -> bool {
        match &self.against {
            Against::Settings(evaluator) => evaluator.reads_calls(),
            Against::Expectations(expectations) => expectations.reads_calls(),
        }
    }

    /// Returns the parts of the root span that its `when` and its expectations read.
    pub fn root_reads(&self) -> RootReads {
        let when =
            self.when.as_ref().map(|when| RootReads::clone(when.root_reads())).unwrap_or_default();
        match &self.against {
            Against::Settings(_) => when,
            Against::Expectations(expectations) => when.union(expectations.root_reads()),
        }
    }

    /// Returns true if it is an evaluator outside of this process.
    pub fn is_external(&self) -> bool {
        self.asks && is_external(self.info.kind)
    }

    /// Returns the judge that it asks; `None` where it asks none, or its criteria name it.
    pub fn judge(&self) -> Option<&str> {
        let Against::Settings(evaluator) = &self.against else { return None };
        evaluator.as_judged().map(|judged| judged.plan().judge.as_str())
    }

    /// Returns the plan of an external evaluator; `None` for all others.
    pub fn external(&self) -> Option<&Arc<ExternalPlan>> {
        match &self.against {
            Against::Settings(evaluator) => evaluator.external(),
            Against::Expectations(expectations) => expectations.external(),
        }
    }

    /// Returns the classes that it tells apart; `None` for evaluators of anything else.
    pub fn classes(&self) -> Option<ToldClasses> {
        match &self.against {
            Against::Settings(evaluator) => evaluator.classes(),
            Against::Expectations(expectations) => expectations.classes(),
        }
    }

    /// Returns true if its selection depends on the trajectory.
    fn chooses(&self) -> bool {
        let expects = matches!(self.against, Against::Expectations(_));
        self.when.is_some() || self.sample < 1.0 || expects
    }

    fn reads(&self) -> Reads {
        let when = self.when.as_ref().map(When::reads).unwrap_or_default();
        match &self.against {
            Against::Settings(_) => when,
            Against::Expectations(expectations) => when.union(expectations.reads()),
        }
    }

    /// Returns true if its last report on a trace must be remembered: the spans alone do not tell
    /// it.
    fn is_remembered(&self) -> bool {
        let expects = matches!(self.against, Against::Expectations(_));
        self.info.level == Level::Trace && (self.early || expects || self.when.is_some())
    }
}

/// Evidence that a target is judged on, apart from its content.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// Hash of the spans, independent of their order.
    pub digest: [u8; 16],
    /// The digest of the previous judgement, if this one revises it.
    pub revised: Option<[u8; 16]>,
    /// Number of earlier judgements of the target.
    pub revision: u32,
    /// Reason why the trace counts as complete.
    pub completion: Completion,
    /// True if it certainly lacks something.
    pub is_partial: bool,
    /// Now, Unix nanoseconds.
    pub now_ns: u64,
}

impl Evidence {
    /// Returns the evidence of a target that was never judged before, and lacks nothing.
    pub const fn first(digest: [u8; 16], completion: Completion, now_ns: u64) -> Self {
        Self { digest, revised: None, revision: 0, completion, is_partial: false, now_ns }
    }
}

/// Evidence, with the target info that all its evaluations share.
struct JudgedEvidence {
    evidence: Evidence,
    target: Arc<Target>,
}

/// All configured evaluators.
pub struct Evaluators {
    evaluators: Vec<Configured>,
    want: Want,
    chooses: bool,
    reads: Reads,
    asks: bool,
}

impl Evaluators {
    /// Builds the set, in the order of the config.
    pub fn new(evaluators: Vec<Configured>, want: Want) -> Self {
        let chooses = evaluators.iter().any(Configured::chooses);
        let reads = evaluators.iter().map(Configured::reads).fold(Reads::default(), Reads::union);
        let asks = evaluators.iter().any(|configured| configured.asks);
        Self { evaluators, want, chooses, reads, asks }
    }

    /// Returns the evaluators in the order of the config.
    pub fn evaluators(&self) -> &[Configured] {
        &self.evaluators
    }

    /// Returns the union of the facts that they read.
    pub fn facts(&self) -> Facts {
        let response_id = self.want.records && !self.evaluators.is_empty();
        let own = Facts { response_id, ..Facts::default() };
        self.evaluators.iter().fold(own, |facts, e| facts.union(&e.facts()))
    }

    /// Returns true if any of them judges sessions.
    pub fn has_session_level(&self) -> bool {
        self.evaluators.iter().any(|e| e.info.level == Level::Session)
    }

    /// Returns true if any of them asks a judge.
    pub fn asks_judges(&self) -> bool {
        self.evaluators.iter().any(|configured| configured.asks && !configured.is_external())
    }

    /// Returns the names of those that always ask the same judge, each with that judge.
    pub fn judges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.evaluators.iter().filter_map(|it| Some((it.info.name.as_str(), it.judge()?)))
    }

    /// Returns the names of those outside of this process, each with its plan.
    pub fn external(&self) -> impl Iterator<Item = (&str, &Arc<ExternalPlan>)> {
        self.evaluators.iter().filter_map(|it| Some((it.info.name.as_str(), it.external()?)))
    }

    /// Returns true if any of them may report before a trace is complete.
    pub fn reports_early(&self) -> bool {
        self.evaluators.iter().any(|e| e.early)
    }

    /// Returns true if any of them that may report early has not yet done so.
    pub fn may_report(&self, reported: &[Reported]) -> bool {
        let mut early = self.evaluators.iter().enumerate().filter(|(_, e)| e.early);
        early.any(|(index, _)| !reported.iter().any(|s| s.evaluator == index))
    }

    /// Judges a trace with the evaluators of level `trace` and `call`; pushes their answers in the
    /// order of the config. `reported` lists the earlier reports on the trace, and is brought up to
    /// date. Returns the evaluators that were skipped. Requests to judges fail.
    pub fn evaluate_trace(
        &self,
        trajectory: &mut Trajectory<'_>,
        evidence: Evidence,
        reported: &mut Vec<Reported>,
        out: &mut Vec<Evaluation>,
    ) -> Skips {
        let mut asked = Vec::new();
        let passes = self.evaluate_or_ask(trajectory, evidence, reported, out, &mut asked);
        asking::unasked(asked, out);
        passes
    }

    /// Like [`evaluate_trace`](Self::evaluate_trace), but pushes requests to judges to `asked`.
    pub fn evaluate_or_ask(
        &self,
        trajectory: &mut Trajectory<'_>,
        evidence: Evidence,
        reported: &mut Vec<Reported>,
        out: &mut Vec<Evaluation>,
        asked: &mut Vec<AskedTarget>,
    ) -> Skips {
        if self.evaluators.is_empty() {
            return Vec::new();
        }
        let from = out.len();
        let belongs = |configured: &Configured| configured.info.level != Level::Session;
        let randomness = Randomness::of_trace(trajectory.trace_id);
        let (choices, mut passes) = self.choose(trajectory, randomness, |_, e| belongs(e));
        let subject = self.subject(trajectory, evidence);
        let now = |configured: &Configured| belongs(configured) && !configured.asks;
        for (index, configured) in self.evaluators.iter().enumerate().filter(|(_, e)| now(e)) {
            let Some(chosen) = choices.get(index, configured) else { continue };
            chosen.narrow(trajectory, |trajectory| {
                if configured.info.level == Level::Call {
                    self.evaluate_calls(chosen, trajectory, &subject, out);
                } else {
                    let judged = JudgedTarget::Trace(trajectory.span_id);
                    self.evaluate_one(chosen, trajectory, judged, &subject, out);
                }
            });
            if configured.info.level == Level::Call {
                continue;
            }
            if let Some(evaluation) = out.last_mut().filter(|_| configured.is_remembered()) {
                remember(reported, index, evaluation);
            }
        }
        if self.asks {
            let asking = Asking { reported, out, asked, from };
            passes.extend(self.ask(trajectory, None, &choices, &subject, asking));
        }
        passes
    }

    /// Asks the evaluators that may report early, and have not yet, about a trace that is still
    /// open; pushes the verdicts that nothing to come can change.
    pub fn evaluate_early(
        &self,
        trajectory: &mut Trajectory<'_>,
        evidence: Evidence,
        reported: &mut Vec<Reported>,
        out: &mut Vec<Evaluation>,
    ) {
        let waits = |reported: &[Reported], index, configured: &Configured| {
            configured.early && !reported.iter().any(|s| s.evaluator == index)
        };
        // Skips are dropped: a `when` or key that lacks an attribute now may find it once the root
        // span arrives.
        let randomness = Randomness::of_trace(trajectory.trace_id);
        let (choices, _) = self.choose(trajectory, randomness, |at, e| waits(reported, at, e));
        let subject = self.subject(trajectory, evidence);
        for (index, configured) in self.evaluators.iter().enumerate() {
            if !waits(reported, index, configured) {
                continue;
            }
            let Some(chosen) = choices.get(index, configured) else { continue };
            let Ok(evaluator) = chosen.code() else { continue };
            let seen = chosen.narrow(trajectory, |seen| {
                let may_begin = seen.effort.begin(cost::of_trace(&evaluator.facts(), seen));
                let early = may_begin.then(|| evaluator.early(seen, self.want)).flatten();
                (!seen.effort.is_trace_spent() && may_begin).then_some(early)
            });
            let Some(early) = seen else { return };
            let Some(Early { mut outcome, best }) = early else { continue };
            if best >= configured.info.threshold {
                continue;
            }
            trajectory.effort.note_cut(details::cut(&mut outcome));
            let judged = JudgedTarget::Trace(trajectory.span_id);
            let mut evaluation = self.evaluation(chosen.info(), judged, &subject, outcome);
            remember(reported, index, &mut evaluation);
            out.push(evaluation);
        }
    }

    /// Judges a session, passed as one trajectory with the calls of all its traces; pushes requests
    /// to judges to `asked`.
    pub fn evaluate_session(
        &self,
        trajectory: &mut Trajectory<'_>,
        key: &SessionKey,
        evidence: Evidence,
        out: &mut Vec<Evaluation>,
        asked: &mut Vec<AskedTarget>,
    ) -> Skips {
        let from = out.len();
        let belongs = |configured: &Configured| configured.info.level == Level::Session;
        let randomness = Randomness::of_session(key);
        let (choices, mut passes) = self.choose(trajectory, randomness, |_, e| belongs(e));
        let subject = self.subject(trajectory, evidence);
        let now = |configured: &Configured| belongs(configured) && !configured.asks;
        for (index, configured) in self.evaluators.iter().enumerate().filter(|(_, e)| now(e)) {
            if let Some(chosen) = choices.get(index, configured) {
                let judged = JudgedTarget::Session(key, trajectory.span_id);
                chosen.narrow(trajectory, |seen| {
                    self.evaluate_one(chosen, seen, judged, &subject, out);
                });
            }
        }
        if self.asks {
            let asking = Asking { reported: &mut Vec::new(), out, asked, from };
            passes.extend(self.ask(trajectory, Some(key), &choices, &subject, asking));
        }
        passes
    }

    fn choose(
        &self,
        trajectory: &Trajectory<'_>,
        randomness: Randomness,
        belongs: impl Fn(usize, &Configured) -> bool,
    ) -> (Selections, Skips) {
        let mut passes = Vec::new();
        if !self.chooses {
            return (Selections(Vec::new()), passes);
        }
        let effort = &trajectory.effort;
        let mut scope = Scope::new(trajectory, self.reads);
        let mut choose = |(index, configured): (usize, &Configured)| {
            if !belongs(index, configured) {
                return Selection::Passed;
            }
            if !randomness.is_sampled(configured.sample) {
                passes.push((index, SkipReason::SampledOut));
                return Selection::Passed;
            }
            effort.begin(0);
            scope.begin(effort);
            let selected = configured.when.as_ref().map_or(Selected::Yes, |it| it.selects(&scope));
            let choice = match selected {
                Selected::Yes => match &configured.against {
                    Against::Settings(_) => Selection::Settings,
                    Against::Expectations(expectations) => {
                        Selection::Expectation(expectations.find(trajectory, &scope, self.want))
                    }
                },
                Selected::TooExpensive => Selection::Expectation(Err(cost::of_when(self.want))),
                Selected::No => {
                    passes.push((index, SkipReason::When));
                    Selection::Passed
                }
                Selected::Error => {
                    passes.push((index, SkipReason::Error));
                    Selection::Passed
                }
            };
            scope.end(effort);
            choice
        };
        let choices = self.evaluators.iter().enumerate().map(&mut choose).collect();
        (Selections(choices), passes)
    }

    fn subject(&self, trajectory: &Trajectory<'_>, evidence: Evidence) -> JudgedEvidence {
        let session_id = trajectory.session_id.as_deref().filter(|_| self.want.records);
        let target = Target {
            trace_id: trajectory.trace_id,
            sender: trajectory.sender,
            session_id: session_id.map(Box::from),
            resource: Arc::clone(&trajectory.resource),
            agent_name: trajectory.agent_name.as_deref().map(Box::from),
            response: trajectory
                .response_id
                .as_deref()
                .filter(|_| self.want.records)
                .map(|id| (trajectory.span_id, Box::from(id))),
            completion: evidence.completion,
            is_partial: evidence.is_partial,
            time_ns: evidence.now_ns,
            started_ns: trajectory.start_ns,
            ended_ns: trajectory.end_ns,
        };
        JudgedEvidence { evidence, target: Arc::new(target) }
    }

    #[inline]
    fn evaluation(
        &self,
        info: &Arc<EvaluatorInfo>,
        judged: JudgedTarget<'_>,
        JudgedEvidence { evidence, target }: &JudgedEvidence,
        outcome: Outcome,
    ) -> Evaluation {
        // Nobody sees the ids of evaluations that are only counted; each costs a SHA-256.
        let id = |digest| {
            if self.want.records {
                identity::of_evaluation(info, target, judged, digest)
            } else {
                EvaluationId::default()
            }
        };
        Evaluation {
            id: id(evidence.digest),
            outcome,
            revision: evidence.revision,
            revises: evidence.revised.map(id),
            supersedes: None,
            judge: None,
            evaluator: Arc::clone(info),
            target: Arc::clone(target),
            span_id: judged.span_id(),
        }
    }
}

/// Makes an evaluation revise its evaluator's last report on the trace, and remembers it as the
/// last.
fn remember(reported: &mut Vec<Reported>, evaluator: usize, evaluation: &mut Evaluation) {
    match reported.iter_mut().find(|last| last.evaluator == evaluator) {
        Some(last) => {
            evaluation.revision = last.revision.saturating_add(1);
            evaluation.revises = Some(last.id);
            *last = Reported { evaluator, id: evaluation.id, revision: evaluation.revision };
        }
        None => {
            // Without a report there is nothing to revise: it did not see the trace when that was
            // judged before.
            evaluation.revises = None;
            let Evaluation { id, revision, .. } = *evaluation;
            reported.push(Reported { evaluator, id, revision });
        }
    }
}

/// Turns a score that is not a number between 0 and 1 into a failure: a fault of the evaluator.
fn refuse_out_of_range(outcome: &mut Outcome) {
    if let Outcome::Scored(Score { value, .. }) = outcome
        && !(0.0..=1.0).contains(value)
    {
        let error = format!("the evaluator gave {value}, which is not between 0 and 1");
        *outcome = Outcome::Failed { error_type: "score_out_of_range", error };
    }
}

#[cfg(test)]
mod tests;
