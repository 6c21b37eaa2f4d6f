//! What one evaluation of a ten-call trajectory costs, for each kind, with the score alone and with
//! everything that an exporter may show.
//!
//! `cargo bench --bench evaluate`. For comparison, UiPath's Python package, measured on ten tool
//! spans: arguments 273 us, count 36 us, order 129 us, output 120 us, all four 557 us of CPU. The
//! budget is a hundredth of that.
//!
//! Arguments and results are texts that are decoded when first asked for, as they are in a trace;
//! `decoded` leaves that part out, since all evaluators of a trace share it.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use spanscore::evaluate::{Evaluator, kind};
use spanscore::model::tool_call::Lazy;
use spanscore::model::{CallStatus, Content, ToolCall, ToolDefinition, Trajectory, Usage, Want};
use spanscore::settings::Node;
use spanscore::value::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TOOLS: [&str; 5] =
    ["search_orders", "get_customer", "check_policy", "issue_refund", "send_email"];

/// Settings of each kind, as JSON; `EXPECTED` stands for ten expected calls.
const KINDS: &[(&str, &str)] = &[
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
        r#"{{"status":"ok","order":{{"id":"ORD-{}","items":[{{"sku":"A-1","n":2}}]}}}}"#,
        4710 + index
    )
}

fn expected() -> String {
    let call = |index: usize| {
        format!(r#"{{"name":"{}","arguments":{}}}"#, TOOLS[index % 5], arguments(index))
    };
    format!("[{}]", (0..10).map(call).collect::<Vec<_>>().join(","))
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
        let content = |text: &'_ str| -> Content<'_> {
            // Borrowed for as long as the texts live.
            match decoded {
                true => Content::ready(json::parse(text).unwrap().into_owned()),
                false => {
                    let text = text.to_owned();
                    Content::Recorded(Lazy::new(move || json::parse(&text).unwrap().into_owned()))
                }
            }
        };
        let call = |(index, (arguments, result)): (usize, &(String, String))| ToolCall {
            name: TOOLS[index % 5].into(),
            arguments: content(arguments),
            result: content(result),
            status: CallStatus::Ok,
            start_ns: index as u64 * 1_000_000,
            end_ns: index as u64 * 1_000_000 + 500_000,
            ..ToolCall::default()
        };
        let definition = |name: &&'static str| ToolDefinition {
            name: (*name).into(),
            description: "Does what it says.".into(),
            input_schema: json::parse(self.schema).unwrap(),
        };
        Trajectory {
            tool_calls: self.calls.iter().enumerate().map(call).collect(),
            tool_definitions: TOOLS.iter().map(definition).collect(),
            user_input: Content::ready("Refund the damaged orders ORD-4710 to ORD-4719".into()),
            usage: Usage { input_tokens: Some(9000), output_tokens: Some(700), ..Usage::default() },
            end_ns: 10_000_000,
            ..Trajectory::default()
        }
    }
}

fn build(name: &str, settings: &str) -> Box<dyn Evaluator> {
    let settings = settings.replace("EXPECTED", &expected());
    let settings: Value<'_> = json::parse(&settings).unwrap();
    (kind(name).unwrap().build)(&Node::from_value(&settings)).unwrap()
}

fn evaluate(c: &mut Criterion) {
    let texts = Texts::new();
    for (name, settings) in KINDS {
        let evaluator = build(name, settings);
        let short: String = settings.chars().filter(|c| !"{}\"".contains(*c)).take(24).collect();
        let mut group = c.benchmark_group(format!("{name} {short}").trim_end().to_owned());
        let trajectory = texts.trajectory(true);
        group.bench_function("decoded, score", |b| {
            b.iter(|| black_box(evaluator.evaluate(black_box(&trajectory), Want::SCORE)));
        });
        group.bench_function("decoded, all", |b| {
            b.iter(|| black_box(evaluator.evaluate(black_box(&trajectory), Want::ALL)));
        });
        group.bench_function("from text, score", |b| {
            b.iter_batched_ref(
                || texts.trajectory(false),
                |trajectory| black_box(evaluator.evaluate(trajectory, Want::SCORE)),
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
