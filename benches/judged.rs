//! What a question to a judge costs before it leaves: the record read from the trajectory, searched
//! for secrets and attacks, and laid out.
//!
//! `cargo bench --bench judged`. The floor is 50 MB of prompt a second. `cut` is a run of which
//! only a part fits; its bytes are those of the run. `settled` asks nothing: code knows all.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spanscore::evaluate::inquiry::{Inquired, MarkKey, PromptRoom};
use spanscore::evaluate::{Evaluator, Want, kind};
use spanscore::model::{Content, Effort, ToolCall, Trajectory};
use spanscore::settings::Node;
use spanscore::value::{Value, json};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A run of so many calls, each with a result of about so many bytes.
fn trajectory(calls: u64, result_bytes: usize) -> Trajectory<'static> {
    let row = |n: u64| {
        format!(
            r#"{{"order_id":"ORD-{n}","status":"shipped","total":129.5,"note":"left at the door"}}"#
        )
    };
    let call = |at: u64| {
        let rows = (0..).map(row).take(result_bytes / row(0).len() + 1);
        let result = format!("[{}]", rows.collect::<Vec<_>>().join(","));
        let arguments = r#"{"customer":"cus-77","query":"orders of the last week"}"#;
        ToolCall {
            name: "search_orders".into(),
            arguments: Content::ready(json::parse(arguments).unwrap()),
            result: Content::ready(json::parse(&result).unwrap().into_owned()),
            start_ns: at * 10,
            end_ns: at * 10 + 5,
            ..ToolCall::default()
        }
    };
    Trajectory {
        user_input: Content::ready(Value::from("Where are the orders of the last week of cus-77?")),
        final_output: Content::ready(Value::from("They are all on their way.")),
        tool_calls: (1..=calls).map(call).collect(),
        ..Trajectory::default()
    }
}

fn evaluator(name: &str, settings: &str) -> Box<dyn Evaluator> {
    let settings = Node::from_value(&json::parse(settings).unwrap());
    (kind(name).unwrap().build)(&settings).unwrap()
}

/// Asks, and renders; gives the bytes of the prompt.
fn ask(evaluator: &dyn Evaluator, run: &mut Trajectory<'_>, room: &PromptRoom) -> usize {
    run.effort = Effort::default();
    match evaluator.inquire(run, 0.5, Want::ALL).unwrap() {
        Inquired::Known(_) | Inquired::External(_) => 0,
        Inquired::Asked(inquiry) => inquiry.prompt(room).map_or(0, |prompt| prompt.user.len()),
    }
}

fn judged(criterion: &mut Criterion) {
    let room = PromptRoom {
        evidence_tokens: 12_000,
        bytes_per_token: 3.5,
        withholds_injections: false,
        window: 0,
        mark_key: MarkKey([7; 32]),
    };
    let plain = evaluator("helpfulness", r#"{"judge":"a","redact":"none"}"#);
    let secrets = evaluator("helpfulness", r#"{"judge":"a"}"#);
    let pii = evaluator("helpfulness", r#"{"judge":"a","redact":"secrets_and_pii"}"#);
    let settled = evaluator("tool_argument_hallucination", r#"{"judge":"a"}"#);
    let mut group = criterion.benchmark_group("judged");
    for (name, evaluator, calls, bytes) in [
        ("ten calls/redact: none", &plain, 10, 3_000),
        ("ten calls/redact: secrets", &secrets, 10, 3_000),
        ("ten calls/redact: secrets_and_pii", &pii, 10, 3_000),
        ("small/redact: secrets", &secrets, 2, 200),
        ("cut/redact: secrets", &secrets, 20, 20_000),
        ("settled", &settled, 2, 200),
    ] {
        let mut run = trajectory(calls, bytes);
        let shown = ask(&**evaluator, &mut run, &room);
        let bytes = if name.starts_with("cut") { calls * bytes as u64 } else { shown as u64 };
        if bytes > 0 {
            group.throughput(Throughput::Bytes(bytes));
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(ask(&**evaluator, &mut run, &room)));
        });
    }
    group.finish();
}

criterion_group!(benches, judged);
criterion_main!(benches);
