//! Tests of the spending file: changes after a complete line, and its content after a crash.

use serde_json::json;

use super::harness::{Harness, with};
use crate::judge::backend::JudgeBackend;
use crate::judge::backend::spent::{CHANGES_BYTES_MAX, SpentFile};
use spanscore_base::model::Sender;

const STARTED_MS: u64 = 1_000_000_000;

fn harness() -> Harness {
    Harness::new(with(json!({"budget": {"usd_per_hour": 1.0}})))
}

/// Reserves for a request, and settles two of three.
fn spend(backend: &mut JudgeBackend, step: u64) {
    let money = &mut backend.judges[0].gate.money;
    money.reserve(Sender::default(), 100);
    if !step.is_multiple_of(3) {
        money.settle(STARTED_MS + step * 12_000, Sender::default(), 100, 70);
    }
}

fn booked(backend: &JudgeBackend) -> u64 {
    let money = &backend.judges[0].gate.money;
    money.reserved() + money.spent_since(0).iter().map(|(_, nano)| nano).sum::<u64>()
}

#[tokio::test]
async fn a_file_torn_anywhere_holds_what_was_written_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("judges.json");
    let mut harness = harness();
    let backend = &mut harness.core.backend;
    let mut spent = SpentFile::restore(path.clone(), backend, STARTED_MS);
    let mut states = vec![(0, 0)];
    for step in 0..30 {
        spend(backend, step);
        spent.keep(backend).await.expect("written");
        // A line without its end counts, too.
        let bytes = std::fs::metadata(&path).expect("a file").len() as usize - 1;
        states.push((bytes, booked(backend)));
    }
    let whole = std::fs::read(&path).expect("a file");
    for bytes in 0..=whole.len() {
        std::fs::write(&path, &whole[..bytes]).expect("written");
        let backend = &mut self::harness().core.backend;
        SpentFile::restore(path.clone(), backend, STARTED_MS);
        let before = states.iter().rev().find(|(written, _)| *written <= bytes);
        assert_eq!(Some(booked(backend)), before.map(|(_, booked)| *booked), "{bytes} bytes");
    }
}

#[tokio::test]
async fn changes_are_folded_into_a_whole_before_they_are_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("judges.json");
    let mut harness = harness();
    let backend = &mut harness.core.backend;
    let mut spent = SpentFile::restore(path.clone(), backend, STARTED_MS);
    let mut sizes = Vec::new();
    for step in 0..6_000 {
        spend(backend, step);
        spent.keep(backend).await.expect("written");
        sizes.push(std::fs::metadata(&path).expect("a file").len() as usize);
    }
    let most = sizes.iter().max().expect("sizes");
    assert!(*most < 2 * CHANGES_BYTES_MAX, "{most}");
    assert!(sizes.windows(2).any(|two| two[1] < two[0]), "it was written anew");
    let next = &mut self::harness().core.backend;
    SpentFile::restore(path, next, STARTED_MS + 6_000 * 12_000);
    assert_eq!(booked(next), booked(backend));
}

#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_written_anew() {
    for replaces in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("judges.json");
        let mut harness = harness();
        let backend = &mut harness.core.backend;
        let mut spent = SpentFile::restore(path.clone(), backend, STARTED_MS);
        for step in 0..6 {
            spend(backend, step);
            spent.keep(backend).await.expect("written");
            if step == 3 {
                std::fs::remove_file(&path).expect("removed");
            }
            if step == 3 && replaces {
                std::fs::write(&path, "{}\n").expect("written");
            }
        }
        let next = &mut self::harness().core.backend;
        SpentFile::restore(path, next, STARTED_MS + 6 * 25_000);
        assert_eq!(booked(next), booked(backend), "{replaces}");
    }
}
