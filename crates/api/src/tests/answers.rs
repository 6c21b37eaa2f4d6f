//! Tests of answers against the stored data.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::filled::{RUNS, trace_id};
use super::{Harness, with_token};

/// Reads all pages of a list, and returns the values of a field.
async fn pages(harness: &Harness, path: &str, field: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = harness.json(&format!("{path}{cursor}")).await;
        found.extend(page["items"].as_array().unwrap().iter().map(|it| it[field].clone()));
        assert_eq!(page["count"].is_null(), !cursor.is_empty());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn pages_hold_every_row_once_in_every_order() {
    let harness = Harness::filled();
    for sort in ["newest", "arrived", "worst", "slowest", "costliest"] {
        for limit in [7, 40, 80, 500] {
            let path = format!("/traces?sort={sort}&limit={limit}");
            let found = pages(&harness, &path, "trace_id").await;
            let distinct: BTreeSet<_> = found.iter().map(|it| it.to_string()).collect();
            assert_eq!((found.len(), distinct.len()), (80, 80), "{path}");
        }
    }
    let evaluations = pages(&harness, "/evaluations?limit=33", "evaluation_id").await;
    assert_eq!(evaluations.len(), 160);
    assert_eq!(pages(&harness, "/sessions?limit=3", "session_id").await.len(), 20);
    let slowest = harness.json("/traces?sort=slowest&limit=1").await;
    assert_eq!(slowest["items"][0]["trace_id"], trace_id(79).to_string());
    let worst = harness.json("/traces?sort=worst&limit=1").await;
    assert_eq!(worst["items"][0]["verdicts"][0]["verdict"], "fail");
    assert_eq!(worst["items"][0]["verdicts"][0]["score"], 0.3);
}

#[tokio::test]
async fn filters_of_runs_and_of_evaluations_hold() {
    let harness = Harness::filled();
    let check = async |path: &str, expected: u64| {
        let page = harness.json(path).await;
        assert_eq!(page["count"], json!({ "count": expected, "capped": false }), "{path}");
        assert_eq!(page["items"].as_array().unwrap().len() as u64, expected.min(50), "{path}");
    };
    check("/traces?version=1.4.0", RUNS).await;
    check("/traces?version=!1.4.0", RUNS).await;
    check("/traces?version=1.4.0&version=1.5.0", 2 * RUNS).await;
    check("/traces?label=fail", RUNS / 2).await;
    check("/traces?label=fail&evaluator=tool_call_args/other", 0).await;
    check("/traces?score_lt=0.5", RUNS / 2).await;
    check("/traces?outcome=not_evaluable&version=1.5.0", RUNS / 8).await;
    check("/traces?from=-1h", RUNS).await;
    check("/traces?to=-1h", RUNS).await;
    check("/traces?from=-1d&case=refund", 2 * RUNS).await;
    check("/traces?tool=refund&tool=x", 2 * RUNS).await;
    check("/traces?tool=!refund", 0).await;
    check("/traces?session_id=s-3", 4).await;
    check("/traces?model=small&model=large", 2 * RUNS).await;
    check("/traces?model=!small&user_id=u-1", 14).await;
    check("/traces?answer=empty&answer=not_recorded", 2 * RUNS / 5 * 2).await;
    check("/evaluations?user_id=", 0).await;
    check("/traces?text=order%2017", 1).await;
    check("/traces?text=100%25%20as%20it_", 2 * RUNS).await;
    check("/traces?text=100_", 0).await;
    check("/evaluations?label=fail&from=-1h", RUNS / 2).await;
    check("/evaluations?text=order%2017", 2).await;
    check("/evaluations?reason=timeout&version=1.4.0", RUNS / 8).await;
    check("/sessions?label=fail", RUNS / 4).await;
    check("/sessions?from=-1h", RUNS / 4).await;
    let id = trace_id(5).to_string();
    check(&format!("/traces?trace_id={}", &id[..12]), 1).await;
}

#[tokio::test]
async fn figures_equal_the_lists_under_the_same_filter() {
    let harness = Harness::filled();
    for filter in [
        "",
        "from=-1h",
        "version=1.5.0",
        "evaluator=tool_call_args/refund",
        "label=fail",
        "session_id=s-1",
        "outcome=!scored",
        "text=order%201",
        "version=1.4.0&kind=!x",
    ] {
        let listed = harness.json(&format!("/evaluations?{filter}")).await["count"].clone();
        let runs = harness.json(&format!("/traces?{filter}")).await["count"].clone();
        let summary = harness.json(&format!("/summary?group_by=version&{filter}")).await;
        assert_eq!(summary["figures"]["count"], listed["count"], "{filter}");
        let groups = summary["groups"].as_array().unwrap().iter();
        let sum: i64 = groups.map(|group| group["count"].as_i64().unwrap()).sum();
        assert_eq!(summary["figures"]["count"], sum, "{filter}");
        let alone = harness.json(&format!("/summary?{filter}")).await;
        assert_eq!(alone["figures"]["passed"], summary["figures"]["passed"], "{filter}");
        let mean = |it: &Value| it["figures"]["mean"].as_f64().unwrap_or(-1.0);
        assert!((mean(&alone) - mean(&summary)).abs() < 1e-9, "{filter}");
        if !filter.contains("label") && !filter.contains("outcome") {
            assert_eq!(summary["runs"], runs, "{filter}");
        }
        let series = harness.json(&format!("/series?group_by=evaluator&{filter}")).await;
        let points = series["series"].as_array().unwrap().iter();
        let points = points.flat_map(|it| it["points"].as_array().unwrap());
        let sum: i64 = points.map(|point| point["count"].as_i64().unwrap()).sum();
        assert_eq!(summary["figures"]["count"], sum, "{filter}");
        let distribution = harness.json(&format!("/distribution?{filter}")).await;
        let bins = distribution["bins"].as_array().unwrap().iter();
        let sum: i64 = bins.map(|bin| bin["count"].as_i64().unwrap()).sum();
        let figure = |name| summary["figures"][name].as_i64().unwrap();
        assert_eq!(sum, figure("passed") + figure("failed"), "{filter}");
    }
    let sums = async |path| harness.json(path).await["from_sums"].clone();
    assert_eq!(sums("/summary?version=1.5.0").await, true);
    assert_eq!(sums("/summary?label=fail").await, false);
    let by_model = harness.json("/summary?group_by=model").await;
    let counts =
        ["large", "small"].map(|model| json!({ "model": model })).into_iter().zip([160, 54]);
    for (at, (keys, count)) in counts.enumerate() {
        let group = &by_model["groups"][at];
        assert_eq!((&group["keys"], &group["count"]), (&keys, &json!(count)));
    }
    assert_eq!(by_model["figures"]["count"], 160);
    let summary = harness.json("/summary?from=-30m").await;
    assert_eq!((&summary["calls"], &summary["call_errors"]), (&json!(80), &json!(4)));
    assert_eq!(summary["previous"]["count"], 0);
    let summary = harness.json("/summary?from=-90m&case=refund").await;
    assert_eq!((&summary["calls"], &summary["call_errors"]), (&json!(80), &json!(4)));
    assert_eq!(summary["previous"]["count"], 80);
}

/// Conditions for random filters, several of one parameter too.
const CONDITIONS: [&str; 29] = [
    "from=-1h",
    "to=-1h",
    "from=-3h",
    "version=1.4.0",
    "version=1.5.0",
    "version=!1.5.0",
    "evaluator=tool_call_args/refund",
    "evaluator=tool_call_args/other",
    "kind=tool_call_args",
    "outcome=scored",
    "outcome=not_evaluable",
    "outcome=!failed",
    "label=pass",
    "label=fail",
    "label=!pass",
    "agent=refunds",
    "session_id=s-3",
    "session_id=!s-12",
    "case=refund",
    "tool=lookup",
    "text=order%202",
    "score_gte=0.5",
    "score_lt=0.95",
    "reason=timeout",
    "model=small",
    "model=!small",
    "user_id=u-1",
    "answer=recorded",
    "answer=!recorded",
];

#[tokio::test]
async fn figures_of_every_page_equal_its_list_under_random_filters() {
    let harness = Harness::filled();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % most as u64) as usize
    };
    for _ in 0..60 {
        let mut conditions: Vec<&str> =
            (0..next(4)).map(|_| CONDITIONS[next(CONDITIONS.len())]).collect();
        // Bounds appear once.
        let is_bound = |it: &&str| !it.contains('!') && !it.contains("evaluator");
        conditions.sort_unstable();
        conditions.dedup_by(|a, b| is_bound(a) && a.split('=').next() == b.split('=').next());
        let filter = conditions.join("&");
        let count = |it: &Value, name: &str| it[name].as_i64().unwrap();
        let sum = |items: &Value, name: &str| {
            items.as_array().unwrap().iter().map(|it| count(it, name)).sum::<i64>()
        };
        let listed = async |path: &str, field: &str| {
            pages(&harness, &format!("{path}?limit=90&{filter}"), field).await
        };
        let evaluations = listed("/evaluations", "trace_id").await.len() as i64;
        let of_runs = listed("/traces", "session_id").await;
        let runs = of_runs.len() as i64;
        let calls = listed("/calls", "trace_id").await.len() as i64;
        let summary = harness.json(&format!("/summary?group_by=evaluator&{filter}")).await;
        assert_eq!(count(&summary["figures"], "count"), evaluations, "overview, {filter}");
        assert_eq!(sum(&summary["groups"], "count"), evaluations, "overview, {filter}");
        assert_eq!(count(&summary["runs"], "count"), runs, "overview, {filter}");
        let evaluators = harness.json(&format!("/evaluators?{filter}")).await;
        assert_eq!(sum(&evaluators["items"], "count"), evaluations, "evaluators, {filter}");
        let tools = harness.json(&format!("/tools?{filter}")).await;
        assert_eq!(sum(&tools["items"], "calls"), calls, "tools, {filter}");
        let sessions = listed("/sessions", "session_id").await.len();
        let of_runs: BTreeSet<String> = of_runs.iter().map(Value::to_string).collect();
        assert_eq!(sessions, of_runs.len(), "sessions, {filter}");
    }
}

#[tokio::test]
async fn one_run_is_shown_with_its_calls_and_verdicts() {
    let harness = Harness::filled();
    let run = harness.json(&format!("/traces/{}", &trace_id(40).to_string()[..8])).await;
    assert_eq!(run["trace_id"], trace_id(40).to_string());
    assert_eq!(run["title"], "order 40");
    assert_eq!(run["calls"][1]["tool"], "refund");
    assert_eq!(run["calls"][1]["status"], "error");
    assert_eq!(run["calls"][1]["arguments"], json!({ "value": { "order": 17 } }));
    assert_eq!(run["evaluations"].as_array().unwrap().len(), 2);
    let sentence = run["completion_sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Complete: its root ended"), "{sentence}");
}

#[tokio::test]
async fn figures_of_tools_and_evaluators_are_those_of_the_calls_and_verdicts() {
    let harness = Harness::filled();
    for path in ["/tools?", "/tools?case=refund"] {
        let tools = harness.json(path).await;
        assert_eq!(tools["items"].as_array().unwrap().len(), 2, "{path}");
        let refund = tools["items"].as_array().unwrap().iter().find(|it| it["tool"] == "refund");
        let refund = refund.unwrap();
        assert_eq!((&refund["calls"], &refund["errors"]), (&json!(80), &json!(8)), "{path}");
        assert_eq!(refund["error_rate"], 0.1);
        let p50 = refund["p50_s"].as_f64().unwrap();
        assert!((1.0..1.2).contains(&p50), "{p50}");
    }
    assert_eq!(harness.json("/tools?tool=lookup").await["items"][0]["errors"], 0);
    let other = harness.json("/evaluators/tool_call_args/other").await;
    assert_eq!(other["versions"].as_array().unwrap().len(), 2);
    let reasons = json!([
        { "outcome": "not_evaluable", "reason": "nothing_to_judge", "count": 10 },
        { "outcome": "failed", "reason": "timeout", "count": 10 },
    ]);
    assert_eq!(other["reasons"], reasons);
    let all = harness.json("/evaluators").await;
    assert_eq!(all["items"][1]["evaluator"], "tool_call_args/refund");
    assert_eq!((&all["items"][1]["failed"], &all["items"][1]["versions"]), (&json!(20), &json!(2)));
    assert_eq!(all["items"][1]["pass_rate"], 0.75);
}

#[tokio::test]
async fn a_comparison_says_in_words_what_the_intervals_say() {
    let harness = Harness::filled();
    let compared = harness.json("/compare?a=version%3D1.4.0&b=version%3D1.5.0").await;
    let [other, refund] = &compared["evaluators"].as_array().unwrap()[..] else { panic!("two") };
    assert_eq!(refund["verdict"], "worse");
    assert_eq!(refund["pass_rate_difference"]["value"], -0.5);
    assert_eq!(refund["definitions_differ"], true);
    assert!(refund["mean_difference"]["interval"][1].as_f64().unwrap() < 0.0);
    assert_eq!(other["verdict"], "no_evidence");
    assert_eq!(compared["tools"][1]["verdict"], "no_evidence");
    let new = &compared["new_failures"];
    assert_eq!(new.as_array().unwrap().len(), 1);
    assert_eq!((&new[0]["case"], &new[0]["failed_now"]), (&json!("refund"), &json!(20)));
    let back = harness.json("/compare?a=from%3D-1h&b=to%3D-1h&evaluator=!x").await;
    assert_eq!(back["evaluators"][1]["verdict"], "better");
    let few = "/compare?a=version%3D1.4.0&b=version%3D1.5.0%26session_id%3Ds-11";
    let few = harness.json(few).await;
    assert_eq!(few["evaluators"][1]["verdict"], "too_few");
    let same = harness.json("/compare?a=version%3D1.4.0&b=version%3D1.4.0").await;
    assert_eq!(same["evaluators"][1]["verdict"], "no_evidence");
    assert_eq!(same["evaluators"][1]["definitions_differ"], false);
}

#[tokio::test]
async fn the_status_tells_also_of_a_store_that_cannot_be_read() {
    let harness = Harness::filled();
    let status = harness.json("/status").await;
    assert_eq!(status["store"]["state"], "closed");
    let steps = json!([
        { "step": "spans", "count": 7 },
        { "step": "evaluations", "count": 160 },
        { "step": "calls", "count": 160 },
        { "step": "stored", "count": 80 },
    ]);
    assert_eq!(status["steps"], steps);
    let broken = Harness::with(with_token("0123456789abcdef"));
    broken.store.close();
    std::fs::remove_file(broken.store.view().path()).unwrap();
    let bearer = [("authorization", "Bearer 0123456789abcdef")];
    let ask = async |path| broken.send(super::request("GET", path, &bearer)).await;
    assert!(ask("/api/v1/status").await.json()["store"]["losses"].is_null());
    let answer = ask("/api/v1/traces").await;
    assert_eq!(answer.problem(), (503, "store_unavailable".to_owned()));
}
