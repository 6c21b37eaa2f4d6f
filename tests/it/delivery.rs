//! Evaluations that exporters deliver of those they are offered, and the fate of the rest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spanscore_base::model::{Claims, Evaluation, Receipt};

use crate::support::evaluations::scored;
use crate::support::exporters::{Fixture, KINDS, backend, otlp};
use crate::support::fake_backend::{Behavior, FakeBackend};
use crate::support::patience::{eventually, once};

fn evaluations(ids: impl Iterator<Item = u8>) -> Vec<Evaluation> {
    ids.map(|n| scored(n, 1.0)).collect()
}

/// The first bytes of the ids of the spans that a backend has, in order.
fn span_ids(backend: &FakeBackend) -> Vec<u8> {
    let mut ids: Vec<_> = backend.spans().iter().map(|span| span.span_id[0]).collect();
    ids.sort_unstable();
    ids
}

fn dead_letters(folder: &Path, kind: &str) -> PathBuf {
    folder.join(format!("dead_letters/{kind}.jsonl"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backend_that_refuses_one_in_ten_gets_the_others_and_the_rest_can_be_sent_again() {
    for kind in KINDS {
        let (backend, folder) = (backend(kind).await, tempfile::tempdir().expect("a folder"));
        backend.refuse_records(|id| id.is_multiple_of(10));
        let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, kind, ""));
        fixture.offer(evaluations(1..=100));
        assert_eq!(fixture.shutdown().await, []);
        let taken: Vec<_> = (1..=100).filter(|id| id % 10 != 0).collect();
        assert_eq!((span_ids(&backend), backend.log_count()), (taken, 90), "{kind}");
        let labels = format!(r#"exporter="{kind}",reason="dead_lettered""#);
        assert_eq!(fixture.counter("send_failed", &labels), 10);
        assert_eq!(fixture.counter("sent", &format!(r#"exporter="{kind}""#)), 90);
        assert_eq!(fixture.exporters.lost().iter().map(|lost| lost.count).sum::<u64>(), 0);
        fixture.adds_up().await;
        let letters = format!(r#"exporter="{kind}",outcome="written""#);
        assert_eq!(fixture.metric("dead_letters_total", &letters), 20);
        let sink = FakeBackend::http().await;
        send(&dead_letters(folder.path(), kind), &sink);
        assert_eq!((span_ids(&sink), sink.log_count()), ((10..=100).step_by(10).collect(), 10));
    }
}

/// Sends a file to a backend with the program.
fn send(file: &Path, sink: &FakeBackend) {
    let endpoint = format!("http://{}/base", sink.address);
    let mut program = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    let sent = program.args(["send", "--endpoint", &endpoint]).arg(file).output().expect("runs");
    assert!(sent.status.success(), "{sent:?}");
}

#[tokio::test]
async fn backend_that_refuses_everything_is_not_asked_about_every_record() {
    let (backend, folder) = (FakeBackend::grpc().await, tempfile::tempdir().expect("a folder"));
    backend.always(Behavior::Refuse);
    let more = r#","forms": ["span"]"#;
    let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, "otlp_grpc", more));
    fixture.offer(evaluations(0..=255));
    eventually(|| {
        let failed = fixture.sum("send_failed_evaluations_total");
        once(failed >= 256, || format!("{failed} are refused"))
    })
    .await;
    let asked = backend.requests();
    assert!((20..=70).contains(&asked), "{asked}");
    // Having refused one in all its parts, it is asked once about the next.
    fixture.offer(evaluations(0..=255));
    assert_eq!(fixture.shutdown().await, []);
    assert_eq!(backend.requests(), asked + 1);
    let labels = r#"exporter="otlp_grpc",reason="dead_lettered""#;
    assert_eq!(fixture.counter("send_failed", labels), 512);
    let text = std::fs::read_to_string(dead_letters(folder.path(), "otlp_grpc")).expect("letters");
    assert_eq!(text.matches("\"spanId\"").count(), 512);
}

#[tokio::test]
async fn without_a_folder_what_is_refused_for_good_is_lost() {
    let backend = FakeBackend::http().await;
    backend.refuse_records(|id| id == 3);
    let fixture = Fixture::start(&otlp(&backend, "otlp_http", ""));
    fixture.offer(evaluations(1..=9));
    assert_eq!(fixture.shutdown().await, []);
    assert_eq!(fixture.counter("sent", r#"exporter="otlp_http""#), 8);
    assert_eq!(fixture.counter("send_failed", r#"exporter="otlp_http",reason="refused""#), 1);
    assert_eq!(fixture.exporters.lost()[0].count, 1);
}

/// Counts receipts that were let go because their evaluations have arrived.
#[derive(Clone, Default)]
struct Arrivals(Arc<AtomicU64>);

impl Arrivals {
    fn receipt(&self) -> Receipt {
        let arrived = Arc::clone(&self.0);
        Receipt::new(Claims::default(), move || {
            arrived.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn what_a_dead_backend_has_not_taken_at_the_end_is_left_and_not_lost() {
    for kind in KINDS {
        let (backend, folder) = (FakeBackend::dead(), tempfile::tempdir().expect("a folder"));
        let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, kind, ""));
        let arrivals = Arrivals::default();
        for n in 1..=3 {
            fixture.exporters.offer(evaluations(n..=n), Some(arrivals.receipt()));
        }
        fixture.exporters.offer(evaluations(9..=9), None);
        let unsent = fixture.exporters.shutdown(tokio::time::sleep(Duration::from_millis(500)));
        assert_eq!(unsent.await[0].count, 1, "{kind}");
        let left = fixture.exporters.left();
        assert_eq!((left[0].name.as_str(), left[0].count), (kind, 3));
        assert_eq!((arrivals.count(), fixture.lost()), (0, 1));
        fixture.adds_up().await;
    }
}

#[tokio::test]
async fn exporters_that_need_not_deliver_keep_no_receipt() {
    let (backend, folder) = (FakeBackend::dead(), tempfile::tempdir().expect("a folder"));
    let more = r#","must_deliver": false"#;
    let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, "otlp_grpc", more));
    let arrivals = Arrivals::default();
    fixture.exporters.offer(evaluations(1..=1), Some(arrivals.receipt()));
    assert_eq!(arrivals.count(), 1);
}

/// Offers traces of one evaluation until so many are offered, as fast as the queue has room.
async fn offer_many(fixture: &Fixture, count: usize, arrivals: &Arrivals) -> u64 {
    let mut most = 0;
    for n in 0..count {
        fixture.exporters.offer(evaluations([n as u8].into_iter()), Some(arrivals.receipt()));
        if n % 20 == 0 {
            let mut held = fixture.sum("queue_size_bytes");
            most = most.max(held);
            while held > 80_000 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                held = fixture.sum("queue_size_bytes");
            }
        }
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backend_that_was_away_gets_what_went_to_disk_and_its_circuit_closes() {
    for kind in KINDS {
        let (backend, folder) = (backend(kind).await, tempfile::tempdir().expect("a folder"));
        backend.always(Behavior::Unavailable);
        let more = r#","sending_queue": {"queue_size": 100000, "overflow_mib": 64}"#;
        let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, kind, more));
        let arrivals = Arrivals::default();
        let most = offer_many(&fixture, 2000, &arrivals).await;
        assert!((50_000..=100_000).contains(&most), "{most}");
        assert!(fixture.sum("overflow_evaluations") > 1000);
        assert!(fixture.sum("circuit_state") > 0);
        fixture.adds_up().await;
        let asked = backend.requests();
        tokio::time::sleep(Duration::from_millis(500)).await;
        // One probe at a time, each after 20 ms and a bit.
        let probes = backend.requests() - asked;
        assert!((1..=60).contains(&probes), "{probes}");
        backend.always(Behavior::Take);
        backend.until(|backend| backend.spans().len() == 2000).await;
        assert_eq!(fixture.shutdown().await, []);
        assert_eq!((backend.log_count(), arrivals.count()), (2000, 2000));
        assert_eq!((fixture.lost(), fixture.sum("circuit_state")), (0, 0));
        fixture.adds_up().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_went_to_disk_is_sent_by_the_next_process() {
    let (backend, folder) = (FakeBackend::http().await, tempfile::tempdir().expect("a folder"));
    backend.always(Behavior::Unavailable);
    let more = r#","sending_queue": {"queue_size": 100000, "overflow_mib": 64}"#;
    let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, "otlp_http", more));
    let arrivals = Arrivals::default();
    offer_many(&fixture, 1000, &arrivals).await;
    assert_eq!(fixture.exporters.shutdown(tokio::time::sleep(Duration::ZERO)).await, []);
    let on_disk = fixture.sum("overflow_evaluations");
    assert_eq!(fixture.exporters.left()[0].count, 1000);
    assert_eq!(fixture.sum("left_evaluations_total") + on_disk, 1000);
    assert!(arrivals.count() <= on_disk, "{} of {on_disk}", arrivals.count());
    drop(fixture);
    backend.always(Behavior::Take);
    let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, "otlp_http", more));
    backend.until(|backend| backend.spans().len() as u64 >= on_disk).await;
    eventually(|| {
        let kept = fixture.sum("overflow_evaluations");
        once(kept == 0, || format!("{kept} are on the disk"))
    })
    .await;
    fixture.shutdown().await;
    fixture.adds_up().await;
    // What was being written when the first process gave up may stand there, too.
    let recovered = fixture.sum("recovered_evaluations_total");
    assert_eq!(recovered, backend.spans().len() as u64);
    assert!((on_disk..=1000).contains(&recovered), "{recovered} of {on_disk}");
}

#[tokio::test]
async fn counters_add_up_where_a_backend_takes_requests_in_part() {
    let (backend, folder) = (FakeBackend::grpc().await, tempfile::tempdir().expect("a folder"));
    backend.next(&[Behavior::Reject(2), Behavior::Unavailable, Behavior::Refuse]);
    let more = r#","forms": ["span"], "sending_queue": {"batch": {"max_size": 3}}"#;
    let fixture = Fixture::start_in(Some(folder.path()), &otlp(&backend, "otlp_grpc", more));
    let arrivals = Arrivals::default();
    for n in 0..30 {
        fixture.exporters.offer(evaluations(n..=n), Some(arrivals.receipt()));
    }
    assert_eq!(fixture.shutdown().await, []);
    fixture.adds_up().await;
    assert_eq!((fixture.lost(), arrivals.count()), (2, 30));
}
