//! Tests of judges' budgets: reservations that block others, and implausible counts.

use std::collections::BTreeMap;

use serde_json::json;

use super::harness::{Harness, asked, plan, reply, small, with};
use crate::judge::backend::spent::SpentFile;
use crate::judge::backend::{CostForecast, CostForecaster, JudgeCount};
use crate::judge::settings::JudgeSettings;
use crate::judge::wire::{Reply, TokenUsage};

/// Forty concurrent inquiries for a budget of twelve reservations, with slow judges.
fn check_budget(cost_parts: u64, least: f64, scored: std::ops::RangeInclusive<usize>) {
    // A request reserves 1,000 tokens of output at a dollar a million, and almost no input.
    let budget = json!({"budget": {"usd_per_hour": 0.01206, "pace": "any"}, "max_tokens": 1_000,
        "limits": {"concurrency": 16, "requests_per_minute": 6_000,
            "tokens_per_minute": 9_000_000}});
    let mut harness = Harness::new(with(budget));
    (0..40).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.run(900, |_, _, _| {
        let usage = TokenUsage { input: 1, cached: 0, output: 1_000 / cost_parts };
        reply("yes").map(|reply| Reply { usage, ..reply })
    });
    let reasons = harness.reasons();
    assert_eq!(reasons.values().sum::<usize>(), 40, "{reasons:?}");
    assert!(scored.contains(&reasons["scored"]), "{reasons:?}");
    let spent = harness.cost_nano as f64 / 1e9;
    assert!(spent >= least && spent <= 0.01206, "{spent}");
    assert!(harness.now_ms < 1_000_000 + 10_000 + 60_000, "nobody waits for what is spent");
}

#[test]
fn requests_wait_for_the_settlement_of_others_until_the_budget_is_spent() {
    check_budget(1, 0.9 * 0.01206, 12..=12);
    check_budget(2, 0.9 * 0.01206, 22..=24);
    check_budget(4, 0.0, 40..=40);
}

#[test]
fn what_waits_for_a_settlement_that_does_not_come_ends_by_its_deadline() {
    let budget = json!({"budget": {"usd_per_hour": 0.0015, "pace": "any"}, "max_tokens": 1_000});
    let mut harness = Harness::new(with(budget));
    (0..3).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.run(400_000, |_, _, _| reply("yes"));
    let reasons = harness.reasons();
    assert_eq!((reasons["scored"], reasons["budget_exhausted"]), (1, 2));
}

fn check_usage(input: u64, output: u64, cost_nano: u64, surplus: usize) {
    let mut harness = Harness::new(with(json!({"max_tokens": 1_000})));
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| {
        let usage = TokenUsage { input, cached: 0, output };
        reply("yes").map(|reply| Reply { usage, ..reply })
    });
    let counted =
        harness.counts.iter().filter(|count| matches!(count, JudgeCount::Surplus)).count();
    assert_eq!((harness.cost_nano, counted), (cost_nano, surplus), "{input} and {output}");
}

#[test]
fn counts_that_no_request_can_take_and_missing_ones_cost_the_reservation() {
    // The prompt has 11 bytes: 4 tokens are reserved for it.
    check_usage(10, 5, 15_000, 0);
    check_usage(4_107, 5, 4_112_000, 0);
    check_usage(4_108, 5, 1_004_000, 1);
    check_usage(10, 4_000, 4_010_000, 0);
    check_usage(10, 4_001, 1_004_000, 1);
    check_usage(0, 5, 9_000, 0);
    check_usage(10, 0, 1_010_000, 0);
    check_usage(0, 0, 1_004_000, 0);
}

#[test]
fn a_budget_that_judges_share_is_spent_by_all_together_and_never_exceeded() {
    let mut judges = small();
    judges["small"]["max_tokens"] = 1_000.into();
    judges["large"] = judges["small"].clone();
    let mut harness = Harness::new(judges);
    harness.core.backend.shared_nano = Some(12_060_000);
    for n in 0..40 {
        let mut asked = asked(n, 0, plan(json!({})));
        asked.plan.judge = if n % 2 == 0 { "small" } else { "large" }.into();
        harness.arrive(asked);
    }
    harness.run(900, |_, _, _| {
        let usage = TokenUsage { input: 1, cached: 0, output: 1_000 };
        reply("yes").map(|reply| Reply { usage, ..reply })
    });
    let reasons = harness.reasons();
    assert_eq!((reasons["scored"], reasons["budget_exhausted"]), (12, 28));
    assert!(harness.cost_nano <= 12_060_000, "{}", harness.cost_nano);
}

#[track_caller]
fn check_forecast(more: serde_json::Value, (requests, usd_min, usd_max): (u64, f64, f64)) {
    let mut judges = small();
    judges["large"] = judges["small"].clone();
    judges["large"]["price"] = json!({"input": 2.0, "output": 3.0});
    let judges: BTreeMap<String, JudgeSettings> = serde_json::from_value(judges).expect("judges");
    // The prompt has 11 bytes, estimated as 4 tokens.
    let found = CostForecaster::new(&judges).forecast(&[asked(1, 0, plan(more.clone()))]);
    let input_tokens = 4 * requests;
    let expected = CostForecast { requests, input_tokens, usd_min, usd_max };
    let micro = |it: CostForecast| [it.usd_min, it.usd_max].map(|usd| (usd * 1e6).round());
    let counts = |it: CostForecast| (it.requests, it.input_tokens);
    assert_eq!((counts(found), micro(found)), (counts(expected), micro(expected)), "{more}");
}

#[test]
fn a_forecast_counts_the_first_requests_of_each_judge() {
    check_forecast(json!({}), (1, 4e-6, 104e-6));
    check_forecast(json!({"min": 3, "max": 5}), (3, 12e-6, 312e-6));
    check_forecast(json!({"jury": ["large"], "min": 2, "max": 2}), (2, 12e-6, 412e-6));
    check_forecast(json!({"jury": ["nobody"]}), (0, 0.0, 0.0));
}

#[tokio::test]
async fn a_reload_to_another_model_leaves_one_budget_to_both() {
    // A request reserves a millionth less than the twelfth of it.
    let budget = json!({"budget": {"usd_per_hour": 0.01206, "pace": "any"}, "max_tokens": 1_000,
        "limits": {"concurrency": 6, "requests_per_minute": 6_000,
            "tokens_per_minute": 9_000_000}});
    let mut judges = with(budget);
    let mut harness = Harness::new(judges.clone());
    (0..20).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.now_ms += 10_000;
    let sent = harness.poll();
    judges["small"]["model"] = json!("other");
    let settings = serde_json::from_value(judges["small"].clone()).expect("settings");
    assert_eq!((sent.len(), harness.core.backend.change("small", settings)), (6, 1));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("judges.json");
    let mut spent = SpentFile::restore(file.clone(), &mut harness.core.backend, 0);
    spent.keep(&harness.core.backend).await.expect("written");
    let kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    let open = kept["small"]["open"][0].as_u64().expect("a number");
    assert!(open >= 6_000_000, "{open} of those under way");
    (20..40).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    let used = |_, _: &str, _| {
        let usage = TokenUsage { input: 1, cached: 0, output: 1_000 };
        reply("yes").map(|reply| Reply { usage, ..reply })
    };
    for (id, ..) in sent {
        harness.answer(id, used(0, "", 0));
    }
    harness.run(900, used);
    assert_eq!(harness.reasons(), BTreeMap::from([("budget_exhausted", 28), ("scored", 12)]));
}
