//! What the worst trace costs that a search finds, for each kind of evaluator.
//!
//! `cargo bench --bench work -- [KIND ...]` looks for the trace that takes most per byte: from
//! random traces ([`shapes`]) it goes on with those whose change costs more, at 64 KiB. The worst
//! is then made at 1, 4 and 16 MB and judged once, within the budget of the default config. Printed
//! are milliseconds of processor time for extracting and for reading and judging, the steps, and
//! nanoseconds a step: steps decide what is cut, so they must not be much cheaper than the time
//! that they stand for.
//!
//! `cargo bench --bench work -- check` judges the seeds (`seeds.txt`: the worst that searches have
//! found so far) alone.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

mod evaluators;
mod measure;
mod shapes;

use evaluators::{Case, cases};
use measure::{Measured, measure};
use shapes::{Random, TraceShape};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bytes of the requests that a search compares.
const SEARCHED_BYTES: usize = 64 << 10;
/// Random traces at the start, and changes that are tried.
const STARTS: usize = 24;
const CHANGES: usize = 60;
/// Sizes at which the worst is judged, bytes.
const SIZES: [usize; 3] = [1 << 20, 4 << 20, 16 << 20];
/// Processor time that a trace may take to be read and judged, milliseconds.
const BUDGET_MS: f64 = 250.0;

/// The worst that searches have found so far, a shape a line.
const SEEDS: &str = include_str!("seeds.txt");

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let only_seeds = words.iter().any(|word| word == "check");
    let is_wanted = |case: &Case| {
        let mut names = words.iter().filter(|word| *word != "check").peekable();
        names.peek().is_none() || names.any(|name| case.name.starts_with(name.as_str()))
    };
    println!(
        "{:38} {:>6} {:>9} {:>9} {:>12} {:>8}",
        "case", "MB", "extract", "judge", "steps", "ns/step"
    );
    let mut slowest: Vec<(f64, String)> = Vec::new();
    for case in cases().iter().filter(|case| is_wanted(case)) {
        let mut shapes: Vec<TraceShape> = SEEDS.lines().map(TraceShape::parse).collect();
        if !only_seeds {
            shapes = vec![worst(case, shapes)];
        }
        for shape in &shapes {
            for bytes in SIZES {
                let measured = measure(case, &shape.request(bytes), None);
                print_row(case, bytes, measured);
                slowest.push((measured.judge_ms, format!("{} {} {shape}", case.name, bytes >> 20)));
            }
        }
        if !only_seeds {
            println!("    {}", shapes[0]);
        }
    }
    slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nslowest, of {BUDGET_MS} ms:");
    slowest.iter().take(5).for_each(|(ms, what)| println!("{ms:8.1} ms  {what}"));
}

fn print_row(case: &Case, bytes: usize, measured: Measured) {
    let Measured { extract_ms, judge_ms, steps } = measured;
    let step_ns = judge_ms * 1e6 / steps.max(1) as f64;
    let mark = if judge_ms > BUDGET_MS { "  <-" } else { "" };
    println!(
        "{:38} {:6} {extract_ms:9.1} {judge_ms:9.1} {steps:12} {step_ns:8.2}{mark}",
        case.name,
        bytes >> 20
    );
}

/// The shape whose trace takes the longest to be judged, of those that a search comes across.
fn worst(case: &Case, seeds: Vec<TraceShape>) -> TraceShape {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ case.name.len() as u64);
    let cost = |shape: &TraceShape| {
        let measured = measure(case, &shape.request(SEARCHED_BYTES), Some(u64::MAX));
        measured.judge_ms.max(measured.steps as f64 * 2e-6)
    };
    let starts = seeds.into_iter().chain((0..STARTS).map(|_| TraceShape::random(&mut random)));
    let starts: Vec<_> = starts.map(|shape| (cost(&shape), shape)).collect();
    let mut best = starts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    for _ in 0..CHANGES {
        let changed = best.1.changed(&mut random);
        let found = cost(&changed);
        if found > best.0 {
            best = (found, changed);
        }
    }
    best.1
}
