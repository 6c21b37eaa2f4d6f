//! A backend that is away, slow, or back, with an overflow on disk.

use std::path::Path;

use tokio::sync::watch;

use super::*;
use crate::log::Durability;

/// An end that takes nothing while its backend is away.
#[derive(Clone)]
struct Remote {
    is_there: watch::Receiver<bool>,
    taken: Arc<AtomicU64>,
    takes: Duration,
}

impl Remote {
    fn new(is_there: bool) -> (watch::Sender<bool>, Self) {
        let (sender, is_there) = watch::channel(is_there);
        (sender, Self { is_there, taken: Arc::default(), takes: Duration::ZERO })
    }

    async fn take(&self, count: u64) -> Delivery {
        let _ = self.is_there.clone().wait_for(|is_there| *is_there).await;
        tokio::time::sleep(self.takes).await;
        self.taken.fetch_add(count, Ordering::Relaxed);
        Delivery { sent: count, lost: Vec::new() }
    }

    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

fn count(batch: &EvaluationBatch) -> u64 {
    batch.iter().map(|part| part.len() as u64).sum()
}

impl Deliver for Remote {
    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        self.take(count(&batch)).await
    }

    fn pack(&self, batch: &EvaluationBatch) -> Vec<Parcel> {
        let parcel = |part: &Arc<[Evaluation]>| Parcel {
            count: part.len() as u32,
            payload: vec![7; 100].into(),
        };
        batch.iter().map(parcel).collect()
    }

    async fn deliver_parcel(&self, parcel: Parcel) -> Delivery {
        assert_eq!(parcel.payload, [7; 100][..]);
        self.take(parcel.count.into()).await
    }
}

fn overflow(folder: &Path, bytes_max: u64) -> Option<Overflow> {
    let limits = OverflowLimits { bytes_max, durability: Durability::Os };
    Some(Overflow::open(folder, limits).expect("opens"))
}

const MIB: u64 = 1 << 20;

/// Lets the other tasks, and the thread that writes, go on without time passing.
async fn until(mut ready: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !ready() {
        tokio::task::yield_now().await;
        std::thread::sleep(Duration::from_micros(200));
        assert!(started.elapsed() < Duration::from_secs(60), "waited in vain");
    }
}

/// Offers two evaluations of 10 bytes every 100 ms; the most bytes that were held.
async fn load(fixture: &Fixture, duration: Duration, arrivals: &Arrivals) -> usize {
    let (started, mut most) = (Instant::now(), 0);
    let held = &fixture.queue.shared.held;
    while started.elapsed() < duration {
        fixture.offer_kept(2, 20, arrivals);
        most = most.max(held.bytes());
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Simulated time does not wait for the disk.
        until(|| held.bytes() <= 900).await;
    }
    most
}

#[tokio::test(start_paused = true)]
async fn backend_away_for_ten_minutes_under_load_gets_everything_once_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((there, remote), arrivals) = (Remote::new(true), Arrivals::default());
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    load(&fixture, Duration::from_secs(60), &arrivals).await;
    assert_eq!(fixture.sum("spanscore_exporter_overflow_evaluations"), 0);
    there.send_replace(false);
    let most = load(&fixture, Duration::from_secs(600), &arrivals).await;
    assert!((500..=1000).contains(&most), "{most}");
    let overflown = fixture.sum("spanscore_exporter_overflow_evaluations");
    assert!((11_800..12_000).contains(&overflown), "{overflown}");
    // What is on disk waits for nobody.
    let known = arrivals.count() + fixture.queue.shared.held.evaluations() / 2;
    // Of the batch that is being moved, a part may be on disk while its receipts wait.
    assert!((6598..=6600).contains(&known), "{known}");
    fixture.adds_up();
    there.send_replace(true);
    load(&fixture, Duration::from_secs(60), &arrivals).await;
    until(|| fixture.queue.overflown() == 0).await;
    fixture.end().await;
    assert_eq!((remote.taken(), arrivals.count()), (14_400, 7200));
    fixture.adds_up();
    fixture.shows(r#"spanscore_exporter_sent_evaluations_total{exporter="x"} 14400"#);
}

#[tokio::test(start_paused = true)]
async fn what_is_on_disk_at_the_end_is_sent_by_the_next_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((_there, remote), arrivals) = (Remote::new(false), Arrivals::default());
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    load(&fixture, Duration::from_secs(60), &arrivals).await;
    let Abandoned { lost, left } = fixture.queue.abandon(&mut fixture.task).await;
    let overflown = fixture.queue.overflown();
    assert_eq!((lost, left + overflown), (0, 1200));
    // What is neither on disk nor delivered is not taken for arrived.
    assert!((1..=overflown).contains(&(arrivals.count() * 2)), "{}", arrivals.count());
    fixture.adds_up();
    drop(fixture);
    let (_there, remote) = Remote::new(true);
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    until(|| remote.taken() >= overflown && fixture.queue.overflown() == 0).await;
    fixture.end().await;
    fixture.adds_up();
    // The one that was being written when the first gave up may stand there, too.
    assert!((overflown..=overflown + 2).contains(&remote.taken()), "{}", remote.taken());
    assert_eq!(fixture.sum("spanscore_exporter_recovered_evaluations_total"), remote.taken());
}

#[tokio::test(start_paused = true)]
async fn backend_slower_than_the_load_loses_nothing_while_there_is_room_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_there, remote) = Remote::new(true);
    let remote = Remote { takes: Duration::from_secs(2), ..remote };
    let arrivals = Arrivals::default();
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    let most = load(&fixture, Duration::from_secs(120), &arrivals).await;
    assert!(most <= 1000, "{most}");
    assert!(fixture.queue.overflown() > 0 && remote.taken() > 0);
    fixture.adds_up();
    while fixture.queue.overflown() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    fixture.end().await;
    assert_eq!((remote.taken(), arrivals.count()), (2400, 1200));
    fixture.adds_up();
}

#[tokio::test(start_paused = true)]
async fn what_neither_memory_nor_disk_has_room_for_is_dropped_with_its_own_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((there, remote), arrivals) = (Remote::new(false), Arrivals::default());
    // An overflow that takes nothing, as a full one.
    std::fs::create_dir_all(folder.path().join("x")).expect("a folder");
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(&folder.path().join("x"), 0), remote.clone());
    for _ in 0..100 {
        fixture.offer_kept(2, 20, &arrivals);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="overflow_full"}} 100"#));
    assert_eq!(arrivals.count(), 50);
    fixture.adds_up();
    there.send_replace(true);
    fixture.end().await;
    assert_eq!((remote.taken(), arrivals.count()), (100, 100));
    fixture.adds_up();
}
