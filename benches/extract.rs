//! Cost of extraction per span: beside a bare walk over the bytes, with one dialect, with all.
//!
//! `cargo bench --bench extract` measures with criterion, then prints the three as ratios.
//! `cargo bench --bench extract -- --once all 50` runs one of them that often and nothing else, for
//! instruction counters. `-- --captures` reads what real frameworks sent instead, each capture as
//! one request, and resolves it: run at two commits in turn, it tells what changed. Under callgrind
//! with `--toggle-collect='*measured_re*' --dump-after='extract::measured_*'` it writes the
//! instructions of each step of each capture.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use spanscore_base::model::{Facts, SpanBatch, TraceId, TraceSpans};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;
use spanscore_base::otlp::number::span;
use spanscore_base::otlp::request::{RequestStep, walk};
use spanscore_base::otlp::wire::{Field, Fields};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{ExtractionCache, Resolver, Table, extract};

/// Spans of one request: 21 traces.
const TRACES: usize = 21;

/// Rounds of the ratios: the least of many short ones is what the machine can do.
const ROUNDS: usize = 200;

/// Rounds of a capture.
const CAPTURE_ROUNDS: usize = 20;

enum Subject {
    Walk,
    Extract(Box<Table>),
}

impl Subject {
    fn named(name: &str) -> Self {
        let facts = Facts { arguments: true, results: true, ..Facts::default() };
        let extract = |dialects| Self::Extract(Box::new(Table::compile(dialects, &facts).unwrap()));
        let all = Dialect::builtin();
        match name {
            "walk" => Self::Walk,
            "one" => {
                let one = |dialect: &&Dialect| dialect.name == "openinference";
                extract(all.iter().filter(one).cloned().collect())
            }
            _ => extract(all.to_vec()),
        }
    }

    /// Reads the request; the arena's length keeps the work from being left out.
    fn run(
        &self,
        request: &[u8],
        resources: &mut ExtractionCache,
        batches: &mut [SpanBatch],
    ) -> u64 {
        match self {
            Self::Walk => bare_walk(request),
            Self::Extract(table) => {
                batches.iter_mut().for_each(SpanBatch::clear);
                let extracted =
                    extract(table, Signal::Traces, request, resources, batches).unwrap();
                extracted.accepted + batches[0].arena.len() as u64
            }
        }
    }
}

/// Reads the ids of every span and passes over the rest.
fn bare_walk(request: &[u8]) -> u64 {
    let mut sum = 0;
    let walked = walk(request, |step| {
        let RequestStep::Item(encoded) = step else { return };
        let mut fields = Fields::new(encoded);
        while let Ok(Some(field)) = fields.next() {
            if let (span::TRACE_ID, Field::Bytes(id)) = field {
                sum += u64::from(TraceId::from_wire(id).is_some());
            }
        }
    });
    sum + walked.err().map_or(0, |broken| broken.items)
}

const SUBJECTS: [&str; 3] = ["walk", "one", "all"];

fn criterion_benches(c: &mut Criterion) {
    let request = support::request(TRACES, 7);
    let mut group = c.benchmark_group("extract");
    group.throughput(Throughput::Elements((TRACES * support::SPANS_PER_TRACE) as u64));
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for name in SUBJECTS {
        let subject = Subject::named(name);
        let (mut resources, mut batches) = (ExtractionCache::default(), [SpanBatch::default()]);
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| black_box(subject.run(black_box(&request), &mut resources, &mut batches)));
        });
    }
    group.finish();
}

/// The three in turn, so that a noisy neighbour slows all of them.
fn ratios() {
    let request = support::request(TRACES, 7);
    let subjects = SUBJECTS.map(Subject::named);
    let (mut resources, mut batches) = (ExtractionCache::default(), [SpanBatch::default()]);
    let mut least = [Duration::MAX; SUBJECTS.len()];
    for _ in 0..ROUNDS {
        for (subject, least) in subjects.iter().zip(&mut least) {
            let start = Instant::now();
            black_box(subject.run(black_box(&request), &mut resources, &mut batches));
            *least = start.elapsed().min(*least);
        }
    }
    let spans = (TRACES * support::SPANS_PER_TRACE) as f64;
    let per_span = least.map(|time| time.as_secs_f64() * 1e9 / spans);
    println!("least of {ROUNDS} rounds, ns per span and ratio to the one before it:");
    println!("  walk {:6.1}", per_span[0]);
    println!("  one  {:6.1}  {:.2} x walk", per_span[1], per_span[1] / per_span[0]);
    println!("  all  {:6.1}  {:.2} x one", per_span[2], per_span[2] / per_span[1]);
}

fn once(name: &str, times: usize) {
    let request = support::request(TRACES, 7);
    let subject = Subject::named(name);
    let (mut resources, mut batches) = (ExtractionCache::default(), [SpanBatch::default()]);
    let sum: u64 = (0..times).map(|_| subject.run(&request, &mut resources, &mut batches)).sum();
    println!("{name}: {times} requests of {} bytes, {sum}", request.len());
}

/// The requests of a capture, each signal's as one: encoded messages end to end are one message.
fn capture(path: &std::path::Path) -> [(Signal, Vec<u8>); 2] {
    let lines = zstd::decode_all(&*fs::read(path).unwrap()).unwrap();
    let mut signals = [(Signal::Traces, Vec::new()), (Signal::Logs, Vec::new())];
    for line in std::str::from_utf8(&lines).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for ((signal, body), key) in signals.iter_mut().zip(["traces", "logs"]) {
            if let Some(request) = line.get(key) {
                let request = request.to_string();
                body.extend_from_slice(&transcode(*signal, request.as_bytes()).unwrap());
            }
        }
    }
    signals
}

#[inline(never)]
fn measured_record(
    table: &Table,
    requests: &[(Signal, Vec<u8>)],
    cache: &mut ExtractionCache,
    batch: &mut SpanBatch,
) {
    batch.clear();
    for (signal, body) in requests.iter().filter(|(_, body)| !body.is_empty()) {
        let batches = std::slice::from_mut(batch);
        black_box(extract(table, *signal, body, cache, batches).unwrap());
    }
}

#[inline(never)]
fn measured_resolve(resolver: &Resolver, traces: &[TraceSpans]) {
    traces.iter().for_each(|trace| drop(black_box(resolver.resolve(trace))));
}

/// The records of a batch by trace.
fn by_trace(batch: &SpanBatch) -> Vec<TraceSpans> {
    let mut traces: BTreeMap<TraceId, TraceSpans> = BTreeMap::new();
    for (trace_id, records) in batch.by_trace() {
        let trace = traces.entry(trace_id).or_default();
        trace.trace_id = trace_id;
        trace.resources.clone_from(&batch.resources);
        for record in records {
            let start = trace.arena.len() as u32;
            let facts = record.facts.start as usize..record.facts.end as usize;
            trace.arena.extend_from_slice(&batch.arena[facts]);
            let facts = start..trace.arena.len() as u32;
            trace.spans.push(spanscore_base::model::SpanRecord { facts, ..record.clone() });
        }
    }
    traces.into_values().collect()
}

/// The least time of each step for each capture.
fn captures(facts: &Facts) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/captures");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    let table = Table::compile(Dialect::builtin().to_vec(), facts).unwrap();
    let resolver = Resolver::new(Arc::new(table));
    println!("least of {CAPTURE_ROUNDS} rounds, us: capture, spans, record, resolve");
    for path in paths {
        let requests = capture(&path);
        let (mut cache, mut batch) = (ExtractionCache::default(), SpanBatch::default());
        let mut least = [Duration::MAX; 2];
        for _ in 0..CAPTURE_ROUNDS {
            let start = Instant::now();
            measured_record(resolver.table(), &requests, &mut cache, &mut batch);
            least[0] = start.elapsed().min(least[0]);
            let traces = by_trace(&batch);
            let start = Instant::now();
            measured_resolve(&resolver, &traces);
            least[1] = start.elapsed().min(least[1]);
        }
        let [record, resolve] = least.map(|time| time.as_secs_f64() * 1e6);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        println!("{name:40} {:4} {record:9.1} {resolve:9.1}", batch.spans.len());
    }
}

criterion_group!(benches, criterion_benches);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--once") {
        once(&arguments[at + 1], arguments[at + 2].parse().unwrap());
        return;
    }
    if arguments.iter().any(|argument| argument == "--captures") {
        captures(&Facts { arguments: true, results: true, ..Facts::default() });
        return;
    }
    benches();
    ratios();
    Criterion::default().configure_from_args().final_summary();
}
