//! Tests of compaction that is killed, loses power or meets a full disk at each call.

use super::*;
use crate::compact::{CompactedLog, Compaction};
use crate::open::recover;
use crate::reader::read;
use crate::segments::{SegmentFile, Segments};
use spanscore_base::model::ClaimedRecords;

/// Records of a log, with their numbers and the lengths of their payloads.
type Written = Vec<(u64, u8, usize)>;

/// Writes records into closed segments of about six each.
fn written(disk: &FakeDisk, lens: &[usize]) -> Written {
    let (log, _, _all) = open(disk, limits(Durability::Disk));
    let written = lens
        .iter()
        .zip(0..)
        .map(|(len, number)| (append(&log, number, *len).unwrap().position(), number, *len));
    let written = written.collect();
    log.keep_all();
    written
}

fn claims_of(written: &Written, is_claimed: impl Fn(usize) -> bool) -> ClaimedRecords {
    let claimed = written.iter().enumerate().filter(|(at, _)| is_claimed(*at));
    let records = claimed.map(|(_, (position, _, len))| (*position, record_bytes(*len) as u32));
    ClaimedRecords { records: records.collect(), onwards: None }
}

/// Runs one pass over all segments of a disk, in steps of this many bytes; returns false if the
/// disk failed.
fn pass(disk: &FakeDisk, claimed: &ClaimedRecords, step: u64) -> bool {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let Ok((segments, _)) = recover(&shared) else { return false };
    let limits = limits(Durability::Disk);
    let copy_max = limits.segment;
    let around = CompactedLog { disk, segments: &segments, limits: &limits, copy_max };
    let mut pass = Compaction::new(claimed.clone(), &segments.closed());
    loop {
        match pass.step(&around, step) {
            Ok(freed) if freed.is_over => return true,
            Ok(_) => {}
            Err(_) => {
                // The next start removes a copy that cannot be removed now.
                let _ = pass.abandon(disk);
                return false;
            }
        }
    }
}

/// Opens a disk after a pass that may have failed. No claimed record is missing, none is invented,
/// and earlier records without a claim were removed in order. Returns the remaining records.
fn check_left(
    disk: &FakeDisk,
    written: &Written,
    before: &[u64],
    claimed: &ClaimedRecords,
) -> Vec<u64> {
    let (log, recovered, _all) = open(disk, limits(Durability::Disk));
    assert_eq!((recovered.cut_bytes, recovered.set_aside.len()), (0, 0));
    let mut left = Vec::new();
    for record in log.records() {
        let record = record.expect("a hole is no damage");
        let Some((_, number, len)) = written.iter().find(|it| it.0 == record.position) else {
            // Appended by an earlier check.
            continue;
        };
        assert_eq!(record.payload, payload(*number, *len));
        assert_eq!(log.read(record.position).unwrap().payload, record.payload);
        left.push(record.position);
    }
    assert!(left.is_sorted());
    for (position, _) in &claimed.records {
        assert!(left.contains(position), "{position} is claimed: {left:?}");
    }
    let is_claimed = |position: &u64| claimed.records.iter().any(|it| it.0 == *position);
    let dead = left.iter().find(|position| !is_claimed(position));
    let gone = before.iter().rev().find(|position| !left.contains(position));
    if let (Some(dead), Some(gone)) = (dead, gone) {
        assert!(gone < dead, "{gone} is gone before {dead}");
    }
    let next = append(&log, 1, 1).unwrap().position();
    assert!(written.iter().all(|it| it.0 < next), "positions only grow");
    log.keep_all();
    left
}

/// Compacts twice, the second time with fewer claims, and ends each pass at the call with this
/// number.
fn check_passes(lens: &[usize], (first, second): (u64, u64), step: u64, fails: usize, kept: bool) {
    let disk = FakeDisk::default();
    let written = written(&disk, lens);
    let bit = |bits: u64, at: usize| bits >> (at % 64) & 1 == 1;
    let mut before: Vec<u64> = written.iter().map(|it| it.0).collect();
    for bits in [first, first & second] {
        let claimed = claims_of(&written, |at| bit(bits, at));
        let mut calls = 0;
        disk.plan(move |call| {
            calls += usize::from(!matches!(call, Call::Read | Call::Open | Call::Size));
            (calls > fails).then_some(Fault::Error(ErrorKind::Other))
        });
        let is_whole = pass(&disk, &claimed, step);
        disk.heal();
        if !kept {
            disk.lose_power(0);
        }
        let left = check_left(&disk, &written, &before, &claimed);
        if is_whole && bits == first {
            let dead = left.len() - claimed.records.len();
            // The last segment is unchanged, and one with few dead records may be.
            assert!(dead <= written.len() / 2 + 8, "{dead} of {}", written.len());
        }
        before = left;
    }
}

#[test]
fn segment_that_closes_while_a_pass_goes_on_is_left_to_the_next() {
    let disk = FakeDisk::default();
    let written = written(&disk, &[60; 40]);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (found, _) = recover(&shared).unwrap();
    let mut early = found.closed();
    let late = early.split_off(early.len() / 2);
    let begins = late[0].base;
    // Every fifth initial record is claimed; the later ones do not exist yet.
    let mut claimed = claims_of(&written, |at| at % 5 == 0);
    claimed.records.retain(|(position, _)| *position < begins);
    let segments = Segments::new(early, Vec::new());
    let limits = limits(Durability::Disk);
    let around = CompactedLog { disk: &disk, segments: &segments, limits: &limits, copy_max: 300 };
    let mut pass = Compaction::new(claimed, &segments.closed());
    let mut late = late.into_iter();
    while !pass.step(&around, 1).unwrap().is_over {
        late.next().into_iter().for_each(|segment| segments.push(segment));
    }
    late.for_each(|segment| segments.push(segment));
    assert!(pass.step(&around, u64::MAX).unwrap().is_over);
    for (position, ..) in written.iter().filter(|it| (begins..segments.end()).contains(&it.0)) {
        let segment = segments.of(*position).expect("its segment is there");
        assert!(disk.names().contains(&SegmentFile::name(segment.base)), "{position}");
        assert!(read(&segments, *position).is_ok(), "{position}");
    }
}

#[test]
fn copy_that_fails_at_any_call_leaves_no_file() {
    let names = |disk: &FakeDisk| disk.names().into_iter().filter(|name| name.ends_with(".new"));
    for fails in 0..30 {
        let disk = FakeDisk::default();
        let written = written(&disk, &[60; 20]);
        let claimed = claims_of(&written, |at| at % 5 == 0);
        let mut calls = 0;
        disk.plan(move |call| {
            calls += usize::from(matches!(call, Call::Create | Call::Append | Call::Sync));
            let is_other = !matches!(call, Call::Create | Call::Append | Call::Sync);
            (calls > fails && !is_other).then_some(Fault::Error(ErrorKind::StorageFull))
        });
        let is_whole = pass(&disk, &claimed, 90);
        assert_eq!((is_whole && fails < 3, names(&disk).count()), (false, 0), "{fails}");
    }
}

#[test]
fn file_that_cannot_be_read_at_a_start_is_there_at_the_next_whatever_is_compacted() {
    let disk = FakeDisk::default();
    let written = written(&disk, &[60; 40]);
    let opened = || recover(&(Arc::new(disk.clone()) as Arc<dyn Disk>)).unwrap();
    let bases: Vec<u64> = opened().0.closed().iter().map(|segment| segment.base).collect();
    for unread in 1..bases.len() {
        let disk = disk.copied();
        let mut opens = 0;
        disk.plan(move |call| {
            opens += usize::from(call == Call::Open);
            (call == Call::Open && opens == unread + 1).then_some(Fault::Error(ErrorKind::Other))
        });
        let inside = bases[unread]..bases.get(unread + 1).copied().unwrap_or(u64::MAX);
        let mut claimed = claims_of(&written, |at| at % 5 == 0);
        claimed.records.retain(|(position, _)| !inside.contains(position));
        assert!(pass(&disk, &claimed, 1000));
        disk.heal();
        let (log, ..) = open(&disk, limits(Durability::Disk));
        for (position, ..) in written.iter().filter(|it| inside.contains(&it.0)) {
            assert!(log.read(*position).is_ok(), "{unread}: {position}");
        }
        log.keep_all();
    }
}

#[test]
fn compaction_that_ends_at_any_call_loses_nothing_that_is_claimed() {
    let lens: Vec<usize> = (0..40).map(|at| at * 7 % 60).collect();
    for fails in 0..80 {
        for kept in [false, true] {
            check_passes(&lens, (0x8421_0842_1108_4210, u64::MAX / 3), 90, fails, kept);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn compaction_loses_nothing_whatever_is_claimed_and_whenever_it_ends(
        lens in prop::collection::vec(0_usize..300, 1..60),
        claims in (any::<u64>(), any::<u64>()),
        step in 1_u64..2_000,
        fails in 0_usize..200,
        kept in any::<bool>(),
    ) {
        check_passes(&lens, claims, step, fails, kept);
    }
}

#[test]
fn log_that_is_pinned_in_every_segment_takes_ten_times_its_size() {
    const SMALL: LogLimits = LogLimits {
        size_max: 64 << 10,
        segment: 8 << 10,
        age_max_ns: u64::MAX,
        when_full: WhenFull::Refuse,
        waiting_max: MIB,
        reserve: 0,
        sync_interval: Duration::from_secs(3600),
        durability: Durability::Os,
    };
    let disk = FakeDisk::default();
    let (log, _, all) = open(&disk, SMALL);
    drop(all);
    let mut pins = Vec::new();
    let mut sent = 0;
    while sent < 10 * SMALL.size_max {
        if sent >= pins.len() as u64 * 4096 {
            pins.push((append(&log, 1, 50).unwrap(), sent));
        }
        let waits = Instant::now();
        // Compaction checks ten times a second.
        while log.usage().bytes > SMALL.size_max * 3 / 4 {
            assert!(waits.elapsed() < Duration::from_secs(10), "{:?}", log.usage());
            std::thread::yield_now();
        }
        sent += append(&log, 2, 1000).map(|_| record_bytes(1000)).unwrap();
    }
    let usage = log.usage();
    assert!(usage.counts.freed_segments > 50 && usage.segments < 12, "{usage:?}");
    assert!(usage.counts.copied_bytes < sent / 4, "{usage:?}");
    for (pin, _) in &pins {
        assert_eq!(log.read(pin.position()).unwrap().payload, payload(1, 50));
    }
    log.keep_all();
    drop(log);
    let (log, ..) = open(&disk, SMALL);
    assert!(pins.iter().all(|(pin, _)| log.read(pin.position()).is_ok()), "after a restart");
}

#[test]
fn full_disk_is_compacted_into_the_room_that_was_set_aside() {
    let small = LogLimits { reserve: 600, ..limits(Durability::Os) };
    let disk = FakeDisk::default();
    let (log, _, all) = open(&disk, small);
    drop(all);
    let waits = Instant::now();
    while !disk.names().contains(&"reserve".to_owned()) {
        assert!(waits.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    disk.limit(2 << 20);
    let mut pins = Vec::new();
    let mut failed = 0;
    for round in 0..40 {
        pins.push(append(&log, 1, 50));
        for _ in 0..100 {
            failed += u32::from(append(&log, 2, 900).is_err());
        }
        let waits = Instant::now();
        while round > 20 && log.usage().counts.freed_segments == 0 {
            assert!(waits.elapsed() < Duration::from_secs(20), "{:?}", log.usage());
            std::thread::yield_now();
        }
    }
    assert!(failed > 0 && log.usage().counts.freed_bytes > 1 << 20, "{failed} {:?}", log.usage());
    for pin in pins.into_iter().flatten() {
        assert_eq!(log.read(pin.position()).unwrap().payload, payload(1, 50));
    }
}
