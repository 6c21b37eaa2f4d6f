//! Time a step: the search for traces whose time grows faster than their steps.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::evaluators::Case;
use super::keys;
use super::measure::{Measured, measure};
use super::schemas::SchemaShape;
use super::shape::Shape;
use super::shapes::TraceShape;
use super::texts::Random;
use super::{SCHEMA_SEEDS, SEEDS};

/// Times the median that a step may take.
const TIMES_MAX: f64 = 10.0;
/// Processor time below which a judgement says nothing, milliseconds.
const TOLD_MS: f64 = 3.0;
/// Size of the requests that the search compares, bytes.
const BYTES: usize = 256 << 10;
/// Shapes that are tried in a row for one case.
const ROUND: usize = 40;
/// Lines that are printed.
const LINES: usize = 12;

/// Nanoseconds a step of all judgements, and of the slowest with their shapes.
#[derive(Default)]
pub(crate) struct StepTimes {
    all: Vec<f64>,
    slowest: Vec<(f64, String)>,
    has_failed: bool,
}

impl StepTimes {
    /// Adds a judgement.
    pub(crate) fn add(&mut self, measured: Measured, what: impl FnOnce() -> String) {
        if measured.judge_ms < TOLD_MS {
            return;
        }
        let step_ns = measured.step_ns();
        self.all.push(step_ns);
        if self.slowest.len() < LINES || self.slowest.last().is_some_and(|it| it.0 < step_ns) {
            let Measured { judge_ms, steps, .. } = measured;
            self.slowest.push((step_ns, format!("{judge_ms:.1} ms {steps} steps  {}", what())));
            self.slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
            self.slowest.truncate(LINES);
        }
    }

    /// Searches for so many seconds, case by case: from the seeds and random shapes on to those
    /// whose change makes a step take longer.
    pub(crate) fn search(&mut self, cases: &[Case], seconds: u64, seed: u64) {
        println!("seed {seed}, {seconds} s, {} cases", cases.len());
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1));
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut round = 0;
        while Instant::now() < end {
            for case in cases {
                if Instant::now() >= end {
                    break;
                }
                if case.reads_schemas() {
                    self.climb::<SchemaShape>(case, SCHEMA_SEEDS, round, &mut random);
                }
                self.climb::<TraceShape>(case, SEEDS, round, &mut random);
            }
            round += 1;
        }
    }

    fn climb<S: Shape>(&mut self, case: &Case, seeds: &str, round: usize, random: &mut Random) {
        let mut best: Option<(f64, S)> = None;
        let seeds: Vec<&str> = seeds.lines().collect();
        for attempt in 0..ROUND {
            let shape = match &best {
                None if !seeds.is_empty() && round < seeds.len() => S::parse(seeds[round]),
                Some((_, shape)) if attempt % 4 > 0 => shape.changed(random),
                _ => S::random(random),
            };
            let measured = measure(case, &shape.request(BYTES), None);
            self.add(measured, || format!("{} {}", case.name, shape.line()));
            let step_ns = measured.step_ns();
            if best.as_ref().is_none_or(|(most, _)| step_ns > *most) {
                best = Some((step_ns, shape));
            }
        }
    }

    /// Measures the searches for keys, which have no steps: their time by size.
    pub(crate) fn keys(&mut self) {
        self.has_failed |= !keys::grow_with_their_texts();
    }

    /// Prints the slowest; fails where a step takes more than ten times the median.
    pub(crate) fn verdict(mut self) -> ExitCode {
        self.all.sort_by(f64::total_cmp);
        let median = self.all.get(self.all.len() / 2).copied().unwrap_or_default();
        println!("\n{} judgements, a step takes {median:.2} ns at the median", self.all.len());
        for (step_ns, what) in &self.slowest {
            let is_over = *step_ns > TIMES_MAX * median;
            self.has_failed |= is_over;
            println!("{}{step_ns:9.1} ns  {what}", if is_over { "FAIL" } else { "    " });
        }
        if self.has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
