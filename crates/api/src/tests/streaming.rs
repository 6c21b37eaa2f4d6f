//! Tests of streams of stored rows.

use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::description::check as check_schema;
use super::{Harness, filled, request};
use crate::DashboardSettings;
use spanscore_store::{AnnotationChange, NewAnnotation, StoreCount};

/// Event with its name, id and data.
type StreamEvent = (String, Option<String>, Value);

/// Reads events until one matches.
async fn read_until(body: &mut Body, fits: impl Fn(&StreamEvent) -> bool) -> Vec<StreamEvent> {
    let mut text = String::new();
    let mut events = Vec::new();
    loop {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let line = |name: &str| {
                let found = event.lines().find_map(|line| line.strip_prefix(name));
                found.map(|value| value.trim().to_owned())
            };
            let data = serde_json::from_str(&line("data:").unwrap()).unwrap();
            events.push((line("event:").unwrap(), line("id:"), data));
            text = rest.to_owned();
        }
        if events.iter().any(&fits) {
            return events;
        }
    }
}

async fn open(harness: &Harness, query: &str, headers: &[(&str, &str)]) -> Body {
    let bearer = harness.bearer();
    let headers = [&[("authorization", bearer.as_str())], headers].concat();
    let request = request("GET", &format!("/api/v1/stream?{query}"), &headers);
    let response = harness.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.into_body()
}

fn names(events: &[StreamEvent], name: &str) -> usize {
    events.iter().filter(|(it, _, _)| it == name).count()
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed_under_its_filter() {
    let harness = Harness::filled();
    let is_stats = |event: &StreamEvent| event.0 == "stats";
    let mut body = open(&harness, "", &[("last-event-id", "0.0")]).await;
    let events = read_until(&mut body, is_stats).await;
    assert_eq!((names(&events, "trajectory"), names(&events, "evaluation")), (80, 160));
    assert_eq!(names(&events, "gap"), 0);
    let beyond = format!(".{}", i64::MAX);
    let ids = || events.iter().filter_map(|(_, id, _)| id.as_ref());
    assert!(ids().all(|id| !id.ends_with(&beyond)), "an id hides later verdicts");
    let (_, id, row) = &events[80];
    assert_eq!(row["trace_id"], filled::trace_id(0).to_string());
    let mut body = open(&harness, "", &[("last-event-id", id.as_deref().unwrap())]).await;
    let events = read_until(&mut body, is_stats).await;
    assert_eq!((names(&events, "trajectory"), names(&events, "evaluation")), (0, 159));
    let mut body = open(&harness, "label=fail", &[("last-event-id", "0.0")]).await;
    let events = read_until(&mut body, is_stats).await;
    assert_eq!((names(&events, "trajectory"), names(&events, "evaluation")), (20, 20));
    let mut body = open(&harness, "", &[]).await;
    let events = read_until(&mut body, is_stats).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].2["evaluations"], 160);
}

#[tokio::test]
async fn runs_come_as_they_are_stored_and_a_gap_tells_of_those_beyond_fifty_a_second() {
    let harness = Harness::with(DashboardSettings::default());
    filled::write(&harness.store, 100);
    let has_run = |event: &StreamEvent| {
        event.0 == "evaluation" && event.2["trace_id"] == filled::trace_id(100).to_string()
    };
    let mut body = open(&harness, "", &[("last-event-id", "0.0")]).await;
    read_until(&mut body, has_run).await;
    (0..60).for_each(|number| filled::write(&harness.store, number));
    let is_last = |event: &StreamEvent| {
        event.0 == "evaluation" && event.2["trace_id"] == filled::trace_id(59).to_string()
    };
    let events = read_until(&mut body, is_last).await;
    let gaps = || events.iter().filter(|(name, _, _)| name == "gap");
    let missed = |field: &str| gaps().map(|it| it.2[field].as_i64().unwrap()).sum::<i64>();
    let runs = names(&events, "trajectory") as i64 + missed("runs");
    let evaluations = names(&events, "evaluation") as i64 + missed("evaluations");
    assert_eq!(missed("missed"), missed("runs") + missed("evaluations"));
    assert!(missed("missed") > 0 && runs >= 60 && evaluations >= 119, "{runs} {evaluations}");
}

#[tokio::test]
async fn verdicts_of_people_come_as_they_are_made_and_changed_under_the_filter_of_runs() {
    let harness = Harness::with(DashboardSettings::default());
    filled::write(&harness.store, 3);
    while harness.store.view().counters().get(StoreCount::Evaluations) < 2 {
        tokio::task::yield_now().await;
    }
    let is_stats = |event: &StreamEvent| event.0 == "stats";
    let mut all = open(&harness, "", &[]).await;
    let mut others = open(&harness, "service=other", &[("last-event-id", "0.0.0")]).await;
    read_until(&mut all, is_stats).await;
    let view = harness.store.view();
    let label = |word: &str| AnnotationChange { label: Some(word.into()), ..Default::default() };
    let trace_id = Some(filled::trace_id(3).to_string());
    let new = NewAnnotation { trace_id, verdict: label("fail"), ..NewAnnotation::default() };
    let (made, _) = view.annotate(new).unwrap();
    view.change_annotation(&made.annotation_id, label("pass"), None).unwrap();
    let events = read_until(&mut all, |event| event.2["revision"] == 2).await;
    let (name, id, data) = events.last().unwrap();
    assert_eq!((&**name, &data["label"]), ("annotation", &"pass".into()));
    check_schema("Annotation", data, "an event");
    let mut resumed = open(&harness, "", &[("last-event-id", id.as_deref().unwrap())]).await;
    for body in [&mut others, &mut resumed] {
        assert_eq!(names(&read_until(body, is_stats).await, "annotation"), 0);
    }
}
