//! Runs by the real writer: 40 of version 1.4.0 and 40 of 1.5.0, which fails more often.

use std::sync::Arc;
use std::time::SystemTime;

use spanscore_base::model::{
    CallStatus, Completion, Content, Evaluation, EvaluationId, EvaluatorInfo, Explanation, Level,
    Outcome, Reason, Resource, Score, SpanId, Target, ToolCall, ToolDefinition, TraceId,
    Trajectory,
};
use spanscore_base::value::json;
use spanscore_store::{Judgement, Store, TrajectoryRecord};

/// Runs of each version.
pub(super) const RUNS: u64 = 40;

pub(super) fn trace_id(number: u64) -> TraceId {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    TraceId(id)
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_nanos() as u64
}

/// Writes a field of a protobuf message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

fn resource(version: &str) -> Arc<Resource> {
    let value = field(2, &field(1, version.as_bytes()));
    let attribute = [field(1, b"service.version"), value].concat();
    let encoded = field(1, &attribute);
    Arc::new(Resource { encoded, service_name: "shop".to_owned() })
}

/// Version and end of a run: the runs of 1.4.0 ended two hours ago, the others just now.
fn facts(number: u64) -> (&'static str, u64) {
    let now_ns = now_ns();
    if number < RUNS {
        ("1.4.0", now_ns - 7_200_000_000_000 + number * 1_000_000_000)
    } else {
        ("1.5.0", now_ns - 1_000_000_000 + number * 1_000_000)
    }
}

fn run(number: u64) -> TrajectoryRecord {
    let (version, end_ns) = facts(number);
    let call = |name: &'static str, status| ToolCall {
        name: name.into(),
        arguments: Content::ready(json::parse(r#"{"order": 17}"#).unwrap()),
        status,
        span_id: SpanId([3; 8]),
        start_ns: end_ns - 2_000_000_000,
        end_ns: end_ns - 1_000_000_000,
        ..ToolCall::default()
    };
    let status = if number.is_multiple_of(10) { CallStatus::Error } else { CallStatus::Ok };
    let input = format!("\"order {number}\"");
    let final_output = match number % 5 {
        0 => Content::NotRecorded,
        1 => Content::ready("".into()),
        _ => Content::ready("done".into()),
    };
    let models = if number.is_multiple_of(3) { &["large", "small"][..] } else { &["large"] };
    let trajectory = Trajectory {
        trace_id: trace_id(number),
        span_id: SpanId([1; 8]),
        resource: resource(version),
        session_id: Some(format!("s-{}", number / 4).into()),
        agent_name: Some("refunds".into()),
        start_ns: end_ns - 3_000_000_000 - number * 1_000_000,
        end_ns,
        user_id: Some(format!("u-{}", number % 4).into()),
        models: models.iter().map(|model| (*model).into()).collect(),
        final_output,
        tool_calls: vec![call("lookup", CallStatus::Ok), call("refund", status)],
        user_input: Content::ready(json::parse(&input).unwrap().into_owned()),
        tool_definitions: ["lookup", "refund"].map(definition).into(),
        ..Trajectory::default()
    };
    let judgement = Judgement {
        completion: Completion::RootEnded,
        is_partial: false,
        revision: 0,
        spans: 4,
        now_ns: now_ns(),
        is_passing: false,
    };
    TrajectoryRecord::new(&trajectory, judgement, true)
}

fn info(name: &str, version: u8) -> Arc<EvaluatorInfo> {
    Arc::new(EvaluatorInfo {
        kind: "tool_call_args",
        name: format!("tool_call_args/{name}"),
        threshold: 0.8,
        level: Level::Trace,
        digest: [version * 16 + name.len() as u8; 16],
        case: (name == "refund").then(|| "refund".into()),
        own_version: None,
    })
}

fn evaluation(number: u64, id: u8, name: &str, outcome: Outcome) -> Evaluation {
    let (version, end_ns) = facts(number);
    let mut id = [id; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Evaluation {
        id: EvaluationId(id),
        evaluator: info(name, if version == "1.4.0" { 1 } else { 2 }),
        target: Arc::new(Target {
            trace_id: trace_id(number),
            sender: Default::default(),
            session_id: Some(format!("s-{}", number / 4).into()),
            resource: resource(version),
            agent_name: Some("refunds".into()),
            response: None,
            completion: Completion::RootEnded,
            is_partial: false,
            time_ns: end_ns,
            started_ns: end_ns,
            ended_ns: end_ns,
        }),
        span_id: SpanId([1; 8]),
        outcome,
        revision: 0,
        revises: None,
        supersedes: None,
        judge: None,
    }
}

fn definition(name: &'static str) -> ToolDefinition<'static> {
    ToolDefinition {
        name: name.into(),
        description: "Of an order.".into(),
        input_schema: json::parse(r#"{"type": "object"}"#).unwrap(),
        agent: Some("refunds".into()),
    }
}

fn scored(value: f64) -> Outcome {
    Outcome::Scored(Score {
        value,
        explanation: Explanation::plain("100% as it_should be"),
        details: json::parse(r#"{"why": "so"}"#).unwrap().into_owned(),
        label: None,
    })
}

/// Writes one run with its evaluations: half the runs of 1.5.0 fail `refund`, none of 1.4.0.
pub(super) fn write(store: &Store, number: u64) {
    store.trajectory(run(number));
    let is_fail = number >= RUNS && number.is_multiple_of(2);
    let reason = Reason::NothingToJudge;
    let other = match number % 8 {
        0 => Outcome::NotEvaluable { reason, explanation: "nothing".to_owned() },
        1 => Outcome::Failed { error_type: "timeout", error: "gone".to_owned() },
        _ => scored(1.0),
    };
    let refund = evaluation(number, 1, "refund", scored(if is_fail { 0.3 } else { 0.9 }));
    store.evaluations([refund, evaluation(number, 2, "other", other)].into());
}

pub(super) fn fill(store: &Store) {
    (0..2 * RUNS).for_each(|number| write(store, number));
}
