//! Tests of annotations and dataset items with their runs.

use super::*;
use crate::query::{AnnotationFilter, StoreField, StoreQueryError};
use crate::record::RecordedContent;
use crate::{
    AnnotationChange, DatasetItemChange, NewAnnotation, NewDatasetItem, StoreEditError, StoreView,
    StoredContent,
};

fn verdict(label: &str) -> AnnotationChange {
    AnnotationChange { label: Some(label.to_owned()), ..AnnotationChange::default() }
}

fn on(number: u64, id: u8) -> NewAnnotation {
    NewAnnotation {
        id: [id; 16],
        trace_id: Some(trace_id(number).to_string()),
        author: "ann".to_owned(),
        verdict: verdict("fail"),
        ..NewAnnotation::default()
    }
}

fn item(number: u64, key: Option<&str>) -> NewDatasetItem {
    NewDatasetItem {
        dataset: "golden".to_owned(),
        trace_id: trace_id(number).to_string()[..10].to_owned(),
        key: key.map(str::to_owned),
        ..NewDatasetItem::default()
    }
}

/// Starts a store with runs, and waits until they are written.
fn filled(folder: &Path, runs: u64) -> (Store, StoreView) {
    let store = start(folder);
    (0..runs).for_each(|number| {
        store.trajectory(run(number, 0, true));
        store.evaluations([evaluation(number, 1, scored(0.2), None)].into());
    });
    let view = store.view().clone();
    while store.view().counters().get(crate::StoreCount::Evaluations) < runs {
        std::thread::yield_now();
    }
    (store, view)
}

#[test]
fn annotations_are_kept_once_changed_by_revision_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, view) = filled(folder.path(), 2);
    let (first, is_new) = view.annotate(on(0, 1)).unwrap();
    assert!(is_new);
    assert_eq!(
        (first.target.as_str(), first.name.as_str(), first.revision),
        ("trace", "review", 1)
    );
    // The same request again.
    assert_eq!(view.annotate(on(0, 1)).unwrap(), (first.clone(), false));
    let evaluation_id = all(folder.path())[0].evaluation_id.clone();
    let of_evaluation = NewAnnotation { evaluation_id: Some(evaluation_id), ..on(1, 2) };
    let of_evaluation = view.annotate(of_evaluation).unwrap().0;
    assert_eq!(of_evaluation.target, "evaluation");
    assert!(of_evaluation.evaluator.is_some());
    let of_call = view.annotate(NewAnnotation { call: Some(1), ..on(1, 3) }).unwrap().0;
    assert_eq!((of_call.target.as_str(), of_call.call), ("call", Some(1)));
    let comment = Some("too much was paid".to_owned());
    let change = AnnotationChange { comment, label: Some(String::new()), score: None };
    let id = first.annotation_id.as_str();
    let stale = view.change_annotation(id, change.clone(), Some(2));
    assert!(matches!(stale, Err(StoreEditError::Changed { revision: 1 })), "{stale:?}");
    let changed = view.change_annotation(id, change, Some(1)).unwrap();
    assert_eq!((changed.revision, changed.label.as_deref()), (2, None));
    assert_eq!(changed.comment.as_deref(), Some("too much was paid"));
    let reader = reader(folder.path());
    let count = |filter: AnnotationFilter| {
        reader.annotations(&filter, None, 10).unwrap().count.unwrap().count
    };
    let of_run = trace_id(1).to_string()[..8].to_owned();
    assert_eq!(count(AnnotationFilter::default()), 3);
    assert_eq!(count(AnnotationFilter { trace_id: Some(of_run), ..Default::default() }), 2);
    let label = Some("fail".to_owned());
    assert_eq!(count(AnnotationFilter { label, ..Default::default() }), 2);
    assert_eq!(
        count(AnnotationFilter { evaluator: of_evaluation.evaluator, ..Default::default() }),
        1
    );
    assert_eq!(reader.trajectory(&trace_id(1).to_string()).unwrap().annotations.len(), 2);
    let mut annotated = StoreFilter::default();
    annotated.add(StoreField::Annotated, "yes");
    assert_eq!(reader.count_runs(&annotated).unwrap().count, 2);
    view.delete_annotation(id, Some(2)).unwrap();
    assert!(matches!(view.delete_annotation(id, None), Err(StoreEditError::Missing { .. })));
    assert_eq!(reader.count_runs(&annotated).unwrap().count, 1);
    assert_eq!(reader.evaluations(&annotated, StoreOrder::Newest, 10).unwrap().len(), 1);
}

#[test]
fn sessions_are_judged_and_keep_their_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, view) = filled(folder.path(), 3);
    let session_id = Some("s-1".to_owned());
    let on_session = NewAnnotation { trace_id: None, session_id: session_id.clone(), ..on(0, 1) };
    let (made, is_new) = view.annotate(on_session.clone()).unwrap();
    assert!(is_new);
    assert_eq!((made.target.as_str(), &made.session_id), ("session", &session_id));
    assert_eq!(view.annotate(on_session).unwrap(), (made.clone(), false));
    let reader = reader(folder.path());
    for number in 0..3 {
        let run = reader.trajectory(&trace_id(number).to_string()).unwrap();
        assert_eq!(run.annotations, std::slice::from_ref(&made), "of each run of the session");
    }
    let filter = AnnotationFilter { session_id, ..AnnotationFilter::default() };
    let listed = reader.annotations(&filter, None, 10).unwrap().items;
    assert_eq!(listed, std::slice::from_ref(&made));
    let pinned = "SELECT lower(hex(trace_id)) FROM trajectories WHERE pinned > 0";
    let pinned = rusqlite::Connection::open(folder.path().join("scores.db"))
        .and_then(|it| it.query_row(pinned, [], |row| row.get::<_, String>(0)));
    assert_eq!(pinned.unwrap(), made.trace_id);
}

#[test]
fn a_verdict_on_the_session_of_a_run_is_that_of_its_own_client() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    store.trajectory(run(0, 0, true));
    let mut other = run(1, 0, true);
    other.agent_name = Some("returns".into());
    store.trajectory(other);
    store.close();
    let store = start(folder.path());
    for (number, id) in [(0, 1), (1, 2)] {
        let new = NewAnnotation { session_id: Some("s-1".to_owned()), ..on(number, id) };
        let (made, _) = store.view().annotate(new.clone()).unwrap();
        assert_eq!((made.target.as_str(), made.session_id.as_deref()), ("session", Some("s-1")));
        assert_eq!(store.view().annotate(new).unwrap(), (made.clone(), false));
        let of_run = reader(folder.path()).trajectory(&trace_id(number).to_string()).unwrap();
        assert_eq!(of_run.annotations, [made]);
    }
}

#[test]
fn the_verdict_on_a_session_moves_with_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let (store, view) = filled(folder.path(), 1);
    let session_id = Some("s-1".to_owned());
    let new = NewAnnotation { trace_id: None, session_id: session_id.clone(), ..on(0, 1) };
    view.annotate(new).unwrap();
    let mut late = run(0, 1, true);
    late.agent_name = Some("returns".into());
    store.trajectory(late);
    store.close();
    let run = reader(folder.path()).trajectory(&trace_id(0).to_string()).unwrap();
    assert_eq!((run.agent.as_str(), run.annotations.len()), ("returns", 1));
    assert_eq!(run.annotations[0].session_id, session_id);
}

#[test]
fn of_each_person_the_last_label_on_a_subject_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, view) = filled(folder.path(), 2);
    let ids = all(folder.path());
    let said = |at: usize, id: u8, author: &str, label: &str| {
        let row = &ids[at];
        let new = NewAnnotation {
            id: [id; 16],
            trace_id: Some(row.trace_id.clone()),
            evaluation_id: Some(row.evaluation_id.clone()),
            author: author.to_owned(),
            verdict: verdict(label),
            ..NewAnnotation::default()
        };
        view.annotate(new).unwrap();
    };
    said(0, 1, "ann", "pass");
    said(0, 2, "ann", "fail");
    said(0, 3, "bob", "fail");
    said(1, 4, "ann", "pass");
    let made = view.annotate(on(0, 5)).unwrap().0.changed;
    let labels = reader(folder.path()).labels(&StoreFilter::default()).unwrap();
    let of = |label: &crate::query::PersonLabel| {
        (label.author.clone(), label.label, label.verdict, label.evaluator.is_some())
    };
    let named = |author: &str, label, verdict| (author.to_owned(), label, verdict, true);
    let expected = [
        ("ann".to_owned(), "fail", None, false),
        named("ann", "pass", Some("fail")),
        named("bob", "fail", Some("fail")),
        named("ann", "fail", Some("fail")),
    ];
    assert_eq!(labels.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!(labels[2].subject, labels[3].subject);
    assert_ne!(labels[1].subject, labels[3].subject);
    let first = "01".repeat(16);
    while view.change_annotation(&first, verdict("pass"), None).unwrap().changed <= made {
        std::thread::yield_now();
    }
    let mut filter = StoreFilter::default();
    filter.add(StoreField::Evaluator, labels[1].evaluator.clone().unwrap());
    let labels = reader(folder.path()).labels(&filter).unwrap();
    let expected = [
        named("ann", "pass", Some("fail")),
        named("ann", "pass", Some("fail")),
        named("bob", "fail", Some("fail")),
    ];
    assert_eq!(labels.iter().map(of).collect::<Vec<_>>(), expected, "the last change counts");
}

#[test]
fn what_is_not_there_and_what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, view) = filled(folder.path(), 1);
    let check = |new: NewAnnotation, words: &str| {
        let error = view.annotate(new).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(NewAnnotation { trace_id: Some("ffffffff".to_owned()), ..on(0, 1) }, "no trace");
    let session_id = Some("s-1".to_owned());
    let other = Some("s-2".to_owned());
    check(NewAnnotation { session_id: other, ..on(0, 1) }, "no session `s-2` with this run");
    check(NewAnnotation { trace_id: None, ..on(0, 1) }, "or a `session_id`");
    let of_session = |session_id| NewAnnotation { trace_id: None, session_id, ..on(0, 1) };
    check(NewAnnotation { call: Some(1), ..of_session(session_id) }, "name it by `trace_id`");
    check(of_session(Some("s-2".to_owned())), "no session `s-2`");
    check(NewAnnotation { call: Some(2), ..on(0, 1) }, "no call 2");
    check(NewAnnotation { call: Some(i64::MIN), ..on(0, 1) }, "no call");
    let evaluation_id = Some("00ff".to_owned());
    check(NewAnnotation { evaluation_id: evaluation_id.clone(), ..on(0, 1) }, "no evaluation");
    check(NewAnnotation { evaluation_id, call: Some(1), ..on(0, 1) }, "leave one out");
    check(NewAnnotation { verdict: verdict("good"), ..on(0, 1) }, "`pass` or `fail`");
    check(NewAnnotation { verdict: verdict(""), ..on(0, 1) }, "needs a `label`");
    let score = AnnotationChange { score: Some(1.1), ..AnnotationChange::default() };
    check(NewAnnotation { verdict: score, ..on(0, 1) }, "from 0 to 1");
    let long = |bytes: usize| AnnotationChange {
        comment: Some("x".repeat(bytes)),
        ..AnnotationChange::default()
    };
    check(NewAnnotation { verdict: long(4_097), ..on(0, 1) }, "at most 4096");
    for id in 0..100 {
        view.annotate(NewAnnotation { verdict: long(4_096), ..on(0, id) }).unwrap();
    }
    check(on(0, 100), "the most that are kept");
    let bad = |new: NewDatasetItem, words: &str| {
        let error = view.add_item(new).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    bad(NewDatasetItem { dataset: " ".to_owned(), ..item(0, None) }, "`dataset` needs letters");
    bad(item(0, Some("a\nb")), "`key` needs letters");
    let change = DatasetItemChange { criteria: Some(serde_json::json!([])), note: None };
    bad(NewDatasetItem { change, ..item(0, None) }, "is an object");
    view.add_item(item(0, Some("a"))).unwrap();
    bad(item(0, Some("a")), "there is an item `a`");
    store.close();
    assert!(matches!(view.annotate(on(0, 101)), Err(StoreEditError::Unavailable)));
}

#[test]
fn items_hold_the_calls_of_a_run_and_are_edited() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, view) = filled(folder.path(), 1);
    let made = view.add_item(item(0, None)).unwrap();
    // The case of the run.
    assert_eq!(made.key, "refund");
    let arguments = serde_json::json!({"order": 17, "token": {"$is": "any"}});
    let call = serde_json::json!({"name": "refund", "arguments": arguments});
    assert_eq!(made.criteria, serde_json::json!({"tool_calls": [call]}));
    let criteria = Some(serde_json::json!({"tool_calls": []}));
    let change = DatasetItemChange { criteria, note: Some("none".to_owned()) };
    let place = ("golden", made.key.as_str());
    let edited = view.change_item(place, change.clone(), Some(1)).unwrap();
    assert_eq!((edited.revision, edited.note.as_deref()), (2, Some("none")));
    let stale = view.change_item(place, change, Some(1));
    assert!(matches!(stale, Err(StoreEditError::Changed { revision: 2 })));
    let reader = reader(folder.path());
    assert_eq!(reader.datasets().unwrap()[0].items, 1);
    let row = reader.dataset_items("golden", None, 10).unwrap().items[0].row();
    assert_eq!(row["id"], made.key.as_str());
    assert_eq!(row["criteria"], serde_json::json!({"tool_calls": []}));
    view.delete_item(place, None).unwrap();
    assert!(reader.datasets().unwrap().is_empty());
}

#[test]
fn an_item_without_a_name_has_the_case_of_its_run_or_its_trace_once_that_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, view) = filled(folder.path(), 2);
    let digits = trace_id(1).to_string()[..12].to_owned();
    assert_eq!(view.add_item(item(0, None)).unwrap().key, "refund");
    assert_eq!(view.add_item(item(1, None)).unwrap().key, digits);
    for number in 0..2 {
        let again = view.add_item(item(number, None));
        assert!(matches!(again, Err(StoreEditError::Exists { .. })), "{again:?}");
    }
}

#[test]
fn runs_without_content_become_items_and_those_without_calls_need_criteria() {
    let check = |shed: i64, criteria: Option<serde_json::Value>| {
        let folder = tempfile::tempdir().unwrap();
        let settings = StoreSettings { content: StoredContent::None, ..StoreSettings::default() };
        let store = Store::start(settings, Some(folder.path()), redact()).unwrap();
        let written = TrajectoryRecord { content: None, ..run(0, 0, true) };
        store.trajectory(written);
        store.close();
        let file = Connection::open(folder.path().join("scores.db")).unwrap();
        file.execute("UPDATE trajectories SET shed = ?1", [shed]).unwrap();
        file.execute("DELETE FROM calls WHERE ?1 = 2", [shed]).unwrap();
        let store = start(folder.path());
        let added = store.view().add_item(item(0, None));
        assert_eq!(added.as_ref().ok().map(|item| item.criteria.clone()), criteria, "{added:?}");
        if let Err(error) = added {
            assert!(error.to_string().contains("are not stored"), "{error}");
        }
    };
    let names = serde_json::json!({"tool_calls": [{"name": "refund"}]});
    check(1, Some(names));
    check(2, None);
}

/// Builds a run with nearly incompressible content.
fn large_run(number: u64) -> TrajectoryRecord {
    let mut state = number + 1;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:08x}", state >> 32)
    };
    let text: String = (0..7_000).map(word).collect();
    let mut run = run(number, 0, true);
    let texts = format!(r#"{{"input":{{"value":"{text}"}},"calls":[]}}"#);
    run.content = run.content.map(|content| RecordedContent { texts, ..content });
    run
}

#[test]
fn runs_that_people_keep_leave_half_of_the_size_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = StoreSettings::default();
    settings.retention.size_mib = 4;
    let store = Store::start(settings, Some(folder.path()), redact()).unwrap();
    (0..90).for_each(|number| store.trajectory(large_run(number)));
    let view = store.view();
    while store.view().counters().get(crate::StoreCount::Trajectories) < 90 {
        std::thread::yield_now();
    }
    let kept: Vec<_> = (0..90).map_while(|id| view.annotate(on(id.into(), id)).ok()).collect();
    // 28,000 bytes of content each.
    assert!((55..75).contains(&kept.len()), "{}", kept.len());
    let full = [view.annotate(on(89, 89)).unwrap_err(), view.add_item(item(89, None)).unwrap_err()];
    for error in full {
        assert!(matches!(error, StoreEditError::Full { most: 2, .. }), "{error}");
    }
    view.annotate(on(0, 0)).unwrap();
    for (annotation, _) in &kept[..2] {
        view.delete_annotation(&annotation.annotation_id, None).unwrap();
    }
    let added = view.add_item(item(89, None)).unwrap();
    assert_eq!(added.user_input.map(|text| text.len()), Some(56_000));
}

#[test]
fn annotated_runs_and_those_of_items_outlive_the_retention() {
    let folder = tempfile::tempdir().unwrap();
    let (store, view) = filled(folder.path(), 4);
    let annotation = view.annotate(on(1, 1)).unwrap().0;
    view.add_item(item(2, Some("a"))).unwrap();
    view.annotate(on(3, 3)).unwrap();
    view.delete_annotation(&view.annotate(on(3, 3)).unwrap().0.annotation_id, None).unwrap();
    store.close();
    let mut settings = StoreSettings::default();
    settings.retention.age = spanscore_base::settings::HumanDuration::from_millis(1);
    Store::start(settings, Some(folder.path()), redact()).unwrap().close();
    let reader = reader(folder.path());
    let find = |number: u64| reader.trajectory(&trace_id(number).to_string());
    assert!(matches!(find(0), Err(StoreQueryError::NoTrace { .. })));
    assert_eq!(find(1).unwrap().annotations, [annotation]);
    assert_eq!(find(2).unwrap().calls.len(), 1);
    assert!(matches!(find(3), Err(StoreQueryError::NoTrace { .. })));
}
