//! Search for the trace that costs most, for each kind of evaluator.
//!
//! `cargo bench -p spanscore-engine --bench work -- [KIND ...]` looks for the trace that takes most
//! per byte: from random traces ([`shapes`], for schemas [`schemas`]) it goes on with those whose
//! change costs more, at 64 KiB. The worst is then made at 1, 4 and 16 MB and judged once, within
//! the budget of the default config. Printed are milliseconds of processor time for extracting and
//! for reading and judging, the steps, and nanoseconds a step: steps decide what is cut, so they
//! must not be much cheaper than the time that they stand for.
//!
//! `-- check` judges the seeds (`seeds.txt`, `schemas.txt`: the worst that searches have found so
//! far) alone. `-- steps [seconds=60] [seed=1]` looks for traces of much time a step instead, for
//! so many seconds. Both fail where a step took more than ten times the median.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

mod evaluators;
mod keys;
mod measure;
mod schemas;
mod shape;
mod shapes;
mod steps;
mod texts;

use std::process::ExitCode;

use evaluators::{Case, cases};
use measure::{Measured, measure};
use schemas::SchemaShape;
use shape::Shape;
use shapes::TraceShape;
use steps::StepTimes;
use texts::Random;

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
const SCHEMA_SEEDS: &str = include_str!("schemas.txt");

/// Words of the command line.
pub(crate) struct Plan {
    words: Vec<String>,
}

impl Plan {
    fn has(&self, name: &str) -> bool {
        self.words.iter().any(|word| word == name)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        let values = self.words.iter().filter_map(|word| word.strip_prefix(name));
        values.filter_map(|value| value.strip_prefix('=')?.parse().ok()).next().unwrap_or(default)
    }

    fn wants(&self, case: &Case) -> bool {
        let is_kind = |word: &&String| *word != "check" && *word != "steps" && !word.contains('=');
        let mut kinds = self.words.iter().filter(is_kind).peekable();
        kinds.peek().is_none() || kinds.any(|name| case.name.starts_with(name.as_str()))
    }
}

fn main() -> ExitCode {
    let words = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let plan = Plan { words };
    let cases: Vec<Case> = cases().into_iter().filter(|case| plan.wants(case)).collect();
    let mut times = StepTimes::default();
    if plan.has("steps") {
        times.search(&cases, plan.number("seconds", 60), plan.number("seed", 1));
        times.keys();
        return times.verdict();
    }
    println!(
        "{:38} {:>6} {:>9} {:>9} {:>12} {:>8}",
        "case", "MB", "extract", "judge", "steps", "ns/step"
    );
    let mut slowest: Vec<(f64, String)> = Vec::new();
    for case in &cases {
        judge_family::<TraceShape>(case, SEEDS, &plan, (&mut slowest, &mut times));
        if case.reads_schemas() {
            judge_family::<SchemaShape>(case, SCHEMA_SEEDS, &plan, (&mut slowest, &mut times));
        }
    }
    slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("\nslowest, of {BUDGET_MS} ms:");
    slowest.iter().take(5).for_each(|(ms, what)| println!("{ms:8.1} ms  {what}"));
    if !plan.has("check") {
        return ExitCode::SUCCESS;
    }
    times.keys();
    times.verdict()
}

/// Judges the seeds of a family, or the worst of a search that begins with them.
fn judge_family<S: Shape>(
    case: &Case,
    seeds: &str,
    plan: &Plan,
    (slowest, times): (&mut Vec<(f64, String)>, &mut StepTimes),
) {
    let mut shapes: Vec<S> = seeds.lines().map(S::parse).collect();
    if !plan.has("check") {
        shapes = vec![worst(case, shapes)];
    }
    for shape in &shapes {
        for bytes in SIZES {
            let measured = measure(case, &shape.request(bytes), None);
            print_row(case, bytes, measured);
            let what = format!("{} {} {}", case.name, bytes >> 20, shape.line());
            times.add(measured, || what.clone());
            slowest.push((measured.judge_ms, what));
        }
    }
    if !plan.has("check") {
        println!("    {}", shapes[0].line());
    }
}

fn print_row(case: &Case, bytes: usize, measured: Measured) {
    let Measured { extract_ms, judge_ms, steps } = measured;
    let step_ns = measured.step_ns();
    let mark = if judge_ms > BUDGET_MS { "  <-" } else { "" };
    println!(
        "{:38} {:6} {extract_ms:9.1} {judge_ms:9.1} {steps:12} {step_ns:8.2}{mark}",
        case.name,
        bytes >> 20
    );
}

/// The shape whose trace takes the longest to be judged, of those that a search comes across.
fn worst<S: Shape>(case: &Case, seeds: Vec<S>) -> S {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ case.name.len() as u64);
    let cost = |shape: &S| {
        let measured = measure(case, &shape.request(SEARCHED_BYTES), Some(u64::MAX));
        measured.judge_ms.max(measured.steps as f64 * 2e-6)
    };
    let starts = seeds.into_iter().chain((0..STARTS).map(|_| S::random(&mut random)));
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
