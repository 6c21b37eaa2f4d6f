//! Runs the configured evaluators over a trajectory: those selected for it, at their levels. Each
//! outcome gets an identity ([`identity`]) and the evaluation that it revises.

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
use crate::evaluator::{ClassifierClasses, Early, Evaluator};
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
    /// Condition on trajectories; `None` means all.
    pub when: Option<When>,
    /// Sampled fraction, 0 to 1.
    pub sample: f64,
    /// True if it may report a verdict before a trace is complete.
    pub early: bool,
    /// True if it asks a judge or an external evaluator.
    pub asks: bool,
    /// Condition on the other evaluators' scores for asking; `None` means always.
    pub run_if: Option<When>,
    /// Filter of the visible tool calls.
    pub tools: ToolChoice,
    /// Criteria: fixed, or found per trajectory.
    pub against: Against,
}

/// Source of an evaluator's criteria.
pub enum Against {
    /// Its settings, for all trajectories.
    Settings(Evaluator),
    /// Lookup per trajectory.
    Expectations(Expectations),
}

impl Configured {
    /// Returns the facts needed by the evaluator and its `when`.
    pub fn facts(&self) -> Facts {
        let when = self.when.as_ref().map(When::facts).unwrap_or_default();
        let run_if = self.run_if.as_ref().map(When::facts).unwrap_or_default();
        let when = when.union(&run_if);
        match &self.against {
            Against::Settings(evaluator) => evaluator.facts().union(&when),
            Against::Expectations(expectations) => when.union(expectations.facts()),
        }
    }

    /// Returns true if its outcome depends on the calls; otherwise it cannot judge single calls.
    pub fn reads_calls(&self) -> bool {
        match &self.against {
            Against::Settings(evaluator) => evaluator.reads_calls(),
            Against::Expectations(expectations) => expectations.reads_calls(),
        }
    }

    /// Returns the parts of the root span read by its `when` and expectations.
    pub fn root_reads(&self) -> RootReads {
        let when =
            self.when.as_ref().map(|when| RootReads::clone(when.root_reads())).unwrap_or_default();
        match &self.against {
            Against::Settings(_) => when,
            Against::Expectations(expectations) => when.union(expectations.root_reads()),
        }
    }

    /// Returns true for an external evaluator.
    pub fn is_external(&self) -> bool {
        self.asks && is_external(self.info.kind)
    }

    /// Returns its judge; `None` if it has none, or its criteria name it.
    pub fn judge(&self) -> Option<&str> {
        let Against::Settings(evaluator) = &self.against else { return None };
        evaluator.as_judged().map(|judged| judged.plan().judge.as_str())
    }

    /// Returns the plan of an external evaluator; `None` for others.
    pub fn external(&self) -> Option<&Arc<ExternalPlan>> {
        match &self.against {
            Against::Settings(evaluator) => evaluator.external(),
            Against::Expectations(expectations) => expectations.external(),
        }
    }

    /// Returns the classes of a classifier; `None` for others.
    pub fn classes(&self) -> Option<ClassifierClasses> {
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

    /// Returns true if its last report on a trace must be stored, as the spans do not determine it.
    fn is_remembered(&self) -> bool {
        let expects = matches!(self.against, Against::Expectations(_));
        self.info.level == Level::Trace && (self.early || expects || self.when.is_some())
    }
}

/// Evidence for a judgement, without the content.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// Hash of the spans, independent of their order.
    pub digest: [u8; 16],
    /// The digest of the previous judgement, if revised by this one.
    pub revised: Option<[u8; 16]>,
    /// Number of earlier judgements of the target.
    pub revision: u32,
    /// Reason for the trace's completion.
    pub completion: Completion,
    /// True if parts are certainly missing.
    pub is_partial: bool,
    /// Current time, Unix nanoseconds.
    pub now_ns: u64,
}

impl Evidence {
    /// Returns the evidence of the first judgement of a complete target.
    pub const fn first(digest: [u8; 16], completion: Completion, now_ns: u64) -> Self {
        Self { digest, revised: None, revision: 0, completion, is_partial: false, now_ns }
    }
}

/// Evidence, with the target info common to all its evaluations.
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
    /// Builds the set in config order.
    pub fn new(evaluators: Vec<Configured>, want: Want) -> Self {
        let chooses = evaluators.iter().any(Configured::chooses);
        let reads = evaluators.iter().map(Configured::reads).fold(Reads::default(), Reads::union);
        let asks = evaluators.iter().any(|configured| configured.asks);
        Self { evaluators, want, chooses, reads, asks }
    }

    /// Returns the evaluators in config order.
    pub fn evaluators(&self) -> &[Configured] {
        &self.evaluators
    }

    /// Returns the union of the facts needed.
    pub fn facts(&self) -> Facts {
        let response_id = self.want.records && !self.evaluators.is_empty();
        let own = Facts { response_id, ..Facts::default() };
        self.evaluators.iter().fold(own, |facts, e| facts.union(&e.facts()))
    }

    /// Returns true if any evaluator judges sessions.
    pub fn has_session_level(&self) -> bool {
        self.evaluators.iter().any(|e| e.info.level == Level::Session)
    }

    /// Returns true if any evaluator asks a judge.
    pub fn asks_judges(&self) -> bool {
        self.evaluators.iter().any(|configured| configured.asks && !configured.is_external())
    }

    /// Returns the names of evaluators with a fixed judge, and that judge.
    pub fn judges(&self) -> impl Iterator<Item = (&str, &str)> {
        self.evaluators.iter().filter_map(|it| Some((it.info.name.as_str(), it.judge()?)))
    }

    /// Returns the names and plans of external evaluators.
    pub fn external(&self) -> impl Iterator<Item = (&str, &Arc<ExternalPlan>)> {
        self.evaluators.iter().filter_map(|it| Some((it.info.name.as_str(), it.external()?)))
    }

    /// Returns true if any evaluator may report before a trace is complete.
    pub fn reports_early(&self) -> bool {
        self.evaluators.iter().any(|e| e.early)
    }

    /// Returns true if any evaluator may still report early.
    pub fn may_report(&self, reported: &[Reported]) -> bool {
        let mut early = self.evaluators.iter().enumerate().filter(|(_, e)| e.early);
        early.any(|(index, _)| !reported.iter().any(|s| s.evaluator == index))
    }

    /// Judges a trace with the evaluators of level `trace` and `call`; pushes their evaluations in
    /// config order. `reported` has the earlier reports on the trace, and is updated. Returns the
    /// skipped evaluators. Requests to judges fail.
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

    /// Asks the evaluators with pending early reports about an open trace; pushes irrevocable
    /// verdicts.
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
        // Skips are dropped: the root span may still bring an attribute needed by a `when` or key.
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

    /// Judges a session, given as one trajectory with the calls of all its traces; pushes requests
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
        // The ids of evaluations that are only counted are unused, and each costs a SHA-256.
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

/// Links an evaluation to its evaluator's last report on the trace, and stores it as the last.
fn remember(reported: &mut Vec<Reported>, evaluator: usize, evaluation: &mut Evaluation) {
    match reported.iter_mut().find(|last| last.evaluator == evaluator) {
        Some(last) => {
            evaluation.revision = last.revision.saturating_add(1);
            evaluation.revises = Some(last.id);
            *last = Reported { evaluator, id: evaluation.id, revision: evaluation.revision };
        }
        None => {
            // Without a report it revises nothing: it did not see the trace in the previous
            // judgement.
            evaluation.revises = None;
            let Evaluation { id, revision, .. } = *evaluation;
            reported.push(Reported { evaluator, id, revision });
        }
    }
}

/// Replaces a score outside of 0 to 1 by a failure: a fault of the evaluator.
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
