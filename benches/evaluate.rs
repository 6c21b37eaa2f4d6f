//! Cost of one evaluation of a ten-call trajectory, for each kind, with the score alone and with
//! everything that an exporter may show.
//!
//! `cargo bench --bench evaluate`, or `-- tool_call` for some. For comparison, UiPath's Python
//! package, measured on ten tool spans: arguments 273 us, count 36 us, order 129 us, output 120 us,
//! all four 557 us of CPU. The budget is a hundredth of that. Kinds with `compat: uipath` read the
//! attributes of the spans themselves, as that package does.
//!
//! Arguments and results are texts that are decoded when first asked for, as they are in a trace;
//! `decoded` leaves that part out, since all evaluators of a trace share it.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use spanscore_base::model::tool_call::Lazy;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::model::{
    CallStatus, Content, Outcome, SpanId, ToolCall, ToolDefinition, Trajectory, Usage, Want,
    WorkBudget,
};
use spanscore_base::otlp::AnyValue;
use spanscore_base::settings::Node;
use spanscore_base::value::{Value, json};
use spanscore_evaluate::{Evaluator, kind};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const TOOLS: [&str; 5] =
    ["search_orders", "get_customer", "check_policy", "issue_refund", "send_email"];

/// Settings of each kind, as JSON; `EXPECTED` stands for ten expected calls, `ARGS`, `COUNTS`,
/// `ORDER`, `OUTPUTS` and `CONTENTS` for the same as UiPath writes them.
const KINDS: &[(&str, &str)] = &[
    ("tool_call_args", r#"{"criteria":{"tool_calls":ARGS}}"#),
    ("tool_call_count", r#"{"criteria":{"tool_calls_count":COUNTS}}"#),
    ("tool_call_order", r#"{"criteria":{"tool_calls_order":ORDER}}"#),
    ("tool_call_output", r#"{"criteria":{"tool_outputs":OUTPUTS}}"#),
    ("tool_call_args", r#"{"compat":"uipath","criteria":{"tool_calls":ARGS}}"#),
    ("tool_call_count", r#"{"compat":"uipath","criteria":{"tool_calls_count":COUNTS}}"#),
    ("tool_call_order", r#"{"compat":"uipath","criteria":{"tool_calls_order":ORDER}}"#),
    ("tool_call_output", r#"{"compat":"uipath","criteria":{"tool_outputs":CONTENTS}}"#),
    ("tool_error", "{}"),
    ("tool_efficiency", "{}"),
    ("tool_trajectory", r#"{"criteria":{"tool_calls":EXPECTED}}"#),
    ("tool_trajectory", r#"{"match_mode":"any_order","criteria":{"tool_calls":EXPECTED}}"#),
    ("tool_correctness", r#"{"criteria":{"tool_calls":EXPECTED}}"#),
    ("tool_correctness", r#"{"match_mode":"names_and_args","criteria":{"tool_calls":EXPECTED}}"#),
    ("tool_correctness", r#"{"match_mode":"call_accuracy","criteria":{"tool_calls":EXPECTED}}"#),
    ("tool_call_validity", "{}"),
    ("tool_call_validity", r#"{"schema":"full"}"#),
    ("tool_name_reliability", "{}"),
    ("tool_description_reliability", "{}"),
    (
        "argument_correctness",
        r#"{"tool_name":"issue_refund","expected_arguments":{"order_id":"ORD-4713"}}"#,
    ),
    ("argument_grounding", "{}"),
    (
        "tool_policy",
        r#"{"forbidden":["delete"],"required_before":{"issue_refund":["check_policy"]}}"#,
    ),
    ("tool_loop", "{}"),
    ("tool_recovery", "{}"),
    ("tool_budget", r#"{"max_calls":20,"max_latency":"5s","max_total_tokens":100000}"#),
    ("output_rules", r#"{"bundle":"safety"}"#),
    ("exact_match", r#"{"criteria":{"expected_output":"All ten orders were refunded."}}"#),
    (
        "exact_match",
        r#"{"target":"tool_results","path":"status","criteria":{"expected_output":"ok"}}"#,
    ),
    ("contains", r#"{"criteria":{"search_text":"refunded"}}"#),
    ("json_similarity", r#"{"criteria":{"expected_output":"All ten orders are refunded."}}"#),
];

fn arguments(index: usize) -> String {
    format!(
        r#"{{"order_id":"ORD-{}","amount":{}.5,"reason":"damaged on arrival","notify":true}}"#,
        4710 + index,
        index * 10
    )
}

fn result(index: usize) -> String {
    format!(
        r#"{{"status":"ok","content":"refund {index}","order":{{"id":"ORD-{}","n":2}}}}"#,
        4710 + index
    )
}

/// A list of what is written for each call.
fn list(write: impl Fn(&str, usize) -> String) -> String {
    let calls = (0..10).map(|index| write(TOOLS[index % 5], index));
    format!("[{}]", calls.collect::<Vec<_>>().join(","))
}

/// Settings with the expected calls filled in.
fn filled(settings: &str) -> String {
    let calls =
        |key: &str| list(|name, at| format!(r#"{{"name":"{name}","{key}":{}}}"#, arguments(at)));
    let outputs = list(|name, at| format!(r#"{{"name":"{name}","output":{}}}"#, result(at)));
    let contents = list(|name, at| format!(r#"{{"name":"{name}","output":"refund {at}"}}"#));
    let counts: Vec<_> = TOOLS.iter().map(|name| format!(r#""{name}":["=",2]"#)).collect();
    settings
        .replace("EXPECTED", &calls("arguments"))
        .replace("ARGS", &calls("args"))
        .replace("COUNTS", &format!("{{{}}}", counts.join(",")))
        .replace("ORDER", &list(|name, _| format!("{name:?}")))
        .replace("OUTPUTS", &outputs)
        .replace("CONTENTS", &contents)
}

struct Texts {
    calls: Vec<(String, String)>,
    schema: &'static str,
}

impl Texts {
    fn new() -> Self {
        Self {
            calls: (0..10).map(|index| (arguments(index), result(index))).collect(),
            schema: r#"{"type":"object","properties":{
                "order_id":{"type":"string","description":"Order"},
                "amount":{"type":"number"},"reason":{"type":"string"},
                "notify":{"type":"boolean"}},"required":["order_id"]}"#,
        }
    }

    fn trajectory(&self, decoded: bool) -> Trajectory<'_> {
        let definition = |name: &&'static str| ToolDefinition {
            name: (*name).into(),
            description: "Does what it says.".into(),
            input_schema: json::parse(self.schema).unwrap(),
            agent: None,
        };
        Trajectory {
            tool_calls: self
                .calls
                .iter()
                .enumerate()
                .map(|call| tool_call(call, decoded))
                .collect(),
            tool_definitions: TOOLS.iter().map(definition).collect(),
            user_input: Content::ready("Refund the damaged orders ORD-4710 to ORD-4719".into()),
            usage: Usage { input_tokens: Some(9000), output_tokens: Some(700), ..Usage::default() },
            final_output: Content::ready("All ten orders were refunded.".into()),
            kept_spans: self.calls.iter().enumerate().map(kept_span).collect(),
            end_ns: 10_000_000,
            effort: WorkBudget::new(u64::MAX),
            ..Trajectory::default()
        }
    }
}

fn tool_call(
    (index, (arguments, result)): (usize, &(String, String)),
    decoded: bool,
) -> ToolCall<'_> {
    ToolCall {
        name: TOOLS[index % 5].into(),
        arguments: content(arguments, decoded),
        result: content(result, decoded),
        status: CallStatus::Ok,
        start_ns: index as u64 * 1_000_000,
        end_ns: index as u64 * 1_000_000 + 500_000,
        ..ToolCall::default()
    }
}

fn content(text: &str, decoded: bool) -> Content<'_> {
    match decoded {
        true => Content::ready(json::parse(text).unwrap()),
        false => Content::Recorded(Lazy::new(move || json::parse(text).unwrap())),
    }
}

/// The same call as `compat: uipath` reads it.
fn kept_span((index, (arguments, result)): (usize, &(String, String))) -> KeptSpan<'_> {
    KeptSpan {
        span_id: SpanId([1; 8]),
        start_ns: index as u64 * 1_000_000,
        end_ns: index as u64 * 1_000_000 + 500_000,
        attributes: vec![
            ("tool.name", AnyValue::String(TOOLS[index % 5])),
            ("input.value", AnyValue::String(arguments)),
            ("output.value", AnyValue::String(result)),
        ],
    }
}

fn build(name: &str, settings: &str) -> Evaluator {
    let settings = filled(settings);
    let settings: Value<'_> = json::parse(&settings).unwrap();
    (kind(name).unwrap().build)(&Node::from_value(&settings)).unwrap()
}

fn evaluate(c: &mut Criterion) {
    let texts = Texts::new();
    for (name, settings) in KINDS {
        let evaluator = build(name, settings);
        let short: String = settings.chars().filter(|c| !"{}\"".contains(*c)).take(40).collect();
        let mut group = c.benchmark_group(format!("{name} {short}").trim_end().to_owned());
        let trajectory = texts.trajectory(true);
        let outcome = evaluator.as_code().unwrap().evaluate(&trajectory, Want::SCORE);
        assert!(matches!(outcome, Outcome::Scored(_)), "{name} {settings}: {outcome:?}");
        group.bench_function("decoded, score", |b| {
            b.iter(|| {
                trajectory.effort.begin(0);
                black_box(
                    evaluator.as_code().unwrap().evaluate(black_box(&trajectory), Want::SCORE),
                )
            });
        });
        group.bench_function("decoded, all", |b| {
            b.iter(|| {
                trajectory.effort.begin(0);
                black_box(evaluator.as_code().unwrap().evaluate(black_box(&trajectory), Want::ALL))
            });
        });
        group.bench_function("from text, score", |b| {
            b.iter_batched_ref(
                || texts.trajectory(false),
                |trajectory| {
                    black_box(evaluator.as_code().unwrap().evaluate(trajectory, Want::SCORE))
                },
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
