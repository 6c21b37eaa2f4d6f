//! Tool calls that were really made, in the telemetry of running frameworks and hand-written
//! samples of each dialect.
//!
//! Each fixture holds the OTLP/JSON requests in arrival order and the truth from the script that
//! ran. It shows that extraction and resolution agree with the truth; not how requests are received
//! nor when a trace is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use serde_json::Value as Json;
use spanscore_base::model::{Facts, SpanBatch, TraceId, TraceSpans, Trajectory};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;
use spanscore_engine::call_rows::row;
use spanscore_extract::dialect::Dialect;
use spanscore_extract::{ExtractionCache, Resolver, Table, extract, reconcile};

/// One encoded request.
pub(crate) enum Request {
    Traces(Vec<u8>),
    Logs(Vec<u8>),
}

pub(crate) struct Fixture {
    pub(crate) name: String,
    /// The framework that ran, and what instrumented it; `null` for what nobody ran.
    pub(crate) made_with: [Json; 2],
    pub(crate) expected: Json,
    pub(crate) requests: Vec<Request>,
}

fn fixtures_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The lines of a fixture, compressed or not.
pub(crate) fn fixture_lines(path: &str) -> Vec<Json> {
    let bytes = fs::read(fixtures_folder().join(path)).unwrap();
    let bytes = if path.ends_with(".zst") { zstd::decode_all(&*bytes).unwrap() } else { bytes };
    let text = String::from_utf8(bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The fixtures of one file: each begins with a line that holds `expected`.
fn read_file(path: &str) -> Vec<Fixture> {
    let name =
        path.trim_start_matches("captures/").trim_end_matches(".zst").trim_end_matches(".jsonl");
    let mut fixtures: Vec<Fixture> = Vec::new();
    for mut line in fixture_lines(path) {
        if let Some(expected) = line.get_mut("expected") {
            let expected = expected.take();
            let made_with = ["framework", "instrumentation"].map(|key| line[key].clone());
            let name = line.get("sample").and_then(Json::as_str).unwrap_or(name).to_owned();
            fixtures.push(Fixture { name, made_with, expected, requests: Vec::new() });
            continue;
        }
        let encode = |signal, request: &Json| {
            transcode(signal, request.to_string().as_bytes()).unwrap().to_vec()
        };
        let requests = &mut fixtures.last_mut().unwrap().requests;
        if let Some(request) = line.get("traces") {
            requests.push(Request::Traces(encode(Signal::Traces, request)));
        } else if let Some(request) = line.get("logs") {
            requests.push(Request::Logs(encode(Signal::Logs, request)));
        }
    }
    fixtures
}

pub(crate) fn captures() -> Vec<Fixture> {
    let mut names: Vec<_> = fs::read_dir(fixtures_folder().join("captures"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.iter().flat_map(|name| read_file(&format!("captures/{name}"))).collect()
}

pub(crate) fn samples() -> Vec<Fixture> {
    read_file("dialects.jsonl.zst")
}

/// A resolver with dialects of a test's own. The table of the built-in ones alone, which takes a
/// tenth of a second without optimisation, is compiled once.
pub(crate) fn resolver(own: Vec<Dialect>) -> Resolver {
    static BUILTIN: OnceLock<Arc<Table>> = OnceLock::new();
    let compile = |own| Arc::new(table(own, &Facts::all()));
    Resolver::new(match own {
        none if none.is_empty() => Arc::clone(BUILTIN.get_or_init(|| compile(none))),
        own => compile(own),
    })
}

fn table(own: Vec<Dialect>, facts: &Facts) -> Table {
    Table::compile(Dialect::with_builtin(own), facts).unwrap()
}

/// Extracts requests and puts their records together by trace.
pub(crate) fn traces(resolver: &Resolver, requests: &[Request]) -> Vec<TraceSpans> {
    let mut cache = ExtractionCache::default();
    let mut traces: BTreeMap<TraceId, TraceSpans> = BTreeMap::new();
    for request in requests {
        let mut shards = [SpanBatch::default()];
        let table = resolver.table();
        let (signal, body) = match request {
            Request::Traces(body) => (Signal::Traces, body),
            Request::Logs(body) => (Signal::Logs, body),
        };
        extract(table, signal, body, &mut cache, &mut shards).unwrap();
        let [batch] = shards;
        for (trace_id, run) in batch.by_trace() {
            let trace = traces.entry(trace_id).or_default();
            trace.trace_id = trace_id;
            for record in run {
                add(trace, &batch.arena, &batch.resources, record.clone());
            }
        }
    }
    traces.into_values().collect()
}

pub(crate) fn add(
    trace: &mut TraceSpans,
    arena: &[u8],
    resources: &[Arc<spanscore_base::model::Resource>],
    mut record: spanscore_base::model::SpanRecord,
) {
    let facts = &arena[record.facts.start as usize..record.facts.end as usize];
    let start = trace.arena.len() as u32;
    trace.arena.extend_from_slice(facts);
    record.facts = start..trace.arena.len() as u32;
    let resource = &resources[record.resource as usize];
    let known = trace.resources.iter().position(|known| known == resource);
    record.resource = known.unwrap_or_else(|| {
        trace.resources.push(Arc::clone(resource));
        trace.resources.len() - 1
    }) as u32;
    trace.spans.push(record);
}

/// The rows of all trajectories as `inspect` prints them, in order of their starts.
pub(crate) fn rows(resolver: &Resolver, traces: &[TraceSpans]) -> Vec<Json> {
    let mut trajectories: Vec<_> = traces.iter().map(|trace| resolver.resolve(trace)).collect();
    reconcile_sessions(&mut trajectories);
    trajectories.sort_by_key(|trajectory| trajectory.start_ns);
    trajectories.iter().map(|it| serde_json::from_str(&row(it).to_string()).unwrap()).collect()
}

fn reconcile_sessions(trajectories: &mut Vec<Trajectory<'_>>) {
    trajectories.sort_by(|a, b| a.session_id.cmp(&b.session_id));
    for session in trajectories.chunk_by_mut(|a, b| a.session_id == b.session_id) {
        if session[0].session_id.is_some() {
            reconcile(session);
        }
    }
}

fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}

fn names(call: &Json, key: &str, field: &str) -> bool {
    call[key].as_array().is_some_and(|fields| fields.iter().any(|name| name == field))
}

/// Returns the differences of the found calls from the wanted ones; inside a parallel group the
/// order is free.
fn differences(wanted: &[Json], found: &[Json]) -> Vec<String> {
    let mut bad = Vec::new();
    if wanted.len() != found.len() {
        let list: Vec<_> = found.iter().map(|call| (&call["name"], &call["id"])).collect();
        bad.push(format!("{} calls, want {}: {list:?}", found.len(), wanted.len()));
    }
    let mut used = vec![false; found.len()];
    for (at, want) in wanted.iter().enumerate() {
        let group = &want["parallel_group"];
        let places: Vec<usize> = if group.is_null() {
            vec![at]
        } else {
            let of_group = |call: &&Json| call["parallel_group"] == *group;
            let first = wanted.iter().position(|call| of_group(&call)).unwrap();
            let size = wanted.iter().filter(of_group).count();
            (first..first + size).filter(|at| used.get(*at) == Some(&false)).collect()
        };
        let pick = places.into_iter().filter(|at| *at < found.len()).min_by_key(|at| {
            let call = &found[*at];
            (
                call["name"] != want["name"],
                !same(&call["arguments"], &want["arguments"]),
                call["id"] != want["id"],
            )
        });
        match pick {
            Some(place) => {
                used[place] = true;
                call_differences(at, want, &found[place], &mut bad);
            }
            None => bad.push(format!("#{at} missing {}", want["name"])),
        }
    }
    bad
}

fn call_differences(at: usize, want: &Json, found: &Json, bad: &mut Vec<String>) {
    let failed = want["failed"].as_bool().unwrap_or(!want["error"].is_null());
    for field in ["name", "id", "arguments", "result"] {
        if names(want, "truncated", field) {
            continue;
        }
        if names(want, "not_recorded", field) {
            if !found[field].is_null() && !names(want, "joined", field) {
                bad.push(format!("#{at} {field}: not recorded, got {}", found[field]));
            }
            continue;
        }
        let unspecified = want[field].is_null() && (field == "id" || (field == "result" && failed));
        if !unspecified && !same(&found[field], &want[field]) {
            bad.push(format!("#{at} {field}: got {} want {}", found[field], want[field]));
        }
    }
    for field in ["agent", "origin"] {
        if want.get(field).is_some() && want[field] != found[field] {
            bad.push(format!("#{at} {field}: got {} want {}", found[field], want[field]));
        }
    }
    if names(want, "not_recorded", "failed") {
        return;
    }
    if failed != (found["status"] == "error") {
        bad.push(format!("#{at} status: got {}, failed is {failed}", found["status"]));
    } else if let Some(error) = want["error"].as_str()
        && !found["error"].as_str().is_some_and(|text| text.contains(error))
    {
        bad.push(format!("#{at} error: got {} want {error:?}", found["error"]));
    }
}

/// Every text found for a user or an agent is one that was said; cut ones are no texts.
fn text_differences(turns: &[Json], rows: &[&Json], bad: &mut Vec<String>) {
    let said = |key: &str| turns.iter().filter_map(|turn| turn[key].as_str()).collect::<Vec<_>>();
    let (inputs, outputs) = (said("user_input"), said("final_output"));
    for row in rows {
        if let Some(text) = row["user_input"].as_str()
            && !inputs.contains(&text)
        {
            bad.push(format!("user input: got {text:?}"));
        }
        if let Some(text) = row["final_output"].as_str()
            && !outputs.iter().any(|output| text.trim_end().ends_with(output))
            && !outputs.is_empty()
        {
            bad.push(format!("final output: got {text:?}"));
        }
    }
}

/// All differences between what is found in a fixture and the truth.
fn check(resolver: &Resolver, fixture: &Fixture) -> Vec<String> {
    let rows = rows(resolver, &traces(resolver, &fixture.requests));
    let mut bad = Vec::new();
    let whole = [fixture.expected.clone()];
    let sessions = fixture.expected.get("sessions").and_then(Json::as_array);
    for part in sessions.map_or(&whole[..], Vec::as_slice) {
        let in_part = |row: &&Json| sessions.is_none() || row["session_id"] == part["session_id"];
        let mine: Vec<&Json> = rows.iter().filter(in_part).collect();
        let mut calls: Vec<Json> =
            mine.iter().flat_map(|row| row["tool_calls"].as_array().unwrap().clone()).collect();
        calls.sort_by_key(|call| call["start_time_unix_nano"].as_u64());
        bad.extend(differences(part["tool_calls"].as_array().unwrap(), &calls));
        let first = |key: &str| {
            mine.iter().map(|row| &row[key]).find(|value| !value.is_null()).unwrap_or(&Json::Null)
        };
        if *first("session_id") != part["session_id"] {
            bad.push(format!("session: got {} want {}", first("session_id"), part["session_id"]));
        }
        if let Some(turns) = part["turns"].as_array() {
            text_differences(turns, &mine, &mut bad);
        }
        if !part["agent_name"].is_null() && *first("agent_name") != part["agent_name"] {
            bad.push(format!("agent: got {} want {}", first("agent_name"), part["agent_name"]));
        }
    }
    bad
}

fn check_all(fixtures: &[Fixture]) {
    let resolver = resolver(Vec::new());
    let mut wrong = String::new();
    for fixture in fixtures {
        for difference in check(&resolver, fixture) {
            wrong.push_str(&format!("{}: {difference}\n", fixture.name));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn captures_of_running_frameworks_give_their_calls() {
    let captures = captures();
    assert!(captures.len() >= 50, "{} captures", captures.len());
    check_all(&captures);
}

#[test]
fn samples_of_every_dialect_give_their_calls() {
    let samples = samples();
    assert!(samples.len() >= 39, "{} samples", samples.len());
    check_all(&samples);
}

/// Agents that no dialect names, and spans that look like their calls: guards, approvals, caches,
/// offers, clients, wrappers.
#[test]
fn what_speaks_of_calls_is_none() {
    let samples = read_file("beside_calls.jsonl.zst");
    assert!(samples.len() >= 136, "{} samples", samples.len());
    check_all(&samples);
}

/// Keys retained at once: each takes a slot and a condition of the table.
const RETAINED_AT_ONCE: usize = 64;

/// Keys of the attributes of a fixture's spans.
fn keys(requests: &[Request]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for request in requests {
        let Request::Traces(body) = request else { continue };
        let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        let attributes = scopes.flat_map(|it| it.spans).flat_map(|span| span.attributes);
        keys.extend(attributes.map(|attribute| attribute.key));
    }
    keys
}

/// Rows of the trajectories of a fixture, without the attributes, which tell what is retained.
fn facts_of(resolver: &Resolver, fixture: &Fixture) -> Vec<String> {
    let traces = traces(resolver, &fixture.requests);
    let told = |mut row: Json| {
        row.as_object_mut().unwrap().remove("attributes");
        format!("{row:#}")
    };
    rows(resolver, &traces).into_iter().map(told).collect()
}

/// Fixtures one after the other with their keys, together as long as those are retained at once:
/// each table is dear.
fn by_keys(fixtures: &[Fixture]) -> Vec<(BTreeSet<String>, Vec<&Fixture>)> {
    let mut groups: Vec<(BTreeSet<String>, Vec<&Fixture>)> = Vec::new();
    for fixture in fixtures {
        let keys = keys(&fixture.requests);
        match groups.last_mut() {
            Some((all, group)) if all.union(&keys).count() <= RETAINED_AT_ONCE => {
                all.extend(keys);
                group.push(fixture);
            }
            _ => groups.push((keys, vec![fixture])),
        }
    }
    groups
}

#[test]
fn retained_attributes_change_no_fact() {
    let fixtures: Vec<Fixture> = captures().into_iter().chain(samples()).collect();
    let plain = resolver(Vec::new());
    let mut changed = Vec::new();
    for (keys, group) in by_keys(&fixtures) {
        let alone: Vec<_> = group.iter().map(|fixture| facts_of(&plain, fixture)).collect();
        let keys: Vec<_> = keys.into_iter().map(|key| vec![key]).collect();
        for retained in keys.chunks(RETAINED_AT_ONCE) {
            let attributes = retained.to_vec();
            let beside = Facts { attributes, ..Facts::default() };
            let beside = Resolver::new(Arc::new(table(Vec::new(), &beside.union(&Facts::all()))));
            for (fixture, alone) in group.iter().zip(&alone) {
                let found = facts_of(&beside, fixture);
                let differing = found.iter().zip(alone).find(|(found, alone)| found != alone);
                changed.extend(differing.map(|(found, alone)| {
                    let lines = found.lines().zip(alone.lines()).find(|(a, b)| a != b);
                    format!("{}: {lines:?}", fixture.name)
                }));
            }
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
