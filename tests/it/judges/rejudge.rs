//! Requests that a judge did not answer, asked again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use super::crash::{config, numbered};
use crate::support::collector::Event;
use crate::support::fake_backend::FakeBackend;
use crate::support::fake_judge::{FakeJudge, JudgeAsked, Scripted};
use crate::support::program::Program;
use crate::support::ran::{Ended, ended, program};
use crate::support::spans::request;

/// A judge that does not work until it is told to.
async fn broken_judge() -> (FakeJudge, Arc<AtomicBool>) {
    let works = Arc::new(AtomicBool::new(false));
    let known = Arc::clone(&works);
    let script = move |asked: &JudgeAsked| match known.load(Ordering::Relaxed) {
        true => asked.answer(&["yes"]),
        false => Scripted { status: 404, ..Scripted::default() },
    };
    (FakeJudge::start(script).await, works)
}

async fn rejudge(folder: &Path, more: &[&str]) -> Ended {
    let config = folder.join("spanscore.yaml").to_str().unwrap().to_owned();
    let command = program(&[&["rejudge", "--config", &config], more].concat());
    tokio::task::spawn_blocking(move || ended(command)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_judge_did_not_answer_is_asked_again_under_its_id_and_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let (judge, works) = broken_judge().await;
    let program = Program::start(folder.path(), &config(&judge, &backend, folder.path()));
    let traces = folder.path().join("traces.pb");
    let path = traces.to_str().unwrap();
    std::fs::write(&traces, request(numbered(1)).encode_to_vec()).unwrap();
    program.client().await.export(request(numbered(1))).await.unwrap();
    backend.until(|backend| !backend.log_records().is_empty()).await;
    let failed = Event(backend.log_records().remove(0));
    assert_eq!((failed.score(), judge.asked().len()), (None, 1));
    program.signal("-TERM");
    tokio::task::spawn_blocking(|| program.end()).await.unwrap();
    let letters = folder.path().join("data/dead_letters/judges.jsonl");
    let letters = std::fs::read_to_string(letters).unwrap();
    assert!(letters.lines().count() == 1 && letters.contains(failed.id()), "{letters}");
    assert!(!letters.contains("order 17"), "ids and errors alone: {letters}");

    let again = rejudge(folder.path(), &["--export", path]).await;
    assert!(again.code == 1 && again.err.contains("1 still have none"), "{}", again.err);
    works.store(true, Ordering::Relaxed);
    let again = rejudge(folder.path(), &["--export", path]).await;
    assert!(again.code == 0 && again.err.contains("1 evaluations have an answer"), "{}", again.err);
    let events: Vec<_> = backend.log_records().into_iter().map(Event).collect();
    let last = events.last().unwrap();
    assert_eq!((events.len(), last.id(), last.score()), (2, failed.id(), Some(1.0)));
    assert_eq!(last.revision(), failed.revision());
    let asked = judge.asked().len();
    let again = rejudge(folder.path(), &["--export", path]).await;
    assert!(again.code == 0 && again.err.contains("nothing is without"), "{}", again.err);
    assert_eq!((judge.asked().len(), backend.log_count()), (asked, 2));
    assert_eq!(rejudge(folder.path(), &["--again", path]).await.code, 0);
    assert_eq!(judge.asked().len(), asked + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejudge_reads_records_of_score_and_revises_on_new_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::dead();
    let (judge, works) = broken_judge().await;
    let config = config(&judge, &backend, folder.path());
    let config = config.split("data_dir:").next().unwrap();
    std::fs::write(folder.path().join("spanscore.yaml"), config).unwrap();
    let traces = folder.path().join("traces.pb");
    let path = traces.to_str().unwrap();
    std::fs::write(&traces, request(numbered(1)).encode_to_vec()).unwrap();
    let own = folder.path().join("spanscore.yaml").to_str().unwrap().to_owned();
    let score = program(&["score", "--config", &own, "--format", "jsonl", path]);
    let scores = tokio::task::spawn_blocking(move || ended(score)).await.unwrap().out;
    let record = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let failed = record(scores.trim());
    assert_eq!(failed["outcome"], "failed", "{scores}");
    let letters = folder.path().join("scores.jsonl");
    std::fs::write(&letters, &scores).unwrap();
    works.store(true, Ordering::Relaxed);
    let from = ["--from", letters.to_str().unwrap(), path];
    let same = record(rejudge(folder.path(), &from).await.out.trim());
    assert_eq!((&same["evaluation_id"], &same["score"]), (&failed["evaluation_id"], &1.0.into()));
    let mut spans = numbered(1);
    // A span that the first run had not seen.
    spans.push(Span { span_id: vec![9; 8], ..spans[1].clone() });
    std::fs::write(&traces, request(spans).encode_to_vec()).unwrap();
    let other = record(rejudge(folder.path(), &from).await.out.trim());
    assert_ne!(other["evaluation_id"], failed["evaluation_id"]);
    assert_eq!((&other["revises"], &other["revision"]), (&failed["evaluation_id"], &1.into()));
    let none = folder.path().join("none.pb");
    std::fs::write(&none, request(numbered(2)).encode_to_vec()).unwrap();
    let missing = rejudge(folder.path(), &[from[0], from[1], none.to_str().unwrap()]).await;
    assert!(missing.code == 1 && missing.err.contains("1 are of traces"), "{}", missing.err);
    assert_eq!(rejudge(folder.path(), &[path]).await.code, 64);
}
