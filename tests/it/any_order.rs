//! Any mix of dialects in one trace, its spans in any order and split over any requests, gives the
//! same trajectory: also where many of them start and end in the same instant.

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use serde_json::{Value as Json, json};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;

use crate::captures::{Request, fixture_lines, resolver, rows, traces};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// One span or log event as a request of its own.
#[derive(Clone)]
struct Unit {
    signal: Signal,
    body: Vec<u8>,
}

/// Form of the times of spans and log events.
#[derive(Clone, Copy)]
enum Times {
    /// No two of them are the same.
    Distinct,
    /// In whole parts of a second, so that many of them are the same.
    Rounded,
}

impl Times {
    fn write(self, time: u64, sample: usize, place: usize) -> u64 {
        const STEP_NS: u64 = 100_000_000;
        match self {
            Self::Distinct => time + (sample * 1000 + place) as u64,
            Self::Rounded => time / STEP_NS * STEP_NS,
        }
    }
}

/// The spans and log events of each sample, put into one trace: ids differ between samples.
fn units(times: Times) -> Vec<Vec<Unit>> {
    let mut samples: Vec<Vec<Unit>> = Vec::new();
    for line in fixture_lines("dialects.jsonl.zst") {
        if line.get("expected").is_some() {
            samples.push(Vec::new());
            continue;
        }
        let number = samples.len();
        let Some(sample) = samples.last_mut() else { continue };
        let (signal, outer, inner, leaf) = match line.get("traces") {
            Some(_) => (Signal::Traces, "resourceSpans", "scopeSpans", "spans"),
            None => (Signal::Logs, "resourceLogs", "scopeLogs", "logRecords"),
        };
        let request = line.get("traces").or(line.get("logs")).unwrap();
        for resource in list(request, outer) {
            for scope in list(resource, inner) {
                for item in list(scope, leaf) {
                    let item = moved(item, times, number, sample.len());
                    let one = json!({ outer: [{ "resource": resource["resource"], inner: [
                        { "scope": scope["scope"], leaf: [item] } ] }] });
                    let body = transcode(signal, one.to_string().as_bytes()).unwrap().to_vec();
                    sample.push(Unit { signal, body });
                }
            }
        }
    }
    samples
}

fn list<'a>(value: &'a Json, key: &str) -> &'a [Json] {
    value.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn moved(item: &Json, times: Times, sample: usize, place: usize) -> Json {
    let mut item = item.clone();
    let fields = item.as_object_mut().unwrap();
    fields.insert("traceId".into(), TRACE.into());
    for key in ["spanId", "parentSpanId"] {
        if let Some(id) = fields.get(key).and_then(Json::as_str).filter(|id| id.len() == 16) {
            let id = format!("{:02x}{}", sample + 1, &id[2..]);
            fields.insert(key.into(), id.into());
        }
    }
    for key in ["startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "observedTimeUnixNano"] {
        let text = fields.get(key).map(|time| time.to_string().replace('"', ""));
        if let Some(time) = text.and_then(|text| text.parse::<u64>().ok()) {
            fields.insert(key.into(), times.write(time, sample, place).to_string().into());
        }
    }
    item
}

/// Requests of these units, `sizes` of them in each: encoded requests one after the other are one
/// request that holds what they hold.
fn requests(units: &[Unit], sizes: &[usize]) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut sizes = sizes.iter().copied().cycle();
    let mut rest = units;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        for signal in [Signal::Traces, Signal::Logs] {
            let bodies = batch.iter().filter(|unit| unit.signal == signal);
            let body: Vec<u8> = bodies.flat_map(|unit| unit.body.clone()).collect();
            if !body.is_empty() {
                requests.push(match signal {
                    Signal::Logs => Request::Logs(body),
                    _ => Request::Traces(body),
                });
            }
        }
    }
    requests
}

#[test]
fn any_order_and_any_split_give_the_same_trajectory() {
    check(Times::Distinct);
}

#[test]
fn spans_of_one_instant_give_the_same_trajectory_in_any_order() {
    check(Times::Rounded);
}

fn check(times: Times) {
    let samples = units(times);
    let all: Vec<usize> = (0..samples.len()).collect();
    let resolver = resolver(Vec::new());
    let case = (
        subsequence(all, 1..5),
        prop::collection::vec(any::<Index>(), 128),
        prop::collection::vec(1..20_usize, 1..8),
    );
    proptest!(ProptestConfig::with_cases(200), |((chosen, picks, sizes) in case)| {
        let ordered: Vec<Unit> = chosen.iter().flat_map(|at| samples[*at].clone()).collect();
        let mut rest = ordered.clone();
        let mut shuffled = Vec::new();
        for pick in picks.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            shuffled.push(rest.remove(pick.index(rest.len())));
        }
        let expected = rows(&resolver, &traces(&resolver, &requests(&ordered, &[usize::MAX])));
        let found = rows(&resolver, &traces(&resolver, &requests(&shuffled, &sizes)));
        prop_assert_eq!(expected, found);
    });
}
