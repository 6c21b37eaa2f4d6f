//! A disk that fails while a log is opened, or stays full.

use super::*;

/// A disk with a log of some segments, and the numbers of the records in it.
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
        let (files, fault) = (disk.names(), Fault::Error(*kind));
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
