mod compaction;
mod fake;
mod faults;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use fake::{Call, FakeDisk, Fault};

const MIB: u64 = 1 << 20;

fn limits(durability: Durability) -> LogLimits {
    LogLimits {
        size_max: 8 * MIB,
        segment: 300,
        age_max_ns: u64::MAX,
        when_full: WhenFull::Refuse,
        waiting_max: MIB,
        reserve: 0,
        sync_interval: Duration::from_secs(3600),
        durability,
    }
}

fn open(disk: &FakeDisk, limits: LogLimits) -> (Log, Recovered, Claim) {
    let clock: Clock = Arc::new(|| 1);
    Log::open(Arc::new(disk.clone()), limits, clock).unwrap()
}

fn head(number: u8) -> RecordHead {
    RecordHead { arrival_ns: number.into(), tags: [7, number, 0, 0] }
}

fn payload(number: u8, len: usize) -> Bytes {
    vec![number; len].into()
}

/// Appends a record, and waits for the answer.
fn append(log: &Log, number: u8, len: usize) -> Result<Claim, AppendError> {
    runtime().block_on(log.append(head(number), payload(number, len)))
}

/// Longest wait for an expected event: a bound for failing tests, not a measure of speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a log meets a condition.
fn eventually(log: &Log, mut is_so: impl FnMut() -> bool) {
    let waits = Instant::now();
    while !is_so() {
        assert!(waits.elapsed() < PATIENCE, "{:?}", log.usage());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Returns the numbers of the records in a log, and the number of skipped bytes.
fn found(log: &Log) -> (Vec<u8>, u64) {
    let mut numbers = Vec::new();
    let mut skipped = 0;
    for record in log.records() {
        match record {
            Ok(record) if record.head.tags[0] == PROBE_TAG => {}
            Ok(record) => numbers.push(record.head.tags[1]),
            Err(bytes) => skipped += bytes.bytes,
        }
    }
    (numbers, skipped)
}

#[test]
fn records_are_read_again_after_the_process_ended() {
    let disk = FakeDisk::default();
    let mut places = Vec::new();
    {
        let (log, recovered, _) = open(&disk, limits(Durability::Os));
        assert_eq!(recovered, Recovered::default());
        for number in 0..20 {
            places.push(append(&log, number, usize::from(number)).unwrap().position());
        }
        assert_eq!(log.read(places[9]).unwrap().payload, payload(9, 9), "read while it is open");
        assert!(log.usage().segments > 2, "{:?}", log.usage());
    }
    let (log, recovered, _all) = open(&disk, limits(Durability::Os));
    assert_eq!(found(&log), ((0..20).collect(), 0));
    assert_eq!((recovered.cut_bytes, recovered.set_aside.len()), (0, 0));
    let read = log.read(places[17]).unwrap();
    assert_eq!((read.head, read.payload), (head(17), payload(17, 17)));
    let next = append(&log, 20, 1).unwrap();
    assert!(next.position() > places[19], "positions only grow");
    assert_eq!(log.read(places[3] + 1).unwrap_err().kind(), ErrorKind::NotFound);
    let from: Vec<_> = log.records_from(places[18]).map(|it| it.unwrap().head.tags[1]).collect();
    assert_eq!(from, [18, 19, 20]);
    let heads: Vec<_> = log.records().heads(&[8]).collect();
    assert!(heads.len() == 20 && heads.iter().all(|record| record.payload.is_empty()));
    assert_eq!(log.records().heads(&[7]).nth(5).unwrap().payload, payload(5, 5));
}

#[test]
fn segments_go_when_nobody_claims_a_position_in_them() {
    let disk = FakeDisk::default();
    let (log, _, all) = open(&disk, limits(Durability::Os));
    let claims: Vec<_> = (0..30).map(|number| append(&log, number, 50).unwrap()).collect();
    drop(all);
    let kept = claims[20].clone();
    let mut gone = claims;
    gone.clear();
    eventually(&log, || log.usage().segments <= 5);
    assert_eq!(log.read(kept.position()).unwrap().payload, payload(20, 50));
    assert_eq!(log.usage().counts.dropped_segments, 0, "nobody needed them");
    drop(log);
    let (log, ..) = open(&disk, limits(Durability::Os));
    let (numbers, _) = found(&log);
    assert!(numbers[0] > 10 && numbers.contains(&20) && numbers.ends_with(&[29]), "{numbers:?}");
}

#[test]
fn log_of_a_process_that_ends_keeps_what_its_claims_let_go_of() {
    let disk = FakeDisk::default();
    let (log, _, all) = open(&disk, limits(Durability::Os));
    for number in 0..9 {
        append(&log, number, 100).unwrap();
    }
    log.keep_all();
    drop(all);
    // The writer checks for removal at least once during these writes, which take some milliseconds
    // each.
    let waits = Instant::now();
    while waits.elapsed() < Duration::from_millis(300) {
        append(&log, 9, 0).unwrap();
    }
    assert!(runtime().block_on(log.flush()));
    drop(log);
    let (log, ..) = open(&disk, limits(Durability::Os));
    assert_eq!(found(&log).0[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn full_log_refuses_or_drops_the_oldest_and_counts_it() {
    let small = LogLimits { size_max: 1000, ..limits(Durability::Os) };
    let (log, _, all) = open(&FakeDisk::default(), small);
    let mut claims = Vec::new();
    let refused = loop {
        match append(&log, 1, 50) {
            Ok(claim) => claims.push(claim),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AppendError::Full);
    assert!(log.usage().is_full);
    let count = claims.len();
    claims.clear();
    drop(all);
    let waits = Instant::now();
    while log.usage().is_full {
        assert!(waits.elapsed() < Duration::from_secs(10), "{:?}", log.usage());
        std::thread::yield_now();
    }
    assert!((5..12).contains(&count), "{count}");

    let drops = LogLimits { when_full: WhenFull::DropOldest, ..small };
    let (log, _, _all) = open(&FakeDisk::default(), drops);
    let claims: Vec<_> = (0..30).map(|number| append(&log, number, 50).unwrap()).collect();
    let usage = log.usage();
    assert!(usage.bytes <= 1000 && usage.counts.dropped_segments > 3, "{usage:?}");
    assert!(log.read(claims[0].position()).is_err() && log.read(claims[29].position()).is_ok());
}

#[test]
fn log_with_room_for_usual_records_is_not_full_after_a_large_one_had_none() {
    let small = LogLimits { size_max: 64_000, segment: 8_000, ..limits(Durability::Os) };
    let (log, ..) = open(&FakeDisk::default(), small);
    let mut claims = Vec::new();
    while log.usage().bytes + log.usage().waiting < 60_500 {
        claims.push(append(&log, 1, 450).unwrap());
    }
    assert_eq!(append(&log, 2, 7_000).unwrap_err(), AppendError::Full);
    eventually(&log, || !log.usage().is_full);
    while let Ok(claim) = append(&log, 1, 450) {
        claims.push(claim);
    }
    eventually(&log, || log.usage().waiting == 0);
    assert!(log.usage().is_full, "there is room for one more at most: {:?}", log.usage());
}

#[test]
fn records_beyond_a_limit_are_refused_before_the_log() {
    let (log, ..) = open(&FakeDisk::default(), limits(Durability::Os));
    let len = MIB as usize - RECORD_HEAD_BYTES;
    assert_eq!(append(&log, 1, len + 1).err(), Some(AppendError::TooLarge));
    let claim = append(&log, 1, len).unwrap();
    assert_eq!(log.read(claim.position()).unwrap().payload, payload(1, len), "in a segment alone");
}

#[test]
fn what_is_too_old_is_dropped_and_counted() {
    let old = LogLimits { age_max_ns: 1000, ..limits(Durability::Os) };
    let (log, _, _all) = open(&FakeDisk::default(), old);
    let claim = append(&log, 1, 250).unwrap();
    let _next = append(&log, 2, 250).unwrap();
    eventually(&log, || log.read(claim.position()).is_err());
    assert!(log.usage().counts.dropped_segments > 0);
}

#[test]
fn a_clock_that_leaps_drops_nothing_that_is_needed() {
    const DAY_NS: u64 = 24 * 3_600_000_000_000;
    const NOW_NS: u64 = 20_000 * DAY_NS;
    let disk = FakeDisk::default();
    let a_day = LogLimits { age_max_ns: DAY_NS, ..limits(Durability::Os) };
    let mut written = 0;
    // Set back to 1970, right again, ahead, and right again; each time in a new process.
    for times in [[NOW_NS, DAY_NS], [DAY_NS, NOW_NS], [2 * NOW_NS, NOW_NS]] {
        let time = Arc::new(AtomicU64::new(times[0]));
        let told = Arc::clone(&time);
        let clock: Clock = Arc::new(move || told.load(Ordering::Relaxed));
        let (log, _, _all) = Log::open(Arc::new(disk.clone()), a_day, clock).unwrap();
        for time_ns in times {
            time.store(time_ns, Ordering::Relaxed);
            for _ in 0..4 {
                written += 1;
                append(&log, written, 250).unwrap();
            }
            let written = Instant::now();
            // The writer checks ten times a second.
            eventually(&log, || written.elapsed() > Duration::from_millis(250));
        }
        assert_eq!(log.usage().counts.dropped_segments, 0);
        log.keep_all();
    }
    let (log, _, _all) = open(&disk, a_day);
    assert_eq!(found(&log).0, (1..=written).collect::<Vec<u8>>());
}

/// Returns a log of a few records as its one file.
fn small_log() -> (String, Vec<u8>) {
    let disk = FakeDisk::default();
    let (log, ..) = open(&disk, LogLimits { segment: MIB, ..limits(Durability::Os) });
    for number in 1..5 {
        append(&log, number, 10 * usize::from(number)).unwrap();
    }
    drop(log);
    let name = disk.names().remove(0);
    let bytes = disk.bytes(&name);
    (name, bytes)
}

/// Opens the remains of a log of four records. The records read are among them, in order, and the
/// log is writable.
fn check_damaged(name: &str, bytes: Vec<u8>) -> (Vec<u8>, u64) {
    let disk = FakeDisk::with(name, bytes);
    let (log, recovered, _all) = open(&disk, limits(Durability::Os));
    for record in log.records().flatten() {
        let number = record.head.tags[1];
        assert_eq!(record.payload, payload(number, 10 * usize::from(number)), "invented");
    }
    let (numbers, skipped) = found(&log);
    assert!(numbers.is_sorted() && numbers.iter().all(|number| (1..5).contains(number)));
    let new = append(&log, 9, 5).unwrap();
    assert_eq!(log.read(new.position()).unwrap().payload, payload(9, 5));
    let aside = if recovered.set_aside.is_empty() { 0 } else { 1 };
    (numbers, skipped + recovered.cut_bytes + aside)
}

#[test]
fn every_truncation_of_a_log_is_opened_and_leaves_what_was_whole() {
    let (name, bytes) = small_log();
    for len in 0..bytes.len() {
        let (numbers, left_out) = check_damaged(&name, bytes[..len].to_vec());
        let ends = [32 + 46, 32 + 46 + 56, 32 + 46 + 56 + 66];
        let whole = ends.iter().filter(|end| **end <= len).count();
        assert_eq!(numbers.len(), whole, "cut at {len}");
        let is_between = len == 0 || len == 32 || ends.contains(&len);
        assert_eq!(left_out == 0, is_between, "cut at {len} says what it left out");
    }
}

#[test]
fn every_flipped_byte_of_a_log_costs_one_record_at_most_and_is_told() {
    let (name, bytes) = small_log();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x41;
        let (numbers, left_out) = check_damaged(&name, flipped);
        match at {
            // The head of the file is damaged: it is set aside. Its last four bytes have no effect.
            0..28 => assert!(numbers.is_empty() && left_out > 0, "at {at}"),
            28..32 => assert_eq!(numbers, [1, 2, 3, 4]),
            _ => assert!(numbers.len() == 3 && left_out > 0, "at {at}: {numbers:?} {left_out}"),
        }
    }
}

#[test]
fn disk_that_is_full_or_fails_refuses_and_recovers_by_itself() {
    let faults = [
        (Call::Append, Fault::Error(ErrorKind::StorageFull)),
        (Call::Append, Fault::Torn),
        (Call::Append, Fault::Error(ErrorKind::Other)),
        (Call::Create, Fault::Error(ErrorKind::StorageFull)),
        (Call::Sync, Fault::Error(ErrorKind::Other)),
        (Call::SyncFolder, Fault::Error(ErrorKind::Other)),
    ];
    for (call, fault) in faults {
        let disk = FakeDisk::default();
        let (log, ..) = open(&disk, limits(Durability::Disk));
        append(&log, 1, 100).unwrap();
        append(&log, 2, 100).unwrap();
        disk.plan(move |at| (at == call).then_some(fault));
        // The third begins a new segment.
        assert_eq!(append(&log, 3, 100).err(), Some(AppendError::Failed), "{call:?} {fault:?}");
        assert!(log.usage().is_failing, "{call:?} {fault:?}");
        disk.heal();
        append(&log, 4, 100).unwrap();
        assert!(!log.usage().is_failing, "{call:?} {fault:?}");
        drop(log);
        disk.lose_power(0);
        let (log, ..) = open(&disk, limits(Durability::Disk));
        let (mut numbers, _) = found(&log);
        // A refused record may still be in the log: a refusal does not promise its absence.
        numbers.retain(|number| *number != 3);
        assert_eq!(numbers, [1, 2, 4], "{call:?} {fault:?}");
    }
}

#[test]
fn log_whose_writer_is_gone_refuses_instead_of_waiting() {
    let disk = FakeDisk::default();
    let (log, ..) = open(&disk, limits(Durability::Os));
    disk.plan(|_| panic!("a fault of the test"));
    assert_eq!(append(&log, 1, 10).err(), Some(AppendError::Failed));
    log.0.queue.wait_end(END_WAIT);
    assert_eq!(append(&log, 2, 10).err(), Some(AppendError::Closed));
    assert!(!runtime().block_on(log.flush()) && log.usage().is_failing);
}

#[test]
fn short_writes_are_gone_on_with() {
    let disk = FakeDisk::default();
    let (log, ..) = open(&disk, limits(Durability::Os));
    disk.plan(|call| (call == Call::Append).then_some(Fault::Short));
    let claim = append(&log, 1, 100).unwrap();
    assert_eq!(log.read(claim.position()).unwrap().payload, payload(1, 100));
}

#[test]
fn files_that_cannot_be_removed_are_kept_and_counted() {
    let disk = FakeDisk::default();
    let (log, _, all) = open(&disk, limits(Durability::Os));
    disk.plan(|call| (call == Call::Remove).then_some(Fault::Error(ErrorKind::PermissionDenied)));
    for number in 0..9 {
        append(&log, number, 100).unwrap();
    }
    drop(all);
    eventually(&log, || log.usage().counts.remove_errors > 0);
    assert!(log.usage().segments > 3 && append(&log, 9, 100).is_ok());
}

#[test]
fn folder_is_its_owners_alone_and_held_by_one_process() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a").join("log");
    let disk = Arc::new(Folder::open(&path).unwrap());
    let again = Folder::open(&path).err().map(|error| error.kind());
    assert_eq!(again, Some(ErrorKind::WouldBlock));
    let (log, ..) = Log::open(disk, limits(Durability::Disk), system_clock()).unwrap();
    append(&log, 1, 10).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in std::fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    drop(log);
    Folder::open(&path).unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Note(usize),
    Forget(usize),
    /// Fails the next writes or syncs, this many.
    Fail(u8),
    Kill,
    LosePower(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0_usize..200).prop_map(Step::Append),
        2 => (0_usize..50).prop_map(Step::Note),
        4 => (0_usize..64).prop_map(Step::Forget),
        1 => (1_u8..4).prop_map(Step::Fail),
        1 => Just(Step::Kill),
        1 => (0_usize..400).prop_map(Step::LosePower),
    ];
    prop::collection::vec(step, 1..60)
}

fn note(log: &Log, number: u8, len: usize) {
    log.note(head(number), payload(number, len));
}

/// Runs the steps against a simple model. Answered and claimed records are found in order after
/// every end that the durability survives, and no records are invented.
fn check_model(steps: Vec<Step>, durability: Durability) {
    let disk = FakeDisk::default();
    let mut number = 0_u8;
    let (mut log, _, mut all) = open(&disk, limits(durability));
    let mut appended = BTreeMap::<u64, (u8, usize)>::new();
    let mut claimed = Vec::<(Claim, u8)>::new();
    for step in steps {
        number = number.wrapping_add(1);
        match step {
            Step::Append(len) => {
                let before = log.usage();
                match append(&log, number, len) {
                    Ok(claim) => {
                        appended.insert(claim.position(), (number, len));
                        claimed.push((claim, number));
                    }
                    Err(error) => assert!(error == AppendError::Failed, "{error} {before:?}"),
                }
            }
            Step::Note(len) => note(&log, number, len),
            Step::Forget(at) if !claimed.is_empty() => {
                drop(claimed.remove(at % claimed.len()));
            }
            Step::Forget(_) => {}
            Step::Fail(times) => {
                let mut left = times;
                disk.plan(move |call| {
                    let fails = left > 0 && matches!(call, Call::Append | Call::Sync);
                    left -= u8::from(fails);
                    fails.then_some(if left % 2 == 0 { Fault::Torn } else { Fault::Short })
                });
            }
            Step::Kill | Step::LosePower(_) => {
                disk.heal();
                let kept: Vec<_> =
                    claimed.drain(..).map(|(claim, it)| (claim.position(), it)).collect();
                // Claims of a killed process are never released.
                let holds: Vec<_> =
                    kept.iter().map(|(position, _)| log.source().claim(*position, 0)).collect();
                drop(log);
                drop(holds);
                let mut survives = true;
                if let Step::LosePower(kept) = step {
                    disk.lose_power(kept);
                    survives = durability == Durability::Disk;
                }
                (log, _, all) = open(&disk, limits(durability));
                let mut last = None;
                let mut seen = Vec::new();
                for record in log.records().flatten() {
                    assert!(last < Some(record.position), "in order");
                    last = Some(record.position);
                    if let Some((number, len)) = appended.get(&record.position) {
                        assert_eq!(record.payload, payload(*number, *len));
                        seen.push((record.position, *number));
                    }
                }
                // Lost records never existed: their positions may be reused.
                appended.retain(|position, (number, _)| seen.contains(&(*position, *number)));
                for one in kept.iter().filter(|_| survives) {
                    assert!(seen.contains(one), "{one:?} of {seen:?}");
                }
                claimed.extend(
                    seen.iter().map(|(position, it)| (log.source().claim(*position, 0), *it)),
                );
            }
        }
    }
    drop(all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn log_keeps_what_it_answered_whatever_ends_the_process(steps in steps()) {
        check_model(steps, Durability::Os);
    }

    #[test]
    fn synced_log_keeps_what_it_answered_whatever_ends_the_machine(steps in steps()) {
        check_model(steps, Durability::Disk);
    }
}
