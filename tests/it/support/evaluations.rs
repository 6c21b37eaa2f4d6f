//! Evaluations to send.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
use prost::Message;
use spanscore_base::model::{
    Completion, Evaluation, EvaluationId, EvaluatorInfo, Explanation, Level, Outcome, Resource,
    Score, SpanId, Target, TraceId,
};
use spanscore_base::value::Value;

/// A resource of that service.
pub(crate) fn resource(service: &str) -> Arc<Resource> {
    let value = any_value::Value::StringValue(service.to_owned());
    let attributes = vec![KeyValue {
        key: "service.name".to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }];
    let encoded = ProtoResource { attributes, ..ProtoResource::default() }.encode_to_vec();
    Arc::new(Resource { encoded, service_name: service.to_owned() })
}

/// The `n`th evaluation, scored; its explanation holds the word `secret`.
pub(crate) fn scored(n: u8, score: f64) -> Evaluation {
    Evaluation {
        id: EvaluationId([n; 16]),
        evaluator: Arc::new(EvaluatorInfo {
            kind: "tool_call_count",
            name: "tool_call_count/frugal".to_owned(),
            threshold: 0.5,
            level: Level::Trace,
            digest: [1; 16],
            case: None,
            own_version: None,
        }),
        target: Arc::new(Target {
            sender: Default::default(),
            trace_id: TraceId([0xaa; 16]),
            session_id: None,
            resource: resource("shop"),
            agent_name: Some("refunds".into()),
            response: None,
            completion: Completion::RootEnded,
            is_partial: false,
            time_ns: 1_735_689_600_000_000_000,
            started_ns: 1_735_689_599_000_000_000,
            ended_ns: 1_735_689_600_000_000_000,
        }),
        span_id: SpanId([0xbb; 8]),
        outcome: Outcome::Scored(Score {
            value: score,
            explanation: Explanation::content("the secret sentence"),
            details: Value::Null,
            label: None,
        }),
        revision: 0,
        revises: None,
        supersedes: None,
        judge: None,
    }
}
