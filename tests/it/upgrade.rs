//! Files of an earlier build, taken over by this one: `tests/fixtures/upgrade/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_pipeline::Collector;
use tokio_util::sync::CancellationToken;

use crate::support::collector::Event;
use crate::support::fake_backend::FakeBackend;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/upgrade").join(name)
}

#[tokio::test]
async fn log_of_an_earlier_build_is_judged_and_its_scores_are_delivered_once() {
    let (folder, backend) = (tempfile::tempdir().unwrap(), FakeBackend::grpc().await);
    let data = |name: &str| {
        let data = folder.path().join(name);
        std::fs::create_dir_all(data.join("log")).unwrap();
        data
    };
    std::fs::copy(fixture("log.bin"), data("first").join("log/0000000000000000.log")).unwrap();
    let text = std::fs::read_to_string(fixture("config.yaml")).unwrap();
    let start = async |data: PathBuf| {
        let lookup = |name: &str| match name {
            "UPGRADE_DATA" => Some(data.display().to_string()),
            "UPGRADE_BACKEND" => Some(backend.address.to_string()),
            _ => None,
        };
        let part = ConfigPart::Text { name: "config.yaml".into(), text: text.clone() };
        let plan = ResolvedConfig::new(&load(&[part], &lookup).unwrap()).unwrap();
        Collector::start(plan.into()).await.unwrap()
    };
    let collector = start(data("first")).await;
    backend.until(|backend| backend.log_count() >= 6).await;
    let lost = collector.shutdown(&CancellationToken::new()).await;
    assert!(lost.is_nothing() && lost.kept().is_none(), "{lost} {:?}", lost.kept());
    // Who starts with what this one left finds nothing to do.
    for file in std::fs::read_dir(data("first").join("log")).unwrap() {
        let (from, to) = (file.unwrap(), data("second").join("log"));
        std::fs::copy(from.path(), to.join(from.file_name())).unwrap();
    }
    let lost = start(data("second")).await.shutdown(&CancellationToken::new()).await;
    assert!(lost.is_nothing());
    let events = backend.log_records().into_iter().map(Event);
    let scores = events.map(|event| {
        let trace = event.0.trace_id[..2].iter().map(|byte| format!("{byte:02x}")).collect();
        ((trace, event.name().to_owned()), event.score().unwrap())
    });
    let scores: Vec<((String, String), f64)> = scores.collect();
    assert_eq!(scores.len(), 6, "each once: {scores:?}");
    let found: BTreeMap<_, _> =
        scores.iter().map(|((trace, name), score)| ((&**trace, &**name), *score)).collect();
    let expected = BTreeMap::from([
        (("0af7", "tool_call_count/frugal"), 1.0),
        (("0af7", "tool_efficiency"), 1.0),
        (("0af7", "tool_error"), 0.5),
        (("5b8e", "tool_call_count/frugal"), 0.0),
        (("5b8e", "tool_efficiency"), 0.6),
        (("5b8e", "tool_error"), 0.8),
    ]);
    assert_eq!(found, expected);
}

#[test]
fn dataset_and_recording_of_an_earlier_build_are_read() {
    let ran = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(["score", "--config"])
        .args([fixture("golden.yaml"), fixture("recorded.jsonl")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("2 evaluations: 2 pass"), "{said}");
}

#[test]
fn config_of_an_earlier_build_is_right_without_a_warning() {
    let ran = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(["check", "--config"])
        .arg(fixture("config.yaml"))
        .env("UPGRADE_DATA", tempfile::tempdir().unwrap().path())
        .output()
        .unwrap();
    let said = format!("{ran:?}");
    assert!(ran.status.success() && !said.contains("warning"), "{said}");
}
