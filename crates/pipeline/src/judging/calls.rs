//! Spans of our own telemetry for requests to judges, by the semantic conventions for GenAI clients
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>). They include prompt and
//! reply only if configured.

use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use spanscore_ask::judge::{CallTexts, CallWatch, JudgeCall};
use spanscore_telemetry::OwnSpans;

/// Outcome of an answered request.
const REPLIED: &str = "replied";

/// Returns an observer that records a span for each request.
pub(super) fn watch(spans: OwnSpans) -> CallWatch {
    let count = AtomicU64::new(0);
    std::sync::Arc::new(move |call| {
        spans.record(span_of(&call, count.fetch_add(1, Ordering::Relaxed)));
    })
}

/// Builds the span of a request; `number` makes its id unique in this process. All requests for one
/// evaluation form a trace with the evaluation's id.
fn span_of(call: &JudgeCall, number: u64) -> Span {
    let mut hash = Sha256::new();
    hash.update(call.evaluation.0);
    hash.update(call.start_ns.to_be_bytes());
    hash.update(number.to_be_bytes());
    let link = Link {
        trace_id: call.trace_id.0.to_vec(),
        span_id: call.span_id.0.to_vec(),
        ..Link::default()
    };
    let status = match call.outcome {
        REPLIED => Status::default(),
        failed => Status { message: failed.to_owned(), code: StatusCode::Error as i32 },
    };
    Span {
        trace_id: call.evaluation.0.to_vec(),
        span_id: hash.finalize()[..8].to_vec(),
        name: format!("chat {}", call.model),
        kind: SpanKind::Client as i32,
        start_time_unix_nano: call.start_ns,
        end_time_unix_nano: call.end_ns,
        attributes: attributes(call),
        links: vec![link],
        status: Some(status),
        ..Span::default()
    }
}

fn attributes(call: &JudgeCall) -> Vec<KeyValue> {
    let text = |key: &str, text: &str| pair(key, Value::StringValue(text.to_owned()));
    let int = |key: &str, number: u64| {
        pair(key, Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX)))
    };
    let mut all = vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.provider.name", call.provider),
        text("gen_ai.request.model", &call.model),
        int("gen_ai.request.max_tokens", u64::from(call.max_tokens)),
        text("spanscore.judge.name", &call.judge),
        text("spanscore.evaluator.name", &call.evaluator),
        text("spanscore.evaluation.id", &call.evaluation.to_string()),
        pair("spanscore.judge.cost_usd", Value::DoubleValue(call.cost_usd)),
    ];
    if let Ok(uri) = call.base_url.reveal().parse::<http::Uri>() {
        all.extend(uri.host().map(|host| text("server.address", host)));
        all.extend(uri.port_u16().map(|port| int("server.port", u64::from(port))));
    }
    if call.outcome == REPLIED {
        all.push(int("gen_ai.usage.input_tokens", call.input_tokens));
        all.push(int("gen_ai.usage.cache_read.input_tokens", call.cached_tokens));
        all.push(int("gen_ai.usage.output_tokens", call.output_tokens));
    } else {
        all.push(text("error.type", call.outcome));
    }
    if let Some(content) = &call.content {
        let messages = content_of(content).into_iter();
        all.extend(messages.map(|(key, value)| text(key, &value.to_string())));
    }
    all
}

/// Builds the attributes of prompt and reply: messages as JSON.
fn content_of(content: &CallTexts) -> Vec<(&'static str, Json)> {
    let parts = |text: &str| json!([{"type": "text", "content": text}]);
    let mut all = vec![
        ("gen_ai.system_instructions", parts(&content.system)),
        ("gen_ai.input.messages", json!([{"role": "user", "parts": parts(&content.user)}])),
    ];
    if let Some((reply, finish)) = &content.reply {
        let message = json!({"role": "assistant", "parts": parts(reply), "finish_reason": finish});
        all.push(("gen_ai.output.messages", json!([message])));
    }
    all
}

fn pair(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
