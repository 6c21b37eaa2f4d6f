//! Cost of a question to a judge before it leaves: the record read from the trajectory, searched
//! for secrets and attacks, and laid out.
//!
//! `cargo bench --bench judged`. The floor is 50 MB of prompt a second. `cut` is a run of which
//! only a part fits; its bytes are those of the run. `settled` asks nothing: code knows all.
//!
//! `judged sizes` has runs from what recorded frameworks mostly hold (4 KB) to the largest that are
//! asked about, with all that is done to each; bytes are those of the run. `secrets everywhere` has
//! a password of its own in each call, repeated in its result; `in windows` does not fit into one
//! request, and each of its calls is asked about.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spanscore_base::model::{Content, ToolCall, Trajectory, WorkBudget};
use spanscore_base::settings::Node;
use spanscore_base::value::{Value, json};
use spanscore_evaluate::inquiry::{Inquired, MarkKey, PromptRoom};
use spanscore_evaluate::{Evaluator, Want, kind};

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

fn evaluator(name: &str, settings: &str) -> Evaluator {
    let settings = Node::from_value(&json::parse(settings).unwrap());
    (kind(name).unwrap().build)(&settings).unwrap()
}

/// Asks, and renders; gives the bytes of the prompt.
fn ask(evaluator: &Evaluator, run: &mut Trajectory<'_>, room: &PromptRoom) -> usize {
    run.effort = WorkBudget::default();
    match evaluator.as_judged().unwrap().inquire(run, 0.5, Want::ALL) {
        Inquired::Known(_) => 0,
        Inquired::Asked(inquiry) => inquiry.prompt(room).map_or(0, |prompt| prompt.user.len()),
    }
}

fn judged(criterion: &mut Criterion) {
    let room = room();
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
        let shown = ask(evaluator, &mut run, &room);
        let bytes = if name.starts_with("cut") { calls * bytes as u64 } else { shown as u64 };
        if bytes > 0 {
            group.throughput(Throughput::Bytes(bytes));
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(ask(evaluator, &mut run, &room)));
        });
    }
    group.finish();
}

/// Settings of the judge's record.
fn room() -> PromptRoom {
    PromptRoom {
        evidence_tokens: 12_000,
        bytes_per_token: 3.5,
        answer_tokens: 4_096,
        withholds_injections: false,
        withheld: Vec::new(),
        window: 0,
        mark_key: MarkKey([7; 32]),
    }
}

/// A run of so many calls with so many bytes in all, half of them prose.
fn long_run(calls: u64, bytes: usize, with_secrets: bool) -> Trajectory<'static> {
    let prose = "The customer wrote on Tuesday that the parcel had not arrived, and asked for a \
                 replacement to be sent to the office. ";
    let half = bytes / usize::try_from(calls).unwrap() / 2;
    let mut run = trajectory(calls, half);
    for (call, n) in run.tool_calls.iter_mut().zip(0..) {
        let secret = if with_secrets { format!("pw-{n:06}-kept") } else { String::new() };
        let text = prose.repeat(half / prose.len() + 1);
        let rows = call.result.value().unwrap().to_string();
        let result = format!(r#"{{"note":"{text} {secret}","rows":{rows}}}"#);
        call.result = Content::ready(json::parse(&result).unwrap().into_owned());
        let arguments = format!(r#"{{"customer":"cus-77","password":"{secret}"}}"#);
        call.arguments = Content::ready(json::parse(&arguments).unwrap().into_owned());
    }
    run
}

/// A run whose arguments were made up and do not fit into one request.
fn made_up(calls: u64, bytes: usize) -> Trajectory<'static> {
    let each = bytes / usize::try_from(calls).unwrap();
    let mut run = trajectory(calls, each / 2);
    for (call, n) in run.tool_calls.iter_mut().zip(0..) {
        let words = format!("a letter number {n} to somebody ").repeat(each / 70);
        let arguments = format!(r#"{{"to":"p{n}@made-up.example","text":"{words}"}}"#);
        call.arguments = Content::ready(json::parse(&arguments).unwrap().into_owned());
    }
    run
}

fn sizes(criterion: &mut Criterion) {
    let room = room();
    let mut group = criterion.benchmark_group("judged sizes");
    group.sample_size(10);
    let mut measure = |name: String, evaluator: &Evaluator, mut run: Trajectory<'_>, bytes| {
        assert!(ask(evaluator, &mut run, &room) > 0, "{name} is asked about");
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(ask(evaluator, &mut run, &room)));
        });
    };
    for redact in ["none", "secrets", "secrets_and_pii"] {
        let settings = format!(r#"{{"judge":"a","redact":"{redact}"}}"#);
        let evaluator = evaluator("helpfulness", &settings);
        for (calls, kilobytes) in [(3, 4), (10, 32), (40, 400), (100, 4_000)] {
            let bytes = kilobytes << 10;
            let run = long_run(calls, usize::try_from(bytes).unwrap(), false);
            measure(format!("{kilobytes} KB/{redact}"), &evaluator, run, bytes);
        }
        let run = long_run(100, 400 << 10, true);
        measure(format!("secrets everywhere/{redact}"), &evaluator, run, 400 << 10);
        let evaluator = self::evaluator("tool_argument_hallucination", &settings);
        let run = made_up(60, 400 << 10);
        measure(format!("in windows/{redact}"), &evaluator, run, 400 << 10);
    }
    group.finish();
}

criterion_group!(benches, judged, sizes);
criterion_main!(benches);
