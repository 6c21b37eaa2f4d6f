//! Sample evaluations for the tests of exporters.

use std::sync::Arc;

use spanscore_base::model::*;
use spanscore_base::value::{Map, Value};

fn evaluation(outcome: Outcome) -> Evaluation {
    Evaluation {
        id: EvaluationId([0xe1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        evaluator: Arc::new(EvaluatorInfo {
            kind: "tool_call_args",
            name: "tool_call_args/refund".into(),
            threshold: 1.0,
            level: Level::Trace,
            digest: [7; 16],
            case: None,
            own_version: None,
        }),
        target: Arc::new(Target {
            trace_id: TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap_or_default(),
            sender: Sender::default(),
            session_id: Some("s-1".into()),
            resource: Arc::new(Resource {
                // attributes { key: "service.name" value { string_value: "shop" } }
                encoded: b"\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04shop".to_vec(),
                service_name: "shop".into(),
            }),
            agent_name: Some("refunds".into()),
            response: None,
            completion: Completion::RootEnded,
            is_partial: false,
            time_ns: 1_735_689_600_500_000_000,
            started_ns: 1_735_689_599_000_000_000,
            ended_ns: 1_735_689_600_000_000_000,
        }),
        span_id: SpanId([0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]),
        outcome,
        revision: 1,
        revises: Some(EvaluationId([0xee, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        supersedes: None,
        judge: None,
    }
}

/// Returns a scored evaluation whose explanation quotes an argument.
pub(super) fn scored(value: f64) -> Evaluation {
    let mut details = Map::new();
    details.insert("matched", Value::from(1));
    details.insert("expected", Value::from(2));
    evaluation(Outcome::Scored(Score {
        value,
        explanation: Explanation::content(r#"1 of 2 calls as expected (order "A-17")"#),
        details: Value::Map(details),
        label: None,
    }))
}

/// Returns an evaluation that could not be judged.
pub(super) fn not_evaluable() -> Evaluation {
    evaluation(Outcome::NotEvaluable {
        reason: Reason::ArgumentsNotRecorded,
        explanation: "A-17 has no arguments".into(),
    })
}

/// Returns an evaluation whose evaluator failed.
pub(super) fn failed() -> Evaluation {
    evaluation(Outcome::Failed {
        error_type: "criteria",
        error: "no criteria for order A-17".into(),
    })
}
