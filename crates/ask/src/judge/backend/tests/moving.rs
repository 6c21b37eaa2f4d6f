//! Tests of failing judges and their fallbacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::harness::{Harness, OneStatement, asked, plan, reply, score, with};
use crate::judge::wire::{Fault, Reply};

/// Index by name: `large` sorts before `small`.
const LARGE: usize = 0;

fn judges() -> Json {
    let mut judges = with(json!({"fallback": "large"}));
    judges["large"] = json!({"api": "openai", "model": "l"});
    judges
}

#[test]
fn a_fallback_is_asked_where_the_key_is_wrong() {
    let mut harness = Harness::new(judges());
    (0..3).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.run(5, |judge, _, _| match judge {
        LARGE => reply("yes"),
        _ => Err(Fault::Locked("judge_unauthorized", String::new())),
    });
    assert_eq!(harness.reasons(), BTreeMap::from([("scored", 3)]));
}

/// Runs one inquiry in windows, whose first judge fails after some answers; compares the judges and
/// questions in order.
fn check(votes: Json, fails: impl Fn(usize) -> Option<Fault>, expected: &[&str]) {
    let mut harness = Harness::new(judges());
    let mut inquiry = asked(1, 0, plan(votes));
    inquiry.inquiry = Arc::new(OneStatement { text: "it".into(), windows: 2, is_injected: true });
    harness.arrive(inquiry);
    let mut log = Vec::new();
    let mut of_small = 0;
    harness.run(5, |judge, text, _| {
        let window = text.trim_start_matches("it window ");
        if judge == LARGE {
            log.push(format!("large {window}"));
            return reply("yes");
        }
        log.push(format!("small {window}"));
        of_small += 1;
        fails(of_small).map_or_else(|| reply("no"), Err::<Reply, _>)
    });
    assert_eq!(log, expected);
    let told = &harness.emitted[0];
    let used = told.judge.as_deref().expect("it says how");
    assert_eq!((harness.emitted.len(), &told.outcome), (1, &score(1.0)), "of the fallback alone");
    assert_eq!((used.model.as_str(), used.fallback, used.escalated), ("l", true, false));
    let votes = expected.iter().filter(|asked| **asked == "large 1").count();
    assert_eq!((used.samples as usize, used.agreement), (votes, 1.0));
    assert!((used.cost_usd - harness.cost_nano as f64 / 1e9).abs() < 1e-12, "both are paid");
}

#[test]
fn a_judge_that_fails_between_two_windows_leaves_all_of_them_to_its_fallback() {
    let locked = |count| (count == 2).then(|| Fault::Locked("judge_unauthorized", String::new()));
    check(json!({}), locked, &["small 0", "small 1", "large 0", "large 1"]);
    let unwell = |count| {
        (count > 1).then_some(Fault::Unwell { status: 500, after: None, text: String::new() })
    };
    let tries = ["small 0", "small 1", "small 1", "small 1", "large 0", "large 1"];
    check(json!({}), unwell, &tries);
    let first = |count| (count == 1).then(|| Fault::Locked("judge_unauthorized", String::new()));
    check(json!({}), first, &["small 0", "large 0", "large 1"]);
}

#[test]
fn votes_of_a_judge_that_fails_are_not_counted_with_those_of_its_fallback() {
    let locked = |count| (count == 3).then(|| Fault::Locked("judge_unauthorized", String::new()));
    let asked = ["small 0", "small 1", "small 0", "large 0", "large 1", "large 0", "large 1"];
    check(json!({"min": 2, "max": 2}), locked, &asked);
}

#[test]
fn no_judge_is_asked_again_after_its_fallback() {
    let mut judges = judges();
    judges["large"]["fallback"] = json!("small");
    let mut harness = Harness::new(judges);
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| Err(Fault::Unwell { status: 500, after: None, text: String::new() }));
    assert_eq!(harness.reasons(), BTreeMap::from([("judge_error", 1)]));
    assert_eq!(harness.asked_at.len(), 6, "three times each");
}

#[test]
fn a_reply_that_stays_unreadable_asks_the_fallback_for_all_of_it() {
    let mut harness = Harness::new(judges());
    harness.arrive(asked(1, 0, plan(json!({}))));
    let mut who = Vec::new();
    harness.run(5, |judge, text, _| {
        who.push((judge, text.ends_with("again")));
        reply(if judge == LARGE { "yes" } else { "well" })
    });
    assert_eq!(harness.reasons(), BTreeMap::from([("scored", 1)]));
    assert_eq!(who, [(1, false), (1, true), (LARGE, false)], "a repair first");
    let mut harness = Harness::new(judges());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| reply("well"));
    assert_eq!(harness.reasons(), BTreeMap::from([("judge_reply_invalid", 1)]));
    assert_eq!(harness.asked_at.len(), 4, "twice each");
}
