//! Tests of a disk that fails at the opening of a log, or stays full.

use super::*;

/// Returns a disk with a log of some segments, and the numbers of its records.
fn written() -> (FakeDisk, Vec<u8>) {
    let disk = FakeDisk::default();
    let (log, _, _all) = open(&disk, limits(Durability::Disk));
    let numbers: Vec<u8> = (1..9).collect();
    for number in &numbers {
        append(&log, *number, 100).unwrap();
    }
    log.keep_all();
    drop(log);
    (disk, numbers)
}

#[test]
fn files_that_cannot_be_opened_stay_and_are_read_by_a_later_start() {
    let kinds = [ErrorKind::PermissionDenied, ErrorKind::Other];
    for (call, kind) in [Call::Open, Call::Size, Call::Read].into_iter().zip(kinds.iter().cycle()) {
        let (disk, numbers) = written();
        let files = disk.names();
        let fault = Fault::Error(*kind);
        disk.plan(move |at| (at == call).then_some(fault));
        let (log, recovered, all) = open(&disk, limits(Durability::Disk));
        assert_eq!(recovered.unreadable.len(), files.len(), "{call:?}");
        assert!(recovered.unreadable[0].starts_with(&files[0]), "{recovered:?}");
        assert_eq!((recovered.cut_bytes, found(&log).0.len()), (0, 0), "{call:?}");
        disk.heal();
        let new = append(&log, 100, 100).unwrap();
        assert!(new.position() > 8 * 136, "positions that may be held are not given again");
        drop(all);
        log.keep_all();
        drop(log);
        let (log, recovered, _all) = open(&disk, limits(Durability::Disk));
        assert_eq!(recovered.unreadable.len(), 0, "{call:?}");
        assert_eq!(found(&log).0, [numbers, vec![100]].concat(), "{call:?}");
    }
}

#[test]
fn one_file_of_some_that_cannot_be_opened_costs_no_other() {
    for fails in 0..3 {
        let (disk, numbers) = written();
        let mut opened = 0;
        disk.plan(move |call| {
            opened += usize::from(call == Call::Open);
            let is_it = call == Call::Open && opened == fails + 1;
            is_it.then_some(Fault::Error(ErrorKind::PermissionDenied))
        });
        let (log, recovered, _all) = open(&disk, limits(Durability::Disk));
        disk.heal();
        assert_eq!(recovered.unreadable.len(), 1);
        append(&log, 100, 100).unwrap();
        assert_eq!(found(&log).0.len() % 2, 0, "whole files of two are left out");
        drop(log);
        let (log, ..) = open(&disk, limits(Durability::Disk));
        assert_eq!(found(&log).0, [numbers, vec![100]].concat());
    }
}

#[test]
fn last_file_that_cannot_be_read_to_its_end_is_not_cut() {
    for fails_after in 0..4 {
        let disk = FakeDisk::default();
        let (log, ..) = open(&disk, LogLimits { segment: MIB, ..limits(Durability::Disk) });
        for number in 1..5 {
            append(&log, number, 100).unwrap();
        }
        drop(log);
        let before = disk.bytes(&disk.names()[0]);
        let mut reads = 0;
        disk.plan(move |call| {
            reads += usize::from(call == Call::Read);
            (reads > 1 + fails_after).then_some(Fault::Error(ErrorKind::Other))
        });
        let opened = Log::open(Arc::new(disk.clone()), limits(Durability::Os), Arc::new(|| 1));
        disk.heal();
        assert_eq!(disk.bytes(&disk.names()[0]), before, "after {fails_after} reads");
        drop(opened);
        let (log, recovered, _) = open(&disk, limits(Durability::Disk));
        assert_eq!((found(&log).0, recovered.cut_bytes), (vec![1, 2, 3, 4], 0));
    }
}

#[test]
fn file_that_is_no_log_and_cannot_be_renamed_stays_and_is_told() {
    let (name, mut bytes) = small_log();
    bytes[3] ^= 1;
    let disk = FakeDisk::with(&name, bytes.clone());
    disk.plan(|call| (call == Call::Rename).then_some(Fault::Error(ErrorKind::PermissionDenied)));
    let (log, recovered, _) = open(&disk, limits(Durability::Os));
    assert_eq!((recovered.unreadable.len(), recovered.set_aside.len()), (1, 0));
    let new = append(&log, 9, 5).unwrap();
    assert_eq!(log.read(new.position()).unwrap().payload, payload(9, 5));
    assert_eq!(disk.bytes(&name), bytes, "nothing is written over it");
    drop(log);
    disk.heal();
    let (log, recovered, _) = open(&disk, limits(Durability::Os));
    assert_eq!((recovered.set_aside, found(&log).0), (vec![format!("{name}.bad")], vec![9]));
}

/// Full disk: every append fails.
fn is_full(call: Call) -> Option<Fault> {
    (call == Call::Append).then_some(Fault::Error(ErrorKind::StorageFull))
}

#[test]
fn full_disk_is_started_on_and_what_is_done_with_makes_room() {
    let (disk, numbers) = written();
    disk.plan(is_full);
    let (log, recovered, all) = open(&disk, limits(Durability::Disk));
    assert!(log.usage().is_failing && recovered.segments > 0);
    assert_eq!(found(&log).0, numbers, "what it holds is read");
    assert_eq!(append(&log, 100, 10).err(), Some(AppendError::Failed));
    assert!(runtime().block_on(log.flush()), "what was acknowledged is kept");
    drop(all);
    eventually(&log, || log.usage().segments == 0);
    disk.heal();
    eventually(&log, || !log.usage().is_failing);
    let new = append(&log, 100, 10).unwrap();
    assert_eq!(log.read(new.position()).unwrap().payload, payload(100, 10));
    drop(log);
    assert_eq!(found(&open(&disk, limits(Durability::Disk)).0).0, [100]);
}

#[test]
fn folder_that_nobody_may_write_to_is_no_log() {
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
        let (disk, _) = written();
        disk.plan(move |call| (call == Call::Create).then_some(Fault::Error(kind)));
        let opened = Log::open(Arc::new(disk.clone()), limits(Durability::Os), Arc::new(|| 1));
        assert!(matches!(opened, Err(LogOpenError::Write(error)) if error.kind() == kind));
    }
}

#[test]
fn file_goes_on_after_writes_that_failed_and_were_cut() {
    for durability in [Durability::Os, Durability::Disk] {
        let disk = FakeDisk::default();
        let large = LogLimits { segment: MIB, ..limits(durability) };
        let (log, _, _all) = open(&disk, large);
        append(&log, 1, 100).unwrap();
        for fault in [Fault::Torn, Fault::Error(ErrorKind::StorageFull)] {
            disk.plan(move |call| (call == Call::Append).then_some(fault));
            for _ in 0..20 {
                assert_eq!(append(&log, 9, 100).err(), Some(AppendError::Failed));
                assert!(log.usage().is_failing);
            }
        }
        disk.heal();
        append(&log, 2, 100).unwrap();
        assert!(!log.usage().is_failing && log.usage().segments == 1, "{:?}", log.usage());
        drop(log);
        let (log, recovered, _) = open(&disk, large);
        assert_eq!((found(&log), recovered.cut_bytes), ((vec![1, 2], 0), 0));
    }
}

#[test]
fn disk_with_room_for_little_is_failing_until_it_takes_what_it_refused() {
    let disk = FakeDisk::default();
    // Space for all records below, however fast the machine is.
    let large = LogLimits { segment: 1024 * MIB, size_max: 1024 * MIB, ..limits(Durability::Os) };
    let (log, _, _all) = open(&disk, large);
    let room = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = Arc::clone(&room);
    disk.plan_sized(move |call, bytes| {
        let is_full = call == Call::Append && bytes > 1000 && !asked.load(Ordering::Relaxed);
        is_full.then_some(Fault::Torn)
    });
    assert_eq!(append(&log, 1, 5000).err(), Some(AppendError::Failed));
    // Small ones are always accepted, also during the writer's own checks.
    let waits = Instant::now();
    while waits.elapsed() < Duration::from_millis(1500) {
        append(&log, 2, 10).unwrap();
        assert!(log.usage().is_failing, "a small record says nothing of a large one");
    }
    room.store(true, Ordering::Relaxed);
    eventually(&log, || append(&log, 2, 10).is_ok() && !log.usage().is_failing);
    assert_eq!(log.usage().segments, 1);
}

#[test]
fn notes_that_could_not_be_written_are_written_once_the_disk_takes_them() {
    let disk = FakeDisk::default();
    let (log, _, _all) = open(&disk, limits(Durability::Os));
    append(&log, 1, 10).unwrap();
    disk.plan(is_full);
    assert!(log.note(head(50), payload(50, 10)).is_some());
    assert_eq!(append(&log, 2, 10).err(), Some(AppendError::Failed));
    assert!(log.note(head(51), payload(51, 10)).is_some());
    assert_eq!(append(&log, 2, 10).err(), Some(AppendError::Failed));
    disk.heal();
    append(&log, 3, 50).unwrap();
    eventually(&log, || log.usage().counts.written >= 4);
    drop(log);
    let (mut numbers, _) = found(&open(&disk, limits(Durability::Os)).0);
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 3, 50, 51]);
}

#[test]
fn notes_have_room_where_records_have_none_and_not_for_ever() {
    let small = LogLimits { size_max: 4000, ..limits(Durability::Os) };
    let (log, ..) = open(&FakeDisk::default(), small);
    let mut claims = Vec::new();
    while let Ok(claim) = append(&log, 1, 50) {
        claims.push(claim);
    }
    assert_eq!(append(&log, 1, 50).err(), Some(AppendError::Full));
    let notes = (0..100).take_while(|number| {
        let is_taken = log.note(head(*number), payload(*number, 14));
        runtime().block_on(log.flush());
        is_taken.is_some()
    });
    let notes = notes.count();
    assert!((5..=12).contains(&notes), "{notes} of 50 bytes in an eighth of 4000");
    assert!(log.usage().bytes <= 4500, "{:?}", log.usage());
}

#[test]
fn log_that_is_full_borrows_what_another_has_free_and_no_more() {
    let lender_limits = LogLimits { size_max: 4000, ..limits(Durability::Os) };
    let (lender, ..) = open(&FakeDisk::default(), lender_limits);
    let own = LogLimits { size_max: 800, segment: 200, ..limits(Durability::Os) };
    let disk = FakeDisk::default();
    let (log, _, found_all) = open(&disk, own);
    drop(found_all);
    let loan = Loan::new(&log, 800, lender.downgrade());
    let mut claims = Vec::new();
    while let Ok(claim) = append(&log, 1, 50) {
        claims.push(claim);
    }
    let borrow = || runtime().block_on(loan.append(&log, head(2), payload(2, 50)));
    let borrowed: Vec<_> = std::iter::from_fn(|| borrow().ok()).collect();
    // Each takes 86 bytes, and the head of a file, of 4000.
    assert!((30..=34).contains(&borrowed.len()), "{}", borrowed.len());
    assert_eq!(borrow().err(), Some(AppendError::Full));
    assert_eq!(append(&lender, 3, 200).err(), Some(AppendError::Full), "it is lent");
    assert!(lender.usage().lent > 3000);
    drop((claims, borrowed));
    eventually(&lender, || {
        loan.give_back(&log);
        lender.usage().lent == 0
    });
    append(&lender, 3, 50).unwrap();
}

#[test]
fn records_that_a_disk_did_not_take_count_for_nobody() {
    let disk = FakeDisk::default();
    let own = LogLimits { size_max: 64_000, segment: 8_000, ..limits(Durability::Os) };
    let (log, _, _all) = open(&disk, own);
    let append = |peer: u32| {
        let sender = Sender { peer, ..Sender::default() };
        runtime().block_on(log.append_of(Some(sender), head(1), payload(1, 100)))
    };
    let mut claims = vec![append(1).unwrap()];
    let refused = loop {
        match append(2) {
            Ok(claim) => claims.push(claim),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, AppendError::Share);
    disk.plan(is_full);
    for _ in 0..500 {
        assert_eq!(append(1).err(), Some(AppendError::Failed));
    }
    disk.heal();
    claims.push(append(1).unwrap());
    assert_eq!(append(2).err(), Some(AppendError::Share));
}
