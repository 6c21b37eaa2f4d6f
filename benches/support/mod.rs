//! Agent traces as an OpenInference instrumentation sends them, for benchmarks: 12 spans each, one
//! root, four model calls with 2 to 4 kB of messages, six tool calls, one retrieval.

use std::sync::LazyLock;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

/// Spans of one trace.
pub(crate) const SPANS_PER_TRACE: usize = 12;

/// Words as answers and logs have them; `error`, `failed` and their like are ordinary there.
const WORDS: [&str; 36] = [
    "order", "refund", "the", "parcel", "customer", "of", "status", "search", "please", "with",
    "agent", "tool", "should", "then", "invoice", "date", "city", "because", "weather", "flight",
    "an", "result", "nearest", "retry", "error", "failed", "timeout", "not", "found", "4711", "17",
    "and", "no", "warehouse", "2026-03-09", "confirmed",
];
/// Prose that texts are cut from, bytes: far more than the caches of a processor hold, and a text
/// that begins at the same place twice comes once in a hundred thousand.
const PROSE_BYTES: usize = 32 << 20;
const TOOLS: [&str; 6] =
    ["find_order", "weather_at", "refund_order", "send_mail", "read_page", "sum_up"];

/// An encoded request of that many traces; the same number and seed give the same bytes.
pub(crate) fn request(traces: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let spans = (0..traces).flat_map(|_| trace(&mut random)).collect();
    let scope = InstrumentationScope {
        name: "openinference.instrumentation.langchain".into(),
        version: "0.1.60".into(),
        ..Default::default()
    };
    let resource = [
        ("service.name", "shop-agent"),
        ("service.version", "2.3.0"),
        ("service.instance.id", "0b5bb7ad-7a42-4a5c-9a1e-1f51b3c2d9f0"),
        ("deployment.environment.name", "production"),
        ("host.name", "shop-agent-5d9f7b-qx2lm"),
        ("telemetry.sdk.language", "python"),
        ("telemetry.sdk.name", "opentelemetry"),
        ("telemetry.sdk.version", "1.39.0"),
    ];
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: resource.map(|(key, value)| text(key, value)).into(),
                ..Default::default()
            }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..Default::default() }],
            ..Default::default()
        }],
    };
    request.encode_to_vec()
}

fn trace(random: &mut Random) -> Vec<Span> {
    let session = format!("session-{:016x}", random.next());
    let mut trace_id = random.next().to_be_bytes().to_vec();
    trace_id.extend(random.next().to_be_bytes());
    let root_id = random.next().to_be_bytes().to_vec();
    let mut start = 1_790_000_000_000_000_000;
    let mut bodies: Vec<(String, Vec<KeyValue>)> = Vec::new();
    for step in 0..4 {
        bodies.push(("ChatCompletion".into(), model_call(random, &session)));
        for _ in 0..[2, 2, 1, 1][step] {
            let tool = TOOLS[random.below(TOOLS.len())];
            bodies.push((tool.into(), tool_call(random, tool, &session)));
        }
    }
    bodies.push(("retrieve".into(), retrieval(random, &session)));
    bodies.push(("agent".into(), agent(random, &session)));
    let last = bodies.len() - 1;
    let span = |(at, (name, attributes)): (usize, (String, Vec<KeyValue>))| {
        start += 1_000_000;
        let root = at == last;
        Span {
            trace_id: trace_id.clone(),
            span_id: if root { root_id.clone() } else { random.next().to_be_bytes().to_vec() },
            parent_span_id: if root { Vec::new() } else { root_id.clone() },
            name,
            kind: 1,
            start_time_unix_nano: start,
            end_time_unix_nano: start + 900_000,
            attributes,
            status: Some(Status { code: 1, ..Default::default() }),
            flags: 0x101,
            ..Default::default()
        }
    };
    bodies.into_iter().enumerate().map(span).collect()
}

fn model_call(random: &mut Random, session: &str) -> Vec<KeyValue> {
    let (question, answer) = (1_300 + random.below(1_300), 500 + random.below(600));
    let call = "llm.output_messages.0.message.tool_calls.0.tool_call";
    vec![
        text("openinference.span.kind", "LLM"),
        text("llm.model_name", "gpt-4o-2024-08-06"),
        text("llm.provider", "openai"),
        text("llm.invocation_parameters", r#"{"temperature":0.2,"max_tokens":1024}"#),
        text("llm.input_messages.0.message.role", "system"),
        text("llm.input_messages.0.message.content", random.prose(300)),
        text("llm.input_messages.1.message.role", "user"),
        text("llm.input_messages.1.message.content", random.prose(question)),
        text("llm.output_messages.0.message.role", "assistant"),
        text("llm.output_messages.0.message.content", random.prose(answer)),
        text(&format!("{call}.function.name"), TOOLS[random.below(TOOLS.len())]),
        int("llm.token_count.prompt", 400),
        int("llm.token_count.completion", 120),
        int("llm.token_count.total", 520),
        text("session.id", session),
    ]
}

fn tool_call(random: &mut Random, tool: &str, session: &str) -> Vec<KeyValue> {
    vec![
        text("openinference.span.kind", "TOOL"),
        text("tool.name", tool),
        text("tool.description", "Looks something up for the agent"),
        text("input.value", format!(r#"{{"query":"{}"}}"#, random.prose(280))),
        text("input.mime_type", "application/json"),
        text("output.value", random.prose(300)),
        text("session.id", session),
    ]
}

fn retrieval(random: &mut Random, session: &str) -> Vec<KeyValue> {
    vec![
        text("openinference.span.kind", "RETRIEVER"),
        text("input.value", random.prose(120)),
        text("retrieval.documents.0.document.content", random.prose(600)),
        text("session.id", session),
    ]
}

fn agent(random: &mut Random, session: &str) -> Vec<KeyValue> {
    vec![
        text("openinference.span.kind", "AGENT"),
        text("input.value", random.prose(400)),
        text("output.value", random.prose(700)),
        text("session.id", session),
        text("user.id", "user-17"),
    ]
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn int(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

/// A small repeatable generator (xorshift with multiplication).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }

    fn prose(&mut self, len: usize) -> String {
        static PROSE: LazyLock<String> = LazyLock::new(|| {
            let mut random = Random(7);
            let mut prose = String::with_capacity(PROSE_BYTES + 12);
            while prose.len() < PROSE_BYTES {
                prose.push_str(WORDS[random.below(WORDS.len())]);
                prose.push(' ');
            }
            prose
        });
        let start = self.below(PROSE_BYTES - len);
        PROSE[start..start + len].to_owned()
    }
}
