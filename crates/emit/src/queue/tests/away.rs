//! Backend that is away, slow, or back, with an overflow on disk.

use std::path::Path;

use tokio::sync::watch;

use super::*;
use spanscore_log::{Durability, Folder, Log, LogLimits, WhenFull, system_clock};

/// Destination that accepts nothing while its backend is away.
#[derive(Clone)]
struct Remote {
    is_there: watch::Receiver<bool>,
    taken: Arc<AtomicU64>,
    takes: Duration,
    /// True if it reports its backend as away.
    is_away: bool,
}

impl Remote {
    fn new(is_there: bool) -> (watch::Sender<bool>, Self) {
        let (sender, is_there) = watch::channel(is_there);
        let taken = Arc::default();
        let takes = Duration::ZERO;
        (sender, Self { is_there, taken, takes, is_away: false })
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
    fn is_away(&self) -> bool {
        self.is_away
    }

    async fn deliver(&self, batch: EvaluationBatch) -> Delivery {
        self.take(count(&batch)).await
    }

    async fn pack(&self, batch: &EvaluationBatch) -> Result<Vec<Parcel>, Panicked> {
        let parcel = |part: &Arc<[Evaluation]>| Parcel {
            count: part.len() as u32,
            payload: vec![7; 100].into(),
        };
        Ok(batch.iter().map(parcel).collect())
    }

    async fn deliver_parcel(&self, parcel: Parcel) -> Delivery {
        assert_eq!(parcel.payload, [7; 100][..]);
        self.take(parcel.count.into()).await
    }
}

fn overflow(folder: &Path, bytes_max: u64) -> Option<Overflow> {
    let limits = OverflowLimits { bytes_max, durability: Durability::Os };
    Some(Overflow::open(folder, limits, None).expect("opens"))
}

const MIB: u64 = 1 << 20;

/// Opens a process log in a folder.
fn log(folder: &Path, size_max: u64) -> Log {
    let limits = LogLimits {
        reserve: 0,
        size_max,
        segment: size_max / 8,
        age_max_ns: u64::MAX,
        when_full: WhenFull::Refuse,
        waiting_max: MIB,
        sync_interval: Duration::from_secs(3600),
        durability: Durability::Os,
    };
    let disk = Arc::new(Folder::open(folder).expect("a folder"));
    Log::open(disk, limits, system_clock()).expect("opens").0
}

/// Runs other tasks and the writing thread until ready, without advancing time.
async fn until(mut ready: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !ready() {
        tokio::task::yield_now().await;
        std::thread::sleep(Duration::from_micros(200));
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain");
    }
}

/// Offers two evaluations of 10 bytes every 100 ms; returns the peak of held bytes.
async fn load(fixture: &Fixture, duration: Duration, arrivals: &Arrivals) -> usize {
    let started = Instant::now();
    let mut most = 0;
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
    let (there, remote) = Remote::new(true);
    let arrivals = Arrivals::default();
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    load(&fixture, Duration::from_secs(60), &arrivals).await;
    assert_eq!(fixture.sum("spanscore_exporter_overflow_evaluations"), 0);
    there.send_replace(false);
    let most = load(&fixture, Duration::from_secs(600), &arrivals).await;
    assert!((500..=1000).contains(&most), "{most}");
    let overflown = fixture.sum("spanscore_exporter_overflow_evaluations");
    assert!((11_800..12_000).contains(&overflown), "{overflown}");
    // Evaluations on disk wait for nobody.
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
    let (_there, remote) = Remote::new(false);
    let arrivals = Arrivals::default();
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    load(&fixture, Duration::from_secs(60), &arrivals).await;
    let Abandoned { lost, left } = fixture.queue.abandon(&mut fixture.task).await;
    let overflown = fixture.queue.overflown();
    assert_eq!((lost, left + overflown), (0, 1200));
    // Evaluations neither on disk nor delivered do not count as arrived.
    assert!((1..=overflown).contains(&(arrivals.count() * 2)), "{}", arrivals.count());
    fixture.adds_up();
    drop(fixture);
    let (_there, remote) = Remote::new(true);
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    until(|| remote.taken() >= overflown && fixture.queue.overflown() == 0).await;
    fixture.end().await;
    fixture.adds_up();
    // The one being written when the first gave up may be there, too.
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
async fn overflow_without_room_of_its_own_uses_that_of_the_log_and_gives_it_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = log(&folder.path().join("log"), MIB);
    let limits = OverflowLimits { bytes_max: 0, durability: Durability::Os };
    let overflow = Overflow::open(&folder.path().join("x"), limits, Some(log.downgrade()));
    let (there, remote) = Remote::new(false);
    let arrivals = Arrivals::default();
    let mut fixture = Fixture::start_with(LIMITS, Some(overflow.expect("opens")), remote.clone());
    load(&fixture, Duration::from_secs(60), &arrivals).await;
    assert!(log.usage().lent > 10_000, "{:?}", log.usage());
    assert_eq!(fixture.sum(REFUSED) + fixture.sum(FAILED), 0);
    there.send_replace(true);
    until(|| remote.taken() == 1200 && fixture.queue.overflown() == 0).await;
    until(|| {
        // Reading metrics requests it.
        let _ = fixture.queue.overflow().map(|overflow| overflow.bytes());
        log.usage().lent == 0
    })
    .await;
    fixture.end().await;
    fixture.adds_up();
}

#[tokio::test(start_paused = true)]
async fn what_finds_no_room_anywhere_stays_in_the_log_for_the_next_start() {
    let source = Arc::new(spanscore_base::model::Source::default());
    let (there, remote) = Remote::new(false);
    let mut fixture = Fixture::start_with(LIMITS, None, remote.clone());
    for position in 0..100 {
        let receipt = Receipt::new(source.claim(position, 1).into(), || ());
        let some: Arc<[_]> = vec![sample::scored(1.0); 2].into();
        fixture.queue.offer(&some, 20, Some(&receipt));
    }
    there.send_replace(true);
    until(|| remote.taken() == 100).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((fixture.queue.left(), source.lowest()), (100, Some(50)), "the log keeps it");
    assert_eq!(fixture.sum(REFUSED) + fixture.sum(FAILED), 0);
    fixture.adds_up();
    fixture.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_finds_no_room_and_is_in_no_log_is_lost_and_holds_its_partition_back_no_more() {
    let source = Arc::new(spanscore_base::model::Source::default());
    let (there, remote) = Remote::new(false);
    let mut fixture = Fixture::start_with(LIMITS, None, remote.clone());
    for offset in 0..100 {
        let receipt = Receipt::new(source.claim(offset, 0).into(), || ());
        let some: Arc<[_]> = vec![sample::scored(1.0); 2].into();
        fixture.queue.offer(&some, 20, Some(&receipt));
    }
    fixture.shows(&format!(r#"{REFUSED}{{exporter="x",reason="queue_full"}} 100"#));
    there.send_replace(true);
    until(|| remote.taken() == 100 && source.lowest().is_none()).await;
    assert_eq!(fixture.queue.left(), 0);
    fixture.adds_up();
    fixture.end().await;
}

#[tokio::test(start_paused = true)]
async fn log_keeps_what_a_task_held_that_was_stopped_while_the_process_goes_on() {
    let source = Arc::new(spanscore_base::model::Source::default());
    let (_there, remote) = Remote::new(false);
    let mut fixture = Fixture::start_with(LIMITS, None, remote);
    let receipt = Receipt::new(source.claim(5, 1).into(), || ());
    let some: Arc<[_]> = vec![sample::scored(1.0); 2].into();
    fixture.queue.offer(&some, 20, Some(&receipt));
    drop(receipt);
    tokio::time::sleep(Duration::from_secs(1)).await;
    fixture.task.abort();
    let _ = (&mut fixture.task).await;
    until(|| fixture.queue.left() == 2).await;
    assert_eq!(source.lowest(), Some(5));
    fixture.adds_up();
}

#[tokio::test(start_paused = true)]
async fn process_that_ends_does_not_wait_for_a_backend_that_is_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Arc::new(spanscore_base::model::Source::default());
    let (_there, mut remote) = Remote::new(false);
    remote.is_away = true;
    let mut fixture =
        Fixture::start_with(LIMITS, overflow(folder.path(), 64 * MIB), remote.clone());
    for position in 0..10 {
        let receipt = Receipt::new(source.claim(position, 1).into(), || ());
        let some: Arc<[_]> = vec![sample::scored(1.0); 2].into();
        fixture.queue.offer(&some, 20, Some(&receipt));
    }
    let started = Instant::now();
    fixture.queue.end_with_process();
    (&mut fixture.task).await.expect("the task ends");
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((fixture.queue.left(), remote.taken()), (20, 0));
    fixture.adds_up();
}

#[tokio::test(start_paused = true)]
async fn what_neither_memory_nor_disk_has_room_for_is_dropped_with_its_own_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (there, remote) = Remote::new(false);
    let arrivals = Arrivals::default();
    // An overflow that accepts nothing, like a full one.
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
