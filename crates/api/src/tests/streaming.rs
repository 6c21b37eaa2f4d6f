//! Streams of what is stored.

use axum::body::Body;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::{Harness, filled, request};
use crate::DashboardSettings;

/// Event with its name, id and data.
type StreamEvent = (String, Option<String>, Value);

/// Reads events until one fits.
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
