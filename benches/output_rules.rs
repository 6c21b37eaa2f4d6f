//! Cost of `output_rules`: a typical 1 kB answer per bundle, and texts built to be slow.
//!
//! The source's engine takes, for the same kind of text, 20 µs (completeness), 36 µs (relevance),
//! 21 µs (safety), 2.4 µs (cost) and 80 µs (all four). Texts vary from call to call, so that no
//! scan is found again. The slow texts come in two sizes: the time per byte must stay the same.
//! `cargo bench --bench output_rules -- --once safety/default 100` judges the typical texts that
//! often and does nothing else, for counting instructions.

#![expect(clippy::expect_used, reason = "a benchmark of wrong settings shall stop")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use spanscore_base::model::{Content, Resource, Trajectory, Usage, WorkBudget};
use spanscore_base::settings::Node;
use spanscore_base::value::json;
use spanscore_evaluate::kinds::outputs::output_rules;
use spanscore_evaluate::{Evaluator, Want};

const PROSE: &str = "The carrier expects delivery within 4 business days, and the label is in the \
    attachment. You can start a return from the orders page in your account at any time. Refunds \
    reach the original payment method after 72 hours, unless the bank takes longer. Please keep \
    the packaging until the return is confirmed by the warehouse. I have opened a case with the \
    shipping team for you and asked them to check the address. The warranty covers hardware faults \
    for 24 months from the day of purchase. A court will usually enforce such a clause if it is \
    written in plain words. Operating costs rose by 12 percent because of hiring in the second \
    half of the year. The retry loop needs an upper bound and jitter, otherwise every client \
    retries at once. Extract the validation into a helper and test it separately from the handler. \
    Humidity stays near 60 percent through the evening, with light wind from the west. Book the \
    museum tickets online to avoid the queue, and take the early train if you can manage it. ";

const COMPAT: [(&str, &str); 2] = [("default", "null"), ("iris", "\"iris\"")];

fn evaluator(settings: &str) -> Evaluator {
    let node = Node::from_value(&json::parse(settings).expect("settings are JSON"));
    (output_rules::KIND.build)(&node).expect("settings are valid")
}

fn trajectory(output: String) -> Trajectory<'static> {
    Trajectory {
        final_output: Content::ready(output.into()),
        user_input: Content::ready("When does my order arrive and how do I return it?".into()),
        cost: Some(0.02),
        usage: Usage { input_tokens: Some(900), output_tokens: Some(250), ..Usage::default() },
        resource: Arc::new(Resource::default()),
        effort: WorkBudget::new(u64::MAX),
        ..Trajectory::default()
    }
}

fn typical_texts() -> Vec<Trajectory<'static>> {
    (0..256)
        .map(|shift| {
            let start = shift * 3 % 256;
            let text: String = PROSE.chars().cycle().skip(start).take(1000).collect();
            trajectory(format!("{shift:03} {text}"))
        })
        .collect()
}

fn bundle(bundle: &str, compat: &str) -> Evaluator {
    let expected = r#"{"expected": "the order arrives within 4 business days"}"#;
    evaluator(&format!(r#"{{"bundle": "{bundle}", "compat": {compat}, "criteria": {expected}}}"#))
}

fn typical(c: &mut Criterion) {
    let texts = typical_texts();
    let mut group = c.benchmark_group("output_rules/1kB");
    for name in ["completeness", "relevance", "safety", "cost", "all"] {
        for (behaviour, compat) in COMPAT {
            let evaluator = bundle(name, compat);
            for (what, want) in [("score", Want::SCORE), ("details", Want::ALL)] {
                let mut next = 0;
                group.bench_function(format!("{name}/{behaviour}/{what}"), |b| {
                    b.iter(|| {
                        next = (next + 1) % texts.len();
                        texts[next].effort.begin(0);
                        black_box(evaluator.as_code().map(|code| code.evaluate(&texts[next], want)))
                    });
                });
            }
        }
    }
    group.finish();
}

fn slow(c: &mut Criterion) {
    let mut group = c.benchmark_group("output_rules/slow");
    group.sample_size(10);
    let safety = r#"{"bundle": "safety", "text_bytes_max": 16777216}"#;
    let iris = r#"{"bundle": "safety", "compat": "iris", "text_bytes_max": 16777216}"#;
    let nested = r#"{"bundle": "custom", "text_bytes_max": 16777216, "custom_rules":
        [{"name": "nested", "type": "regex_no_match", "config": {"pattern": "^(a+)+$"}}]}"#;
    let all = r#"{"bundle": "all", "text_bytes_max": 16777216,
        "criteria": {"expected": "within 4 business days"}}"#;
    let mut cases = vec![
        ("mrn_spaces", safety, "MRN", " "),
        ("mrn_spaces_iris", iris, "MRN", " "),
        ("nested_repeats", nested, "", "a"),
        ("prose", safety, "", PROSE),
    ];
    cases.extend(
        [
            ("spaces", " "),
            ("email_dots", "a."),
            ("email_ats", "a@"),
            ("dan", "DAN "),
            ("numbers", "1234 "),
            ("digits", "5"),
            ("web_token", "eyJ"),
            ("private_key", "-----BEGIN "),
            ("brackets", "["),
            ("base64", "aWdub3Jl"),
            ("chinese", "漢字"),
            ("zero_width", "\u{200b}"),
            ("one_word", "x"),
            ("arabic", "هذا نص عربي عادي "),
            ("hangul", "안녕하세요 여러분 "),
            ("assignments", "token="),
            ("emoji", "🙂"),
            ("hidden_cyrillic", "\u{200b}а"),
        ]
        .map(|(name, unit)| (name, all, "", unit)),
    );
    for (name, settings, head, unit) in cases {
        let evaluator = evaluator(settings);
        for bytes in [1 << 20, 10 << 20] {
            let text = format!("{head}{}!", unit.repeat(bytes / unit.len()));
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(format!("{name}/{bytes}"), |b| {
                b.iter_batched(
                    || (),
                    |()| {
                        let trajectory = trajectory(text.clone());
                        black_box(
                            evaluator.as_code().map(|code| code.evaluate(&trajectory, Want::SCORE)),
                        )
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
    group.finish();
}

fn once(case: &str, times: usize) {
    let texts = typical_texts();
    let (name, behaviour) = case.split_once('/').expect("a case such as `safety/default`");
    let compat = COMPAT.iter().find(|known| known.0 == behaviour).expect("`default` or `iris`").1;
    let evaluator = bundle(name, compat);
    for text in texts.iter().cycle().take(times) {
        text.effort.begin(0);
        black_box(evaluator.as_code().map(|code| code.evaluate(text, Want::SCORE)));
    }
}

criterion_group!(benches, typical, slow);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some([_, case, times, ..]) =
        arguments.iter().position(|argument| argument == "--once").map(|at| &arguments[at..])
    {
        return once(case, times.parse().expect("a number of times"));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
