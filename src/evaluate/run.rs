//! Runs the configured evaluators over a trajectory and gives their answers an identity.
//!
//! The identity of an evaluation is a hash of the evaluator (kind, name, settings, criteria), the
//! target, and the spans it was judged on, so a replay of the same spans gives the same ids and
//! never counts twice downstream.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::select::{Scope, Selected, When, is_sampled};
use super::{Evaluator, Want};
use crate::model::{
    Completion, Evaluation, EvaluationId, EvaluatorInfo, Facts, Level, Outcome, SpanId, Target,
    Trajectory,
};

/// One configured evaluator, ready to run.
pub struct Configured {
    /// What its evaluations share.
    pub info: Arc<EvaluatorInfo>,
    /// Which trajectories it sees; all when `None`.
    pub when: Option<When>,
    /// Which fraction of them, 0 to 1.
    pub sample: f64,
    /// Judges them.
    pub evaluator: Box<dyn Evaluator>,
}

impl Configured {
    /// The facts that the evaluator and its `when` read.
    pub fn facts(&self) -> Facts {
        let when = self.when.as_ref().map(When::facts).unwrap_or_default();
        self.evaluator.facts().union(&when)
    }
}

/// What a target is judged on, apart from its content.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    /// Hash of the spans, independent of their order.
    pub digest: [u8; 16],
    /// The digest of the previous judgement, if this one revises it.
    pub revised: Option<[u8; 16]>,
    /// How often the target was judged before.
    pub revision: u32,
    /// Why the trace was taken as complete.
    pub completion: Completion,
    /// Now, Unix nanoseconds.
    pub now_ns: u64,
}

/// How often an expression could not be evaluated, by evaluator index.
pub type WhenErrors = Vec<usize>;

/// All configured evaluators.
pub struct Judge {
    evaluators: Vec<Configured>,
    want: Want,
    tool_names: bool,
}

impl Judge {
    /// Takes the evaluators in the order of the config.
    pub fn new(evaluators: Vec<Configured>, want: Want) -> Self {
        let tool_names =
            evaluators.iter().filter_map(|e| e.when.as_ref()).any(When::reads_tool_names);
        Self { evaluators, want, tool_names }
    }

    /// The evaluators in the order of the config.
    pub fn evaluators(&self) -> &[Configured] {
        &self.evaluators
    }

    /// The facts that any of them reads.
    pub fn facts(&self) -> Facts {
        self.evaluators.iter().fold(Facts::default(), |facts, e| facts.union(&e.facts()))
    }

    /// Whether any of them judges sessions.
    pub fn judges_sessions(&self) -> bool {
        self.evaluators.iter().any(|e| e.info.level == Level::Session)
    }

    /// Judges a trace with the evaluators of level `trace` and `call`; pushes their answers in the
    /// order of the config. Returns the indices of evaluators whose `when` could not be evaluated.
    pub fn judge_trace(
        &self,
        trajectory: &mut Trajectory<'_>,
        evidence: Evidence,
        out: &mut Vec<Evaluation>,
    ) -> WhenErrors {
        let (selected, errors) = self.select(trajectory, |level| level != Level::Session);
        for index in selected {
            let configured = &self.evaluators[index];
            match configured.info.level {
                Level::Call => self.judge_calls(configured, trajectory, evidence, out),
                _ => out.push(self.judge_one(configured, trajectory, trajectory.span_id, evidence)),
            }
        }
        errors
    }

    /// Judges a session, given as one trajectory with the calls of all its traces.
    pub fn judge_session(
        &self,
        trajectory: &Trajectory<'_>,
        evidence: Evidence,
        out: &mut Vec<Evaluation>,
    ) -> WhenErrors {
        let (selected, errors) = self.select(trajectory, |level| level == Level::Session);
        for index in selected {
            let configured = &self.evaluators[index];
            out.push(self.judge_one(configured, trajectory, trajectory.span_id, evidence));
        }
        errors
    }

    fn select(
        &self,
        trajectory: &Trajectory<'_>,
        level: impl Fn(Level) -> bool,
    ) -> (Vec<usize>, WhenErrors) {
        let scope = Scope::new(trajectory, self.tool_names);
        let (mut selected, mut errors) = (Vec::with_capacity(self.evaluators.len()), Vec::new());
        for (index, configured) in self.evaluators.iter().enumerate() {
            if !level(configured.info.level) || !is_sampled(trajectory.trace_id, configured.sample)
            {
                continue;
            }
            match configured.when.as_ref().map_or(Selected::Yes, |when| when.selects(&scope)) {
                Selected::Yes => selected.push(index),
                Selected::No => {}
                Selected::Error => errors.push(index),
            }
        }
        (selected, errors)
    }

    /// Judges each call alone: the trajectory holds that one call while it is judged.
    fn judge_calls(
        &self,
        configured: &Configured,
        trajectory: &mut Trajectory<'_>,
        evidence: Evidence,
        out: &mut Vec<Evaluation>,
    ) {
        let mut rest = std::mem::take(&mut trajectory.tool_calls);
        let mut judged = Vec::with_capacity(rest.len());
        rest.reverse();
        while let Some(call) = rest.pop() {
            let span_id = call.span_id;
            trajectory.tool_calls.push(call);
            out.push(self.judge_one(configured, trajectory, span_id, evidence));
            judged.append(&mut trajectory.tool_calls);
        }
        trajectory.tool_calls = judged;
    }

    fn judge_one(
        &self,
        configured: &Configured,
        trajectory: &Trajectory<'_>,
        span_id: SpanId,
        evidence: Evidence,
    ) -> Evaluation {
        let info = &configured.info;
        let target = Target {
            level: info.level,
            trace_id: trajectory.trace_id,
            span_id,
            session_id: trajectory.session_id.as_deref().map(str::to_owned),
        };
        let call = match (info.level, trajectory.tool_calls.as_slice()) {
            (Level::Call, [call]) => call.id.as_deref().unwrap_or_default(),
            _ => "",
        };
        Evaluation {
            id: identity(info, &target, call, evidence.digest),
            outcome: finite(configured.evaluator.evaluate(trajectory, self.want)),
            completion: evidence.completion,
            revision: evidence.revision,
            revises: evidence.revised.map(|digest| identity(info, &target, call, digest)),
            resource: Arc::clone(&trajectory.resource),
            agent_name: trajectory.agent_name.as_deref().map(str::to_owned),
            time_ns: evidence.now_ns,
            evaluator: Arc::clone(info),
            target,
        }
    }
}

/// A score that is not a number between 0 and 1 is a fault of the evaluator, not a score.
fn finite(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Scored(score) if !(0.0..=1.0).contains(&score.value) => Outcome::Failed {
            error_type: "score_out_of_range",
            error: format!("the evaluator gave {}, which is not between 0 and 1", score.value),
        },
        outcome => outcome,
    }
}

/// The identity of an evaluation. `call` tells apart calls that share a span (those that are known
/// from a model's message only).
fn identity(info: &EvaluatorInfo, target: &Target, call: &str, digest: [u8; 16]) -> EvaluationId {
    let mut hash = Sha256::new();
    hash.update(&info.digest[..8]);
    if info.level == Level::Session {
        hash.update(target.session_id.as_deref().unwrap_or_default());
    } else {
        hash.update(target.trace_id.0);
        hash.update(target.span_id.0);
        hash.update(call);
    }
    hash.update(digest);
    let hash = hash.finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    EvaluationId(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Score, ToolCall, TraceId};
    use crate::value::Value;

    /// Scores the number of calls over ten.
    struct Calls;

    impl Evaluator for Calls {
        fn facts(&self) -> Facts {
            Facts::default()
        }

        fn evaluate(&self, trajectory: &Trajectory<'_>, _: Want) -> Outcome {
            Outcome::Scored(Score {
                value: trajectory.tool_calls.len() as f64 / 10.0,
                explanation: String::new(),
                details: Value::Null,
                label: None,
            })
        }
    }

    fn configured(name: &str, level: Level, when: Option<&str>) -> Configured {
        let info = EvaluatorInfo {
            kind: "calls",
            name: name.into(),
            threshold: 0.5,
            level,
            digest: [name.len() as u8; 16],
        };
        Configured {
            info: Arc::new(info),
            when: when.map(|text| When::compile(text).expect(text)),
            sample: 1.0,
            evaluator: Box::new(Calls),
        }
    }

    fn judge(evaluators: Vec<Configured>, call_count: u8) -> (Vec<Evaluation>, WhenErrors) {
        let call = |n| ToolCall { span_id: SpanId([n; 8]), ..ToolCall::default() };
        let mut trajectory = Trajectory {
            trace_id: TraceId([1; 16]),
            span_id: SpanId([9; 8]),
            tool_calls: (0..call_count).map(call).collect(),
            ..Trajectory::default()
        };
        let evidence = Evidence {
            digest: [call_count; 16],
            revised: (call_count > 2).then_some([2; 16]),
            revision: 0,
            completion: Completion::RootEnded,
            now_ns: 7,
        };
        let mut out = Vec::new();
        let errors =
            Judge::new(evaluators, Want::ALL).judge_trace(&mut trajectory, evidence, &mut out);
        assert_eq!(trajectory.tool_calls.len(), call_count as usize);
        (out, errors)
    }

    #[test]
    fn each_level_is_attached_to_its_own_span() {
        let evaluators = vec![
            configured("trace", Level::Trace, None),
            configured("call", Level::Call, None),
            configured("session", Level::Session, None),
        ];
        let (out, _) = judge(evaluators, 2);
        let spans: Vec<u8> = out.iter().map(|e| e.target.span_id.0[0]).collect();
        assert_eq!(spans, [9, 0, 1]);
    }

    #[test]
    fn when_decides_who_judges_and_its_errors_are_reported() {
        let evaluators = vec![
            configured("a", Level::Trace, Some("service_name == 'x'")),
            configured("b", Level::Trace, Some("size(tool_names) == 2")),
            configured("c", Level::Trace, Some("service_name")),
        ];
        let (out, errors) = judge(evaluators, 2);
        assert_eq!(out.iter().map(|e| &*e.evaluator.name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(errors, [2]);
    }

    #[test]
    fn same_evidence_has_the_same_identity_and_a_revision_names_what_it_revises() {
        let ids = |count| judge(vec![configured("a", Level::Trace, None)], count).0.remove(0);
        assert_eq!(ids(2).id, ids(2).id);
        assert_ne!(ids(2).id, ids(3).id);
        assert_eq!(ids(3).revises, Some(ids(2).id));
    }

    #[test]
    fn score_outside_its_range_is_a_failure() {
        let (out, _) = judge(vec![configured("a", Level::Trace, None)], 11);
        assert_eq!(out[0].outcome.as_str(), "failed");
        assert_eq!(out[0].label(), None);
    }
}
