use super::*;
use crate::evaluator::CodeEvaluator;
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{Explanation, SpanId, ToolCall, TraceId};
use spanscore_base::value::Value;

/// Scores the number of calls over ten.
struct Calls;

/// Scores the number of groups over ten, for calls in message order.
struct Listed;

impl CodeEvaluator for Listed {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn asks_message_order(&self) -> bool {
        true
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, _: Want) -> Outcome {
        Outcome::Scored(Score {
            value: groups(&trajectory.tool_calls).count() as f64 / 10.0,
            explanation: Explanation::default(),
            details: Value::Null,
            label: None,
        })
    }
}

impl CodeEvaluator for Calls {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, _: Want) -> Outcome {
        Outcome::Scored(Score {
            value: trajectory.tool_calls.len() as f64 / 10.0,
            explanation: Explanation::default(),
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
        case: None,
        own_version: None,
    };
    Configured {
        info: Arc::new(info),
        when: when.map(|text| When::compile(text).expect(text)),
        sample: 1.0,
        early: false,
        asks: false,
        run_if: None,
        tools: ToolChoice::default(),
        against: Against::Settings(Evaluator::code(Calls)),
    }
}

fn judge(evaluators: Vec<Configured>, call_count: u8) -> (Vec<Evaluation>, Skips) {
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
        is_partial: false,
        now_ns: 7,
    };
    let mut out = Vec::new();
    let errors = Evaluators::new(evaluators, Want::ALL).evaluate_trace(
        &mut trajectory,
        evidence,
        &mut Vec::new(),
        &mut out,
    );
    assert_eq!(trajectory.tool_calls.len(), call_count as usize);
    (out, errors)
}

const EVIDENCE: Evidence = Evidence::first([1; 16], Completion::Idle, 7);

#[test]
fn evaluator_that_asks_for_the_order_of_messages_sees_no_group_of_theirs() {
    let call = |place| ToolCall { group: 1, message_place: place, ..ToolCall::default() };
    let against = Against::Settings(Evaluator::code(Listed));
    let listed = Configured { against, ..configured("listed", Level::Trace, None) };
    let evaluators = Evaluators::new(vec![listed], Want::ALL);
    let score = |places: [Option<u32>; 3]| {
        let tool_calls = places.map(call).into();
        let mut trajectory = Trajectory { tool_calls, ..Trajectory::default() };
        let mut out = Vec::new();
        evaluators.evaluate_trace(&mut trajectory, EVIDENCE, &mut Vec::new(), &mut out);
        assert!(trajectory.tool_calls.iter().all(|call| call.group == 1));
        match out.remove(0).outcome {
            Outcome::Scored(score) => score.value,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(score([Some(0), Some(1), Some(2)]), 0.3);
    assert_eq!(score([Some(0), Some(1), None]), 0.1);
}

#[test]
fn each_level_is_attached_to_its_own_span() {
    let evaluators = vec![
        configured("trace", Level::Trace, None),
        configured("call", Level::Call, None),
        configured("session", Level::Session, None),
    ];
    let (out, _) = judge(evaluators, 2);
    let spans: Vec<u8> = out.iter().map(|e| e.span_id.0[0]).collect();
    assert_eq!(spans, [9, 0, 1]);
}

#[test]
fn when_selects_evaluators_and_reports_errors() {
    let evaluators = vec![
        configured("a", Level::Trace, Some("service_name == 'x'")),
        configured("b", Level::Trace, Some("size(tool_names) == 2")),
        configured("c", Level::Trace, Some("service_name")),
    ];
    let (out, errors) = judge(evaluators, 2);
    assert_eq!(out.iter().map(|e| &*e.evaluator.name).collect::<Vec<_>>(), ["b"]);
    assert_eq!(errors, [(0, SkipReason::When), (2, SkipReason::Error)]);
    assert_eq!(when_errors(&errors).collect::<Vec<_>>(), [2]);
}

#[test]
fn same_evidence_has_the_same_identity_and_a_revision_names_what_it_revises() {
    let ids = |count| judge(vec![configured("a", Level::Trace, None)], count).0.remove(0);
    assert_eq!(ids(2).id, ids(2).id);
    assert_ne!(ids(2).id, ids(3).id);
    assert_eq!(ids(3).revises, Some(ids(2).id));
}

#[test]
fn what_a_when_did_not_select_before_is_not_revised() {
    let evaluators = vec![configured("a", Level::Trace, Some("size(tool_names) > 1"))];
    let judge = Evaluators::new(evaluators, Want::ALL);
    let mut reported = Vec::new();
    let mut out = Vec::new();
    for call_count in 1..=3 {
        let calls = (0..call_count).map(|_| ToolCall::default());
        let mut trajectory = Trajectory { tool_calls: calls.collect(), ..Trajectory::default() };
        let evidence = Evidence {
            digest: [call_count; 16],
            revised: (call_count > 1).then_some([call_count - 1; 16]),
            revision: u32::from(call_count) - 1,
            completion: Completion::Idle,
            is_partial: false,
            now_ns: 7,
        };
        judge.evaluate_trace(&mut trajectory, evidence, &mut reported, &mut out);
    }
    let told: Vec<_> = out.iter().map(|e| (e.revision, e.revises)).collect();
    assert_eq!(told, [(1, None), (2, Some(out[0].id))]);
}

#[test]
fn evaluations_that_are_only_counted_have_neither_id_nor_session() {
    let mut trajectory = Trajectory { session_id: Some("s-1".into()), ..Trajectory::default() };
    let evidence = Evidence {
        digest: [2; 16],
        revised: Some([1; 16]),
        revision: 1,
        completion: Completion::Idle,
        is_partial: false,
        now_ns: 7,
    };
    for (want, session) in [(Want::ALL, Some("s-1")), (Want::SCORE, None)] {
        let judge = Evaluators::new(vec![configured("a", Level::Trace, None)], want);
        let mut out = vec![];
        judge.evaluate_trace(&mut trajectory, evidence, &mut Vec::new(), &mut out);
        let Evaluation { id, revises, revision, target, .. } = &out[0];
        assert_eq!(target.session_id.as_deref(), session);
        assert_eq!(*id == EvaluationId::default(), session.is_none());
        assert_eq!(*revises == Some(EvaluationId::default()), session.is_none());
        assert_eq!(*revision, 1);
    }
}

#[test]
fn session_is_sampled_by_its_key_whatever_trace_comes_last() {
    let sampled = |service: Option<&str>, session: u8, trace: u8| {
        let mut half = configured("half", Level::Session, None);
        half.sample = 0.5;
        let session_id: Box<str> = session.to_string().into();
        let mut trajectory = Trajectory {
            trace_id: TraceId([trace; 16]),
            session_id: Some(session_id.to_string().into()),
            ..Trajectory::default()
        };
        let evidence = Evidence::first([1; 16], Completion::Idle, 7);
        let key = SessionKey {
            service_name: service.map(Box::from),
            session_id,
            group: Default::default(),
        };
        let mut out = Vec::new();
        Evaluators::new(vec![half], Want::ALL).evaluate_session(
            &mut trajectory,
            &key,
            evidence,
            &mut out,
            &mut Vec::new(),
        );
        !out.is_empty()
    };
    let all: Vec<bool> = (0..40).map(|session| sampled(None, session, 0x01)).collect();
    assert_eq!(all, (0..40).map(|session| sampled(None, session, 0xff)).collect::<Vec<_>>());
    assert!(all.contains(&true) && all.contains(&false));
    let shop: Vec<bool> = (0..40).map(|session| sampled(Some("shop"), session, 0x01)).collect();
    assert_ne!(all, shop, "services are sampled apart");
}

#[test]
fn score_outside_its_range_is_a_failure() {
    let (out, _) = judge(vec![configured("a", Level::Trace, None)], 11);
    assert_eq!(out[0].outcome.as_str(), "failed");
    assert_eq!(out[0].label(), None);
}

/// Limits the best score to a half from two calls on.
struct Forgiving;

impl CodeEvaluator for Forgiving {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        Calls.evaluate(trajectory, want)
    }

    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        let outcome = self.evaluate(trajectory, want);
        (trajectory.tool_calls.len() > 1).then_some(Early { outcome, best: 0.5 })
    }
}

fn early(threshold: f64) -> Configured {
    let mut configured = configured("early", Level::Trace, None);
    configured.early = true;
    configured.against = Against::Settings(Evaluator::code(Forgiving));
    configured.info = Arc::new(EvaluatorInfo {
        name: "early".into(),
        threshold,
        digest: [3; 16],
        ..EvaluatorInfo::default()
    });
    configured
}

#[test]
fn early_verdict_is_said_once_and_revised_by_the_final_one() {
    let judge = Evaluators::new(vec![configured("a", Level::Trace, None), early(0.6)], Want::ALL);
    assert!(judge.reports_early());
    let trajectory = |call_count| Trajectory {
        tool_calls: (0..call_count).map(|_| ToolCall::default()).collect(),
        ..Trajectory::default()
    };
    let evidence = |digest: u8, completion| Evidence::first([digest; 16], completion, 7);
    let mut reported = Vec::new();
    let mut out = Vec::new();
    for (digest, call_count) in [(1, 1), (2, 2), (3, 3)] {
        let evidence = evidence(digest, Completion::Open);
        judge.evaluate_early(&mut trajectory(call_count), evidence, &mut reported, &mut out);
    }
    assert_eq!(out.len(), 1);
    assert!(!judge.may_report(&reported));
    judge.evaluate_trace(
        &mut trajectory(2),
        evidence(2, Completion::Idle),
        &mut reported,
        &mut out,
    );
    let late = Evidence { revised: Some([2; 16]), revision: 1, ..evidence(4, Completion::Idle) };
    judge.evaluate_trace(&mut trajectory(3), late, &mut reported, &mut out);
    let said: Vec<_> = out
        .iter()
        .map(|e| (&*e.evaluator.name, e.target.completion.as_str(), e.revision, e.revises))
        .collect();
    let ids: Vec<_> = out.iter().map(|e| Some(e.id)).collect();
    let expected = [
        ("early", "open", 0, None),
        ("a", "idle", 0, None),
        ("early", "idle", 1, ids[0]),
        ("a", "idle", 1, ids[1]),
        ("early", "idle", 2, ids[2]),
    ];
    assert_eq!(said, expected);
    assert_ne!(ids[0], ids[2], "the same spans, and yet another evaluation");
}

#[test]
fn verdict_that_may_still_pass_is_not_said() {
    let judge = Evaluators::new(vec![early(0.5)], Want::ALL);
    let call = || ToolCall::default();
    let mut trajectory = Trajectory { tool_calls: vec![call(), call()], ..Trajectory::default() };
    let evidence = Evidence::first([1; 16], Completion::Open, 7);
    let mut reported = Vec::new();
    let mut out = Vec::new();
    judge.evaluate_early(&mut trajectory, evidence, &mut reported, &mut out);
    assert!(out.is_empty() && reported.is_empty());
}
