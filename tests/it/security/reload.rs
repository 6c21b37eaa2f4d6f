//! A config that changes while traces are open.

use std::collections::BTreeMap;

use crate::support::collector::{Event, HELD, Running};
use crate::support::spans::{agent, request, searches, tool};

const LIMIT: &str = "tool_call_count: {criteria: {tool_calls_count: {search: ['<=', LIMIT]}}}";

fn config(limit: &str, more: &str) -> String {
    format!("{HELD}evaluators:\n  tool_error:\n  {}\n{more}", LIMIT.replace("LIMIT", limit))
}

fn by_name(events: &[Event]) -> BTreeMap<(u8, String), (String, String)> {
    let of = |event: &Event| {
        let key = (event.trace(), event.name().to_owned());
        (key, (event.label().to_owned(), event.text("spanscore.evaluator.version").to_owned()))
    };
    events.iter().map(of).collect()
}

#[tokio::test]
async fn open_traces_go_on_and_are_judged_by_the_new_evaluators() {
    let running = Running::start(&config("1", "")).await;
    running.send(request([agent(7), tool(7, 2, "search"), tool(7, 3, "search")])).await;
    let before = running.reload(&config("2", "")).await;
    assert_eq!(before, Ok(()));
    running.send(request(vec![tool(7, 4, "other")])).await;
    running.send(request(searches(8, &[2]))).await;
    let events = running.judged().await;
    assert!(events.iter().all(|event| event.revision() == 0), "no trace is split: {events:?}");
    let found = by_name(&events);
    assert_eq!(found.len(), 4, "{found:?}");
    let label = |trace: u8, name: &str| found[&(trace, name.to_owned())].0.clone();
    assert_eq!(label(7, "tool_call_count"), "pass", "two are allowed now");
    assert_eq!(label(8, "tool_call_count"), "pass");
}

#[tokio::test]
async fn a_change_of_one_evaluator_leaves_the_others_as_they_are() {
    let version = |events: &[Event], name: &str| by_name(events)[&(7, name.to_owned())].1.clone();
    let first = Running::start(&config("1", "")).await;
    first.send(request(searches(7, &[2]))).await;
    let first = first.judged().await;
    let second = Running::start(&config("1", "")).await;
    assert_eq!(second.reload(&config("3", "")).await, Ok(()));
    second.send(request(searches(7, &[2]))).await;
    let second = second.judged().await;
    assert_eq!(version(&first, "tool_error"), version(&second, "tool_error"));
    assert_ne!(version(&first, "tool_call_count"), version(&second, "tool_call_count"));
    let id = |events: &[Event]| {
        events.iter().find(|event| event.name() == "tool_error").unwrap().id().to_owned()
    };
    assert_eq!(id(&first), id(&second), "the same evidence, judged by the same evaluator");
}

#[tokio::test]
async fn an_evaluator_that_asks_for_more_says_that_open_traces_lack_it() {
    let running = Running::start(&format!("{HELD}evaluators: {{tool_error: }}\n")).await;
    running.send(request(searches(7, &[2]))).await;
    let criteria = "{criteria: {tool_calls: [{name: search, args: {}}]}}";
    let asks = format!("{HELD}evaluators: {{tool_call_args: {criteria}}}\n");
    assert_eq!(running.reload(&asks).await, Ok(()));
    running.send(request(searches(8, &[2]))).await;
    let series = "spanscore_evaluate_partial_evaluations_total{evaluator=\"tool_call_args\"}";
    let events = running.judged().await;
    assert_eq!(events.len(), 2, "{events:?} {series}");
}

#[tokio::test]
async fn fifty_reloads_under_load_lose_nothing_and_split_nothing() {
    let running = Running::start(&config("1", "")).await;
    let sending = async {
        for trace in 1..=100u8 {
            running.send(request([agent(trace), tool(trace, 2, "search")])).await;
            running.send(request(vec![tool(trace, 3, "search")])).await;
        }
    };
    let reloading = async {
        for round in 0..50 {
            let dialect = "dialects: [{name: own, detect: {attr: own.tool}, name_sources: []}]\n";
            let good = config(if round % 2 == 0 { "2" } else { "1" }, "");
            assert_eq!(running.reload(&good).await, Ok(()), "{round}");
            let bad = config("1", &dialect.replace("detect", "detct"));
            assert!(running.reload(&bad).await.is_err(), "{round}");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(sending, reloading);
    let taken = "spanscore_config_reloads_total{outcome=\"taken\"}";
    running.counted(taken, 50).await;
    let events = running.judged().await;
    let found = by_name(&events);
    assert_eq!((events.len(), found.len()), (200, 200), "each trace once by each evaluator");
    let count = |label: &str| found.values().filter(|(have, _)| have == label).count();
    assert_eq!(count("fail") + count("pass"), 200);
    // The last config allows one search; all traces were open.
    let failed = found.iter().filter(|((_, name), _)| name == "tool_call_count");
    assert!(failed.into_iter().all(|(_, (label, _))| label == "fail"));
}

#[tokio::test]
async fn clients_change_and_a_bad_file_changes_nothing() {
    let with = |auth: &str| {
        format!("{HELD}receivers: {{otlp: {{auth: {{clients: {{{auth}}}}}}}}}\nevaluators: {{}}\n")
    };
    let running = Running::start(&with("a: {token: one}")).await;
    let post = async |token: &str| {
        let token = format!("Bearer {token}");
        let headers = [("content-type", "application/x-protobuf"), ("authorization", &*token)];
        running.post("/v1/traces", &headers, Vec::new()).await.status().as_u16()
    };
    assert_eq!((post("one").await, post("two").await), (200, 401));
    assert!(running.reload(&with("a: {file: /nowhere/at/all}")).await.is_err());
    assert_eq!((post("one").await, post("two").await), (200, 401));
    assert_eq!(running.reload(&with("a: {token: two}")).await, Ok(()));
    assert_eq!((post("one").await, post("two").await), (401, 200));
}
