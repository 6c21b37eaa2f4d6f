//! Tests of the start, models, user and answer of runs: shown, ordered, filtered, grouped.

use super::*;
use crate::StoredContent;
use crate::query::{PagePlace, RunOrder, RunRow, StoreField};
use crate::record::OutputState;

/// Returns a run with a user and models.
fn of(number: u64, user_id: &str, models: &[&str]) -> TrajectoryRecord {
    let trajectory = Trajectory {
        trace_id: trace_id(number),
        resource: resource(),
        user_id: Some(user_id).filter(|it| !it.is_empty()).map(|it| it.to_owned().into()),
        models: models.iter().map(|model| model.to_string().into()).collect(),
        ..Trajectory::default()
    };
    TrajectoryRecord::new(&trajectory, run(number, 0, false).judgement, true)
}

fn runs(reader: &StoreReader, filter: &StoreFilter, order: RunOrder) -> Vec<RunRow> {
    let mut all = Vec::new();
    let mut after: Option<PagePlace> = None;
    loop {
        let page = reader.runs(filter, order, after, 2).unwrap();
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

#[test]
fn runs_are_listed_by_their_start_or_their_arrival() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    // Minutes by which a run started and ended before now, in the order of arrival.
    let times = [(50, 1), (10, 9), (40, 30), (10, 2), (10, 9)];
    for (number, (started, ended)) in (1..).zip(times) {
        let before = |minutes: u64| now_ns() - minutes * 60_000_000_000;
        let (start_ns, end_ns) = (before(started), before(ended));
        store.trajectory(TrajectoryRecord { start_ns, end_ns, ..run(number, 0, true) });
    }
    store.close();
    let reader = reader(folder.path());
    let check = |order, expected: [u64; 5]| {
        let found = runs(&reader, &StoreFilter::default(), order);
        let found: Vec<_> = found.into_iter().map(|run| run.trace_id).collect();
        assert_eq!(found, expected.map(|number| trace_id(number).to_string()), "{order:?}");
    };
    check(RunOrder::Newest, [5, 4, 2, 3, 1]);
    check(RunOrder::Arrived, [5, 4, 3, 2, 1]);
    let [first, ..] = &runs(&reader, &StoreFilter::default(), RunOrder::Slowest)[..] else {
        panic!("five")
    };
    let ms = |time: &str| time.parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert!((ms(&first.time) - ms(&first.started)).abs_diff(49 * 60_000) <= 1);
}

#[test]
fn wrong_bound_of_a_run_does_not_shift_the_other() {
    const MINUTE_NS: u64 = 60_000_000_000;
    const DAY_NS: u64 = 24 * 60 * MINUTE_NS;
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let now = now_ns();
    // Start, end, and the minutes before now at which the run began.
    let all = [
        (0, now - 5 * MINUTE_NS, 5),
        (now - 10 * MINUTE_NS, now + 60 * MINUTE_NS, 10),
        (now - 800 * DAY_NS, now, 400 * 24 * 60),
        (1, u64::MAX, 0),
        (1, u64::MAX - 9_000, 0),
        (1, u64::MAX - 18_000, 0),
    ];
    for (number, (start_ns, end_ns, _)) in (0..).zip(all) {
        let mut record = TrajectoryRecord { start_ns, end_ns, ..run(number, 0, true) };
        (record.calls[0].start_ns, record.calls[0].end_ns) = (start_ns, end_ns);
        store.trajectory(record);
    }
    store.close();
    let reader = reader(folder.path());
    for (number, (start_ns, _, minutes)) in (0..).zip(all) {
        let stored = reader.trajectory(&trace_id(number).to_string()).unwrap();
        let started = stored.started.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let before_ms = (now / 1_000_000).cast_signed() - started;
        assert!(before_ms.abs_diff(minutes * 60_000) < 30_000, "{number}: {before_ms}");
        assert_eq!(stored.calls[0].duration_s.is_some(), start_ns > 0, "{number}");
    }
    for order in [RunOrder::Newest, RunOrder::Slowest] {
        let page = reader.runs(&StoreFilter::default(), order, None, 5).unwrap();
        let rest = reader.runs(&StoreFilter::default(), order, page.next, 5).unwrap();
        let listed = page.items.into_iter().chain(rest.items).map(|run| run.trace_id);
        let listed: hashbrown::HashSet<_> = listed.collect();
        assert_eq!((listed.len(), rest.next), (all.len(), None), "{order:?}");
    }
}

#[test]
fn figures_by_model_and_user_are_those_of_their_lists() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let all: [(&str, &[&str]); 5] =
        [("ann", &["a"]), ("bob", &["a", "b"]), ("ann", &["b"]), ("", &["b", "c"]), ("bob", &[])];
    for (number, (user, models)) in (0..).zip(all) {
        store.trajectory(of(number, user, models));
        let score = if number % 2 == 0 { 1.0 } else { 0.5 };
        store.evaluations([evaluation(number, 1, scored(score), None)].into());
    }
    store.close();
    let reader = reader(folder.path());
    let check = |field: StoreField, model: Option<&str>, expected: &[(&str, i64)]| {
        let mut asked = StoreFilter::default();
        model.into_iter().for_each(|model| asked.ask(StoreField::Model, model).unwrap());
        let groups = reader.groups(&asked, &[field]).unwrap();
        let found: Vec<_> = groups.iter().map(|it| (it.keys[0].as_str(), it.count())).collect();
        assert_eq!(found, expected, "{field:?}");
        for group in &groups {
            let mut filter = asked.clone();
            filter.ask(field, group.keys[0].as_str()).unwrap();
            let rows = reader.evaluations(&filter, StoreOrder::Newest, 10).unwrap();
            let passed = rows.iter().filter(|row| row.label == Some("pass")).count() as i64;
            let listed = runs(&reader, &filter, RunOrder::Newest).len() as i64;
            let figures = (group.count(), group.passed, group.count());
            assert_eq!((rows.len() as i64, passed, listed), figures, "{:?}", group.keys);
            assert_eq!(reader.count_runs(&filter).unwrap().count, listed);
        }
    };
    check(StoreField::Model, None, &[("", 1), ("a", 2), ("b", 3), ("c", 1)]);
    check(StoreField::Model, Some("a"), &[("a", 2)]);
    check(StoreField::Model, Some("!a"), &[("", 1), ("b", 2), ("c", 1)]);
    check(StoreField::UserId, None, &[("", 1), ("ann", 2), ("bob", 2)]);
    check(StoreField::UserId, Some("a"), &[("ann", 1), ("bob", 1)]);
    check(StoreField::Answer, None, &[("not_recorded", 5)]);
    let mut others = StoreFilter::default();
    others.ask(StoreField::Model, "!a").unwrap();
    others.ask(StoreField::UserId, "!ann").unwrap();
    let found: Vec<_> =
        runs(&reader, &others, RunOrder::Arrived).into_iter().map(|run| run.models).collect();
    assert_eq!(found, [vec![], vec!["b".to_owned(), "c".to_owned()]]);
    assert!(StoreFilter::default().ask(StoreField::Answer, "none").is_err());
}

#[test]
fn content_policy_makes_pseudonyms_of_users() {
    let users = ["u-1", "secret 1", "secret 2", "secret 1"];
    let stored = |content: StoredContent| {
        let folder = tempfile::tempdir().unwrap();
        let settings = StoreSettings { content, ..StoreSettings::default() };
        // In two processes, which know one user by one name.
        for (at, user) in (0..).zip(users) {
            let store = Store::start(settings.clone(), Some(folder.path()), redact()).unwrap();
            store.trajectory(of(at, user, &[]));
            store.close();
        }
        let all = runs(&reader(folder.path()), &StoreFilter::default(), RunOrder::Arrived);
        let users = all.into_iter().rev().map(|run| run.user_id.unwrap());
        let users: Vec<String> = users.collect();
        assert_eq!((users[1] == users[2], users[1] == users[3]), (false, true), "{users:?}");
        users
    };
    let is_pseudonym = |user: &String| user.starts_with("user-") && user.len() == 21;
    assert_eq!(stored(StoredContent::Full), users);
    let redacted = stored(StoredContent::Redacted);
    assert_eq!(redacted[0], users[0]);
    assert!(redacted[1..].iter().all(is_pseudonym), "{redacted:?}");
    let none = stored(StoredContent::None);
    assert!(none.iter().all(is_pseudonym), "{none:?}");
    assert_ne!(none[1], redacted[1], "files have keys of their own");
}

#[test]
fn long_ids_are_cut_and_models_stay_distinct() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    let [fits, long] = [200, 201].map(|bytes| "m".repeat(bytes));
    store.trajectory(of(1, &fits, &[&fits]));
    store.trajectory(of(2, &long, &[&long, &fits, "\"'\0"]));
    store.close();
    let reader = reader(folder.path());
    let check = |number: u64, models: &[&str]| {
        let stored = reader.trajectory(&trace_id(number).to_string()).unwrap();
        assert_eq!(stored.user_id.as_deref(), Some(&*fits));
        assert_eq!(stored.models, models);
    };
    check(1, &[&fits]);
    check(2, &[&fits, "\"'\0"]);
}

#[test]
fn runs_of_version_3_stay_and_tell_nothing_that_they_did_not_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.db");
    let mut file = Connection::open(&path).unwrap();
    crate::schema::migrate_to(&mut file, 3).unwrap();
    let old = trace_id(1);
    file.execute(
        "INSERT INTO trajectories (trace_id, client_group, span_id, source, time, stored,
         duration_us, revision, completion, partial, spans, calls, errors, passed, failed,
         not_evaluable, broken) VALUES (?1, zeroblob(4), x'00', 1, 1700000000500, 1700000000500,
         500000, 0, 'root_ended', 0, 1, 0, 0, 1, 0, 0, 0)",
        [old.0],
    )
    .unwrap();
    file.execute_batch("INSERT INTO sources VALUES (1, 'shop', '', '', '')").unwrap();
    drop(file);
    let retention = crate::RetentionSettings {
        age: spanscore_base::settings::HumanDuration::from_secs(10_000 * 24 * 3600),
        ..crate::RetentionSettings::default()
    };
    let settings = StoreSettings { retention, ..StoreSettings::default() };
    let store = Store::start(settings, Some(folder.path()), redact()).unwrap();
    store.trajectory(of(2, "ann", &["a"]));
    store.close();
    let reader = reader(folder.path());
    let only = |field, value: &str| {
        let mut filter = StoreFilter::default();
        filter.ask(field, value).unwrap();
        let found = runs(&reader, &filter, RunOrder::Newest).pop().unwrap();
        assert_eq!(reader.count_runs(&filter).unwrap().count, 1, "{value}");
        (found.trace_id, found.started.get(..19).unwrap().to_owned())
    };
    let expected = (old.to_string(), "2023-11-14T22:13:20".to_owned());
    assert_eq!(only(StoreField::Answer, OutputState::Unknown.as_str()), expected);
    assert_eq!(only(StoreField::Model, ""), expected);
    assert_eq!(only(StoreField::UserId, ""), expected);
    let stored = reader.trajectory(&old.to_string()).unwrap();
    assert_eq!((stored.models, stored.user_id), (Vec::new(), None));
    assert_eq!(only(StoreField::UserId, "ann").0, trace_id(2).to_string());
}
