//! `backfill` against `score`: what is stored of real runs gives the verdicts that their recordings
//! give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;
use spanscore_base::model::{
    Completion, Evaluation, GivenVerdict, Outcome, SpanId, TraceId, TraceSpans, WorkBudget,
};
use spanscore_base::otlp::Signal;
use spanscore_base::value::{Value, json};
use spanscore_engine::Engine;
use spanscore_engine::batch::BatchProgress;
use spanscore_evaluate::KINDS;
use spanscore_extract::Resolver;
use spanscore_store::{
    Judgement, RedactValues, Store, StoreCount, StoreSettings, StoredContent, TrajectoryRecord,
};

use crate::captures::{Request, captures, resolver, samples, traces};

/// Runs that are stored.
const RUNS: usize = if cfg!(debug_assertions) { 1_000 } else { 10_000 };

/// Verdicts by trace, evaluator and span; several calls may have one span.
type Verdicts = BTreeMap<(String, String, String), Vec<(String, Option<String>)>>;

/// Evaluators that judge by code, as the text of a config's `evaluators:`.
fn evaluators() -> String {
    let examples = KINDS.iter().map(|kind| kind.example);
    let is_by_code = |it: &&str| !it.contains("judge:") && !it.starts_with("evaluators:");
    let more = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/backfill/evaluators.yaml");
    let more = std::fs::read_to_string(more).unwrap();
    examples.filter(is_by_code).chain([more.as_str()]).collect::<Vec<_>>().join("\n")
}

fn word(evaluation: &Evaluation) -> (String, Option<String>) {
    let verdict = match evaluation.verdict() {
        GivenVerdict::Pass => "pass",
        GivenVerdict::Fail => "fail",
        GivenVerdict::NotEvaluable => "not_evaluable",
        GivenVerdict::Failed => "failed",
    };
    let score = match &evaluation.outcome {
        Outcome::Scored(score) => Some(format!("{:.9}", score.value)),
        _ => None,
    };
    (verdict.to_owned(), score)
}

/// One recorded trace, with the verdicts of `score` on it.
struct Recorded {
    trace: TraceSpans,
    verdicts: Vec<(String, SpanId, (String, Option<String>))>,
}

/// Judges all recordings as `score` does, once for all tests; with the dialects that read them.
fn recorded() -> &'static (Resolver, Vec<Recorded>) {
    static RECORDED: OnceLock<(Resolver, Vec<Recorded>)> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let resolver = resolver(Vec::new());
        let all = judged(&Engine::new(&evaluators()).unwrap(), &resolver);
        (resolver, all)
    })
}

fn judged(engine: &Engine, resolver: &Resolver) -> Vec<Recorded> {
    let mut all = Vec::new();
    for fixture in captures().into_iter().chain(samples()) {
        let mut batch = engine.batch(0);
        for request in &fixture.requests {
            let (signal, body) = match request {
                Request::Traces(body) => (Signal::Traces, body),
                Request::Logs(body) => (Signal::Logs, body),
            };
            batch.add(signal, body).unwrap();
        }
        let mut by_trace: BTreeMap<TraceId, Vec<_>> = BTreeMap::new();
        batch
            .judge(&BatchProgress::default(), &mut |group| {
                for it in &group.evaluations {
                    let row = (it.evaluator.name.clone(), it.span_id, word(it));
                    by_trace.entry(it.target.trace_id).or_default().push(row);
                }
                true
            })
            .unwrap();
        let traces = alone(resolver, traces(resolver, &fixture.requests));
        let judged = traces.into_iter().filter_map(|trace| {
            let verdicts = by_trace.remove(&trace.trace_id)?;
            Some(Recorded { trace, verdicts })
        });
        all.extend(judged);
    }
    all
}

/// Leaves out traces that share a session: in one input they correct each other.
fn alone(resolver: &Resolver, traces: Vec<TraceSpans>) -> Vec<TraceSpans> {
    let session =
        |trace: &TraceSpans| resolver.resolve(trace).session_id.map(|session| session.to_string());
    let sessions: Vec<_> = traces.iter().map(session).collect();
    let is_alone = |own: &Option<String>| {
        own.is_none() || sessions.iter().filter(|it| *it == own).count() == 1
    };
    let kept = traces.into_iter().zip(&sessions).filter(|(_, own)| is_alone(own));
    kept.map(|(trace, _)| trace).collect()
}

/// Stores each recorded trace as often as it takes, under ids of their own; returns the verdicts
/// of `score`.
fn stored(folder: &Path, settings: StoreSettings, redact: RedactValues, runs: usize) -> Verdicts {
    let (resolver, recorded) = recorded();
    let store = Store::start(settings, Some(folder), redact).unwrap();
    let mut verdicts = Verdicts::new();
    for (number, it) in recorded.iter().cycle().take(runs).enumerate() {
        while store.view().counters().get(StoreCount::Trajectories) + 500 < number as u64 {
            std::thread::yield_now();
        }
        let mut trajectory = resolver.resolve_within(&it.trace, WorkBudget::default());
        trajectory.trace_id = TraceId([0x5b; 16]).with_first_half(number as u64 + 1);
        let judgement = Judgement {
            completion: Completion::RootEnded,
            is_partial: false,
            revision: 0,
            spans: it.trace.spans.len(),
            now_ns: 0,
            is_passing: false,
        };
        store.trajectory(TrajectoryRecord::new(&trajectory, judgement, true));
        for (evaluator, span, verdict) in &it.verdicts {
            let key = (trajectory.trace_id.to_string(), evaluator.clone(), span.to_string());
            verdicts.entry(key).or_default().push(verdict.clone());
        }
    }
    store.close();
    let count = |count| store.view().counters().get(count);
    assert_eq!(count(StoreCount::Trajectories), runs as u64);
    assert_eq!(count(StoreCount::ShedContent), 0);
    verdicts
}

/// Rows of `backfill`.
fn backfilled(folder: &Path, evaluators: &str) -> Vec<Json> {
    let indented: String = evaluators.lines().map(|line| format!("  {line}\n")).collect();
    let config = folder.join("new.yaml");
    std::fs::write(&config, format!("data_dir: {folder:?}\nevaluators:\n{indented}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command.args(["backfill", "--format", "jsonl", "--all", "--config"]).arg(config);
    let output = command.env_remove("SPANSCORE_CONFIG").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn verdicts_of(rows: &[Json]) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for row in rows.iter().filter(|row| row["row"] != "evaluator") {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let key = (text("trace_id"), text("evaluator"), text("span_id"));
        let score = row["score_now"].as_f64().map(|score| format!("{score:.9}"));
        verdicts.entry(key).or_default().push((text("now"), score));
    }
    verdicts
}

/// Names of evaluators that judged each run that `score` judged with them.
fn whole(rows: &[Json]) -> BTreeSet<String> {
    let rows = rows.iter().filter(|row| row["row"] == "evaluator");
    let whole = rows.filter(|row| row["not_judged"].as_object().is_some_and(|it| it.is_empty()));
    whole.map(|row| row["evaluator"].as_str().unwrap().to_owned()).collect()
}

/// Compares: where both judged, they agree; an evaluator that lacks nothing judged all. Returns the
/// number of verdicts that agree.
fn check(expected: &Verdicts, rows: &[Json]) -> usize {
    let found = verdicts_of(rows);
    let whole = whole(rows);
    let mut agreeing = 0;
    let mut wrong = Vec::new();
    for (key, verdicts) in expected {
        match found.get(key) {
            Some(found) if found == verdicts => agreeing += verdicts.len(),
            Some(found) => wrong.push(format!("{key:?}: {found:?}, want {verdicts:?}")),
            None if whole.contains(&key.1) => {
                wrong.push(format!("{key:?}: no verdict, want {verdicts:?}"));
            }
            None => {}
        }
    }
    let more = found.keys().filter(|key| !expected.contains_key(*key));
    wrong.extend(more.map(|key| format!("{key:?}: not judged by `score`")));
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    agreeing
}

fn as_it_came() -> RedactValues {
    Arc::new(|_, _: &[&Value<'_>]| None)
}

#[test]
fn stored_runs_give_the_verdicts_of_their_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let settings = StoreSettings { content: StoredContent::Full, ..StoreSettings::default() };
    let expected = stored(folder.path(), settings, as_it_came(), RUNS);
    let rows = backfilled(folder.path(), &evaluators());
    let agreeing = check(&expected, &rows);
    assert!(agreeing > 10 * RUNS, "{agreeing}");
    let whole = whole(&rows);
    for name in ["tool_call_validity", "tool_description_reliability", "tool_policy/declared"] {
        assert!(whole.contains(name), "{name} judges by stored definitions: {whole:?}");
    }
    // Facts that are not stored are named.
    let reasons: Vec<_> = rows.iter().filter_map(|row| row["not_judged"].as_object()).collect();
    let told = format!("{reasons:?}");
    assert!(told.contains("all spans"), "{told}");
}

/// Replaces a frequent word, as a detector would replace a secret.
fn zealous() -> RedactValues {
    Arc::new(|_, values: &[&Value<'_>]| {
        let texts = values.iter().map(|value| value.to_string().replace("refund", "[WORD_1]"));
        Some(texts.map(|text| json::parse(&text).unwrap().into_owned()).collect())
    })
}

#[test]
fn replaced_values_are_never_compared() {
    let folder = tempfile::tempdir().unwrap();
    let expected = stored(folder.path(), StoreSettings::default(), zealous(), 300);
    let rows = backfilled(folder.path(), &evaluators());
    assert!(check(&expected, &rows) > 300);
    let reasons: Vec<_> = rows.iter().filter_map(|row| row["not_judged"].as_object()).collect();
    let told = format!("{reasons:?}");
    assert!(told.contains("replaced by redaction"), "{told}");
}
