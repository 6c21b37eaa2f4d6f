use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;

use super::*;
use crate::{RetentionSettings, StoreCount, StoreState};
use spanscore_base::settings::HumanDuration;

fn settled(store: &Store) -> StoreState {
    while store.view().state() == StoreState::Opening {
        std::thread::yield_now();
    }
    store.view().state()
}

#[test]
fn only_the_owner_may_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    store.evaluations([evaluation(1, 1, scored(1.0), None)].into());
    assert_eq!(settled(&store), StoreState::Working);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", file.path());
    }
    store.close();
}

#[test]
fn file_of_a_newer_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.db");
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 99; CREATE TABLE theirs (a)").unwrap();
    drop(newer);
    let before = std::fs::read(&path).unwrap();
    let store = start(folder.path());
    let StoreState::Refused(error) = settled(&store) else { panic!("{:?}", store.view().state()) };
    assert!(error.contains("version 99") && error.contains("up to 4"), "{error}");
    while store.view().counters().get(StoreCount::Lost) == 0 {
        store.evaluations([evaluation(1, 1, scored(1.0), None)].into());
    }
    store.close();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let error = StoreReader::open(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
}

#[test]
fn damaged_file_is_set_aside_and_a_new_one_begun() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scores.db"), [b'x'; 9_000]).unwrap();
    let store = start(folder.path());
    store.evaluations([evaluation(1, 1, scored(1.0), None)].into());
    store.close();
    assert_eq!(store.view().counters().get(StoreCount::SetAside), 1);
    assert_eq!(all(folder.path()).len(), 1);
    assert_eq!(std::fs::read(folder.path().join("scores.db.damaged")).unwrap(), [b'x'; 9_000]);
}

#[test]
fn file_that_another_process_writes_is_refused_until_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path());
    assert_eq!(settled(&first), StoreState::Working);
    let second = start(folder.path());
    let StoreState::Failing(error) = settled(&second) else {
        panic!("{:?}", second.view().state())
    };
    assert!(error.contains("written by another process"), "{error}");
    second.evaluations([evaluation(2, 2, scored(1.0), None)].into());
    drop(first);
    while settled(&second) != StoreState::Working {
        std::thread::yield_now();
    }
    second.close();
    assert_eq!(all(folder.path()).len(), 1);
}

#[test]
fn what_is_too_old_goes_with_all_that_hangs_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    (0..3).for_each(|number| {
        store.trajectory(run(number, 0, false));
        store.evaluations([evaluation(number, 1, scored(0.5), None)].into());
    });
    store.close();
    let file = Connection::open(folder.path().join("scores.db")).unwrap();
    file.execute_batch(
        "UPDATE trajectories SET stored = 1000; UPDATE trajectories SET pinned = 1 WHERE seq = 2",
    )
    .unwrap();
    let retention =
        RetentionSettings { age: HumanDuration::from_secs(60), ..RetentionSettings::default() };
    let settings = StoreSettings { retention, ..StoreSettings::default() };
    let store = Store::start(settings, Some(folder.path()), redact()).unwrap();
    store.close();
    assert_eq!(store.view().counters().get(StoreCount::DeletedForAge), 2);
    for table in
        ["trajectories", "calls", "evaluations", "trajectory_contents", "cases", "sessions"]
    {
        let count = format!("SELECT count(*) FROM {table}");
        let count: i64 = file.query_row(&count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1, "{table}");
    }
}

#[test]
fn views_show_what_was_stored_to_readers_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    store.trajectory(run(1, 0, false));
    store.evaluations([evaluation(1, 1, scored(0.5), None)].into());
    store.close();
    let file = Connection::open(folder.path().join("scores.db")).unwrap();
    let check = |query: &str, expected: &str| {
        let found: String = file.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!(found, expected, "{query}");
    };
    let id = trace_id(1).to_string();
    check("SELECT trace_id FROM v_trajectories WHERE failed = 1 AND errors = 1", &id);
    check("SELECT label FROM v_evaluations WHERE case_name = 'refund' AND score = 0.5", "fail");
    check("SELECT tool FROM v_calls WHERE duration_s = 1.0 AND status = 'error'", "refund");
    check("SELECT session_id FROM v_sessions WHERE turns = 1", "s-1");
    check("SELECT count(*) || '' FROM v_annotations", "0");
    check("SELECT substr(time, 11, 1) || substr(time, -1) FROM v_evaluations", "TZ");
}

#[test]
fn temporary_file_is_gone_with_the_store() {
    let store = Store::start(StoreSettings::default(), None, redact()).unwrap();
    store.evaluations([evaluation(1, 1, scored(1.0), None)].into());
    let path = store.view().path().to_owned();
    assert_eq!(settled(&store), StoreState::Working);
    assert!(path.is_file());
    drop(store);
    assert!(!path.exists());
}

#[test]
fn panic_of_the_writer_loses_one_batch() {
    let folder = tempfile::tempdir().unwrap();
    let redact: crate::RedactValues = Arc::new(|_, values| {
        let is_broken = values.iter().any(|value| value.to_string().contains("boom"));
        assert!(!is_broken, "a text that breaks the redactor");
        None
    });
    let store = Store::start(StoreSettings::default(), Some(folder.path()), redact).unwrap();
    let store_one = |id: u8, explanation: &str| {
        let explanation = explanation.to_owned();
        let outcome = Outcome::NotEvaluable { reason: Reason::NothingToJudge, explanation };
        let before = store.view().counters().get(StoreCount::Evaluations);
        let lost = store.view().counters().get(StoreCount::Lost);
        store.evaluations([evaluation(u64::from(id), id, outcome, None)].into());
        while store.view().counters().get(StoreCount::Evaluations) == before
            && store.view().counters().get(StoreCount::Lost) == lost
        {
            std::thread::yield_now();
        }
    };
    store_one(1, "well");
    store_one(2, "boom");
    store_one(3, "boom");
    while !matches!(store.view().state(), StoreState::Failing(_)) {
        std::thread::yield_now();
    }
    store_one(4, "well");
    store.close();
    assert_eq!(store.view().counters().get(StoreCount::Lost), 2);
    assert_eq!(all(folder.path()).len(), 2);
}
