//! Tests of annotations and datasets: changes, answers by `openapi.json`, refusals.

use axum::body::Body;
use serde_json::{Value, json};

use super::description::check as check_schema;
use super::{Answer, Harness, filled, request};
use crate::edits::{EDIT_BYTES_MAX, EDITS};
use crate::router::{OPENAPI, PREFIX};
use crate::{DashboardSettings, RequestRefusal};

/// Runs of a store that is still being written.
fn open_store() -> Harness {
    let harness = Harness::with(DashboardSettings::default());
    filled::fill(&harness.store);
    let count = || harness.store.view().counters().get(spanscore_store::StoreCount::Evaluations);
    while count() < 160 {
        std::thread::yield_now();
    }
    harness
}

/// Sends a change like a program.
async fn send(
    harness: &Harness,
    method: &str,
    path: &str,
    body: &Value,
    more: &[(&str, &str)],
) -> Answer {
    let bearer = harness.bearer();
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let headers: Vec<_> = headers.iter().chain(more).copied().collect();
    let mut request = request(method, &format!("{PREFIX}{path}"), &headers);
    *request.body_mut() = Body::from(body.to_string());
    harness.send(request).await
}

#[test]
fn changes_are_those_of_the_description() {
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut described = Vec::new();
    let paths = description["paths"].as_object().unwrap().iter();
    // An explanation changes nothing.
    for (path, methods) in paths.filter(|(path, _)| !path.ends_with("/inspect")) {
        let mut of_path = methods.as_object().unwrap().keys().filter(|it| *it != "get").peekable();
        if of_path.peek().is_some() {
            described.push((path.clone(), of_path.cloned().collect::<Vec<_>>()));
        }
    }
    let known = EDITS.map(|(path, methods)| {
        let mut methods: Vec<String> = methods.iter().map(|it| (*it).to_owned()).collect();
        methods.sort();
        (format!("{PREFIX}{path}"), methods)
    });
    described.iter_mut().for_each(|(_, methods)| methods.sort());
    described.sort();
    assert_eq!(described, known);
}

#[tokio::test]
async fn annotations_are_added_once_listed_changed_and_deleted() {
    let harness = open_store();
    let trace_id = filled::trace_id(41).to_string();
    let run = harness.json(&format!("/traces/{trace_id}")).await;
    let evaluation_id = &run["evaluations"][0]["evaluation_id"];
    let new = json!({
        "trace_id": trace_id, "evaluation_id": evaluation_id, "label": "fail",
        "comment": "<b>no</b>", "author": "ann",
    });
    let key = [("idempotency-key", "k-1")];
    let added = send(&harness, "POST", "/annotations", &new, &key).await;
    assert_eq!((added.status.as_u16(), &added.headers["etag"]), (201, &"\"1\"".parse().unwrap()));
    check_schema("Annotation", &added.json(), "POST /annotations");
    let again = send(&harness, "POST", "/annotations", &new, &key).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, added.json()));
    for (field, value) in [
        ("trace_id", json!(filled::trace_id(40).to_string())),
        ("evaluation_id", Value::Null),
        ("label", json!("pass")),
        ("comment", json!("yes")),
        ("author", json!("bob")),
    ] {
        let mut other = new.clone();
        other[field] = value;
        let other = send(&harness, "POST", "/annotations", &other, &key).await;
        assert_eq!(other.problem(), (409, "exists".to_owned()), "{field}");
    }
    let list = harness.json("/annotations?label=fail&author=ann").await;
    check_schema("AnnotationPage", &list, "/annotations");
    assert_eq!(list["items"], json!([added.json()]));
    assert_eq!(harness.json("/annotations?label=pass").await["items"], json!([]));
    assert_eq!(harness.json("/traces?annotated=yes").await["count"]["count"], 1);
    assert_eq!(harness.json("/evaluations?annotated=!yes").await["count"]["count"], 158);
    let run = harness.json(&format!("/traces/{trace_id}")).await;
    assert_eq!(run["annotations"], list["items"]);
    let own = format!("/annotations/{}", added.json()["annotation_id"].as_str().unwrap());
    let change = json!({"label": "pass"});
    let stale = send(&harness, "PATCH", &own, &change, &[("if-match", "\"2\"")]).await;
    assert_eq!(stale.problem(), (412, "changed".to_owned()));
    let changed = send(&harness, "PATCH", &own, &change, &[("if-match", "\"1\"")]).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["label"]), (200, &json!("pass")));
    check_schema("Annotation", &changed.json(), "PATCH");
    let deleted = send(&harness, "DELETE", &own, &Value::Null, &[]).await;
    assert_eq!((deleted.status.as_u16(), deleted.text.as_str()), (204, ""));
    let gone = send(&harness, "DELETE", &own, &Value::Null, &[]).await;
    assert_eq!(gone.problem(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn people_are_compared_with_evaluators_and_with_each_other() {
    let harness = open_store();
    let runs = harness.json("/evaluations?evaluator=tool_call_args/refund&limit=8").await;
    // Ann labels as the evaluator does but once, Bob contradicts half of the time.
    for (at, row) in runs["items"].as_array().unwrap().iter().enumerate() {
        let opposite = if row["label"] == "pass" { "fail" } else { "pass" };
        for (author, differs) in [("ann", at == 0), ("bob", at % 2 == 0)] {
            let label = if differs { opposite } else { row["label"].as_str().unwrap() };
            let new = json!({
                "trace_id": row["trace_id"], "evaluation_id": row["evaluation_id"],
                "label": label, "author": author,
            });
            let added = send(&harness, "POST", "/annotations", &new, &[]).await;
            assert_eq!(added.status.as_u16(), 201, "{}", added.text);
        }
    }
    let found = harness.json("/agreement").await;
    check_schema("Agreement", &found, "/agreement");
    assert_eq!(found["labels"], 16);
    let rated = &found["evaluators"][0];
    assert_eq!(rated["evaluator"], "tool_call_args/refund", "{found}");
    assert_eq!((&rated["labels"], &rated["authors"]), (&json!(16), &json!(2)));
    assert_eq!(rated["accuracy"], json!(11.0 / 16.0));
    assert_eq!(rated["disagreements"].as_array().unwrap().len(), 5);
    let people = &found["people"][0];
    assert_eq!((&people["a"], &people["b"]), (&json!("ann"), &json!("bob")));
    assert_eq!((&people["labels"], &people["accuracy"]), (&json!(8), &json!(5.0 / 8.0)));
    let none = harness.json("/agreement?service=nobody").await;
    assert_eq!(none, json!({"labels": 0, "evaluators": [], "people": []}));
}

#[tokio::test]
async fn sessions_are_judged_by_people() {
    let harness = open_store();
    let session_id = harness.json("/sessions?limit=1").await["items"][0]["session_id"].clone();
    let new = json!({"session_id": session_id, "label": "pass", "author": "ann"});
    let added = send(&harness, "POST", "/annotations", &new, &[]).await;
    assert_eq!(added.status.as_u16(), 201, "{}", added.text);
    check_schema("Annotation", &added.json(), "POST /annotations");
    assert_eq!(added.json()["session_id"], session_id);
    let path = format!("/annotations?session_id={}", session_id.as_str().unwrap());
    assert_eq!(harness.json(&path).await["items"], json!([added.json()]));
}

#[tokio::test]
async fn items_of_datasets_are_made_of_runs_listed_and_written_as_a_file() {
    let harness = open_store();
    let trace_id = filled::trace_id(41).to_string();
    let new = json!({"trace_id": trace_id[..8], "key": "refund 1/2", "note": "good"});
    let added = send(&harness, "POST", "/datasets/golden/items", &new, &[]).await;
    assert_eq!(added.status.as_u16(), 201, "{}", added.text);
    check_schema("DatasetItem", &added.json(), "POST");
    let twice = send(&harness, "POST", "/datasets/golden/items", &new, &[]).await;
    assert_eq!(twice.problem(), (409, "exists".to_owned()));
    let datasets = harness.json("/datasets").await;
    check_schema("Datasets", &datasets, "/datasets");
    assert_eq!(datasets["items"], json!([{"dataset": "golden", "items": 1}]));
    let dataset = harness.json("/datasets/golden").await;
    check_schema("Dataset", &dataset, "/datasets/golden");
    assert_eq!((&dataset["count"]["count"], &dataset["next"]), (&json!(1), &Value::Null));
    for number in 38..41 {
        let new = json!({"trace_id": filled::trace_id(number).to_string()});
        send(&harness, "POST", "/datasets/pages/items", &new, &[]).await;
    }
    let first = harness.json("/datasets/pages?limit=2").await;
    let cursor = first["next"].as_str().unwrap();
    let second = harness.json(&format!("/datasets/pages?limit=2&cursor={cursor}")).await;
    check_schema("Dataset", &second, "second page");
    let listed = [&first, &second].map(|page| page["items"].as_array().unwrap().clone()).concat();
    let listed: Vec<_> = listed.iter().map(|item| item["trace_id"].clone()).collect();
    assert_eq!(listed, [38, 39, 40].map(|number| json!(filled::trace_id(number).to_string())));
    let own = "/datasets/golden/items/refund%201%2F2";
    let criteria = json!({"tool_calls": [{"name": "pay"}]});
    let change = json!({"criteria": criteria});
    let changed = send(&harness, "PATCH", own, &change, &[]).await;
    assert_eq!((changed.status.as_u16(), &changed.json()["criteria"]), (200, &criteria));
    let file = harness.ask("/datasets/golden/items.jsonl").await;
    assert_eq!(file.headers["content-type"], "application/x-ndjson");
    let row: Value = serde_json::from_str(file.text.trim_end()).unwrap();
    assert_eq!((&row["id"], &row["criteria"]), (&json!("refund 1/2"), &criteria));
    let deleted = send(&harness, "DELETE", own, &Value::Null, &[]).await;
    assert_eq!(deleted.status.as_u16(), 204);
    let none = harness.ask("/datasets/golden/items.jsonl").await;
    assert_eq!(none.problem(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let harness = Harness::with(DashboardSettings::default());
    let check = async |body: &str, media: &str, status: u16, words: &str| {
        let bearer = harness.bearer();
        let headers = [("authorization", bearer.as_str()), ("content-type", media)];
        let mut request = request("POST", "/api/v1/annotations", &headers);
        *request.body_mut() = Body::from(body.to_owned());
        let answer = harness.send(request).await;
        assert_eq!(answer.problem().0, status, "{body:.40}: {}", answer.text);
        assert!(answer.text.contains(words), "{body:.40}: {}", answer.text);
    };
    let json = "application/json; charset=utf-8";
    check("{}", "", 415, "Content-Type").await;
    check("trace_id=1", "application/x-www-form-urlencoded", 415, "Content-Type").await;
    check("{}", "text/plain", 415, "Content-Type").await;
    check("{", json, 400, "EOF").await;
    check(r#"{"label": "pass"}"#, json, 400, "trace_id").await;
    check(r#"{"trace_id": "5b8a", "lable": "pass"}"#, json, 400, "lable").await;
    check(r#"{"trace_id": "5b8a"}"#, json, 400, "needs a `label`").await;
    check(r#"{"trace_id": "5b8a", "label": "good"}"#, json, 400, "`pass` or `fail`").await;
    check(&"x".repeat(EDIT_BYTES_MAX), json, 400, "expected").await;
    check(&"x".repeat(EDIT_BYTES_MAX + 1), json, 413, "at most").await;
    assert_eq!(harness.api.counters.get(RequestRefusal::TooLarge), 1);
}

#[tokio::test]
async fn the_changes_of_the_documentation_are_made() {
    let page = include_str!("../../../../docs/api.md");
    let harness = open_store();
    let run = &filled::trace_id(41).to_string()[..8];
    let changes = page.lines().filter_map(|line| {
        let (path, body) = line.split_once("$api")?.1.split_once(" -d '")?;
        Some((path, body.strip_suffix('\'')?.replace("5b8aa5a2", run)))
    });
    let changes: Vec<_> = changes.collect();
    assert_eq!(changes.len(), 2);
    for (path, body) in changes {
        let body = serde_json::from_str(&body).unwrap();
        let answer = send(&harness, "POST", path, &body, &[]).await;
        assert_eq!(answer.status.as_u16(), 201, "{path}: {}", answer.text);
    }
    let file = harness.ask("/datasets/golden/items.jsonl").await;
    assert!(file.text.contains("refund-1"), "{}", file.text);
}
