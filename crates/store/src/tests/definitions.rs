//! Tests of tool definitions: each set stored once, within limits, while a run has it.

use rusqlite::Connection;
use serde_json::{Value as Json, json};

use super::*;
use crate::record::{DEFINITIONS_BYTES_MAX, RecordedDefinitions};
use crate::settings::StoredContent;
use crate::{AnnotationChange, NewAnnotation, RetentionSettings, StoredGap, StoredPart};
use spanscore_base::model::ToolDefinition;
use spanscore_base::settings::HumanDuration;

fn refund(description: &str, schema: &str) -> ToolDefinition<'static> {
    ToolDefinition {
        name: "refund".into(),
        description: description.to_owned().into(),
        input_schema: json::parse(schema).unwrap().into_owned(),
        agent: None,
    }
}

fn offering(number: u64, tools: &[ToolDefinition<'_>], with_content: bool) -> TrajectoryRecord {
    let definitions = RecordedDefinitions::of(tools, with_content);
    TrajectoryRecord { definitions, ..run(number, 0, false) }
}

fn sets(folder: &Path) -> i64 {
    let file = Connection::open(folder.join("scores.db")).unwrap();
    file.query_row("SELECT count(*) FROM definitions", [], |row| row.get(0)).unwrap()
}

#[test]
fn tools_offered_are_shown_as_far_as_their_content_may_be() {
    let check = |tools: &[ToolDefinition<'_>], with_content, shown: Json, gap| {
        let folder = tempfile::tempdir().unwrap();
        let store = start(folder.path());
        store.trajectory(offering(1, tools, with_content));
        store.close();
        let reader = reader(folder.path());
        let found = reader.trajectory(&trace_id(1).to_string()).unwrap().offered;
        assert_eq!(found.unwrap_or_default(), shown);
        let restored = reader.restored_runs(&StoreFilter::default(), None, 1).unwrap();
        let [run] = &restored.items[..] else { panic!("one run") };
        assert_eq!(run.gap(StoredPart::Definitions), gap, "{shown}");
        let tools = run.trajectory(1_000).unwrap().tool_definitions;
        assert_eq!(tools.len(), shown.as_array().map_or(0, Vec::len));
    };
    let name = || json!([{"name": "refund"}]);
    let schema = r#"{"type":"object"}"#;
    check(&[], true, json!([]), None);
    check(&[], false, json!(null), Some(StoredGap::NotStored));
    let whole =
        json!([{"name": "refund", "description": "Pays.", "input_schema": {"type": "object"}}]);
    check(&[refund("Pays.", schema)], true, whole, None);
    check(&[refund("Pays.", schema)], false, name(), Some(StoredGap::NotStored));
    // No evaluator judges the words for the model, but the schema.
    let told = json!([{"name": "refund", "description": "As [SECRET_1]."}]);
    check(&[refund("As secret.", "null")], true, told, None);
    let schema = json!([{"name": "refund", "input_schema": {"default": "[SECRET_1]"}}]);
    check(&[refund("", r#"{"default":"secret"}"#)], true, schema, Some(StoredGap::Redacted));
    let long = refund(&"e".repeat(DEFINITIONS_BYTES_MAX), "null");
    check(&[long], true, name(), Some(StoredGap::Cut));
    let endless =
        ToolDefinition { name: "e".repeat(DEFINITIONS_BYTES_MAX).into(), ..refund("", "null") };
    check(&[endless], true, json!([]), Some(StoredGap::Cut));
}

#[test]
fn runs_share_a_set_that_goes_with_the_last_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = start(folder.path());
    for number in 0..3 {
        store.trajectory(offering(number, &[refund("Pays.", "null")], true));
    }
    store.trajectory(offering(3, &[refund("Pays back.", "null")], true));
    store.close();
    // After a restart sets are found in the file.
    let store = start(folder.path());
    store.trajectory(offering(4, &[refund("Pays.", "null")], true));
    store.close();
    assert_eq!(sets(folder.path()), 2);
    let restored = reader(folder.path()).restored_runs(&StoreFilter::default(), None, 10).unwrap();
    let told = restored
        .items
        .iter()
        .map(|run| run.trajectory(1_000).unwrap().tool_definitions[0].description.to_string());
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["Pays.", "Pays back.", "Pays.", "Pays.", "Pays."]);
    let file = Connection::open(folder.path().join("scores.db")).unwrap();
    file.execute("UPDATE trajectories SET stored = 1000 WHERE seq > 1", []).unwrap();
    let retention =
        RetentionSettings { age: HumanDuration::from_secs(60), ..RetentionSettings::default() };
    let settings = StoreSettings { retention, ..StoreSettings::default() };
    Store::start(settings, Some(folder.path()), redact()).unwrap().close();
    assert_eq!(sets(folder.path()), 1);
}

#[test]
fn a_run_that_is_kept_counts_with_the_set_that_it_keeps() {
    let pinned = |tools: &[ToolDefinition<'_>]| -> i64 {
        let folder = tempfile::tempdir().unwrap();
        let store = start(folder.path());
        store.trajectory(offering(1, tools, true));
        while store.view().counters().get(StoreCount::Trajectories) == 0 {
            std::thread::yield_now();
        }
        let label = Some("fail".to_owned());
        let new = NewAnnotation {
            trace_id: Some(trace_id(1).to_string()),
            author: "ann".to_owned(),
            verdict: AnnotationChange { label, ..AnnotationChange::default() },
            ..NewAnnotation::default()
        };
        store.view().annotate(new).unwrap();
        store.close();
        let file = Connection::open(folder.path().join("scores.db")).unwrap();
        let query = "SELECT (SELECT pinned FROM trajectories) - length(content) FROM definitions";
        file.query_row(query, [], |row| row.get(0)).unwrap()
    };
    let words: String = (0..5_000).map(|number| format!("{number} ")).collect();
    // The packed content of the run, with its times, may differ by some bytes.
    let [large, small] = [&*words, "Pays."].map(|words| pinned(&[refund(words, "null")]));
    assert!(large.abs_diff(small) < 64, "{large} and {small}");
}

#[test]
fn without_content_definitions_are_read_for_evaluators_alone() {
    let reads = |content| {
        let folder = tempfile::tempdir().unwrap();
        let settings = StoreSettings { content, ..StoreSettings::default() };
        let store = Store::start(settings, Some(folder.path()), redact()).unwrap();
        store.facts().tool_definitions
    };
    assert!(reads(StoredContent::Redacted) && !reads(StoredContent::None));
}
