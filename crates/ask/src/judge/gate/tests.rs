//! Tests of a judge's admission against its limits.

use serde_json::json;

use super::*;

fn gate(more: serde_json::Value) -> JudgeGate {
    let mut settings = json!({"api": "openai", "model": "m",
        "price": {"input": 0.25, "cached_input": 0.03, "output": 2.0}});
    for (key, value) in more.as_object().expect("a map") {
        settings[key] = value.clone();
    }
    JudgeGate::new(&serde_json::from_value(settings).expect("settings"))
}

const ASKED: TokenUsage = TokenUsage { input: 1_000, cached: 0, output: 500 };

#[test]
fn usage_costs_what_the_prices_say() {
    let usage = TokenUsage { input: 1_000_000, cached: 500_000, output: 1_000_000 };
    // 0.125 for new input, 0.015 for cached input, 2 for the answer.
    assert_eq!(gate(json!({})).cost(usage), 2_140_000_000);
}

#[test]
fn budgets_are_reserved_before_and_settled_after() {
    let mut gate = gate(json!({"budget": {"usd_per_hour": 0.0025, "pace": "any"}}));
    let reservation = gate.begin(0, ASKED, Sender::default()).expect("there is room");
    assert_eq!(reservation.nano, 1_250_000);
    let second = gate.begin(0, ASKED, Sender::default()).expect("there is room");
    assert_eq!(gate.begin(0, ASKED, Sender::default()), Err(GateBlock::Reserved));
    let used = TokenUsage { output: 1, ..ASKED };
    assert_eq!(gate.end(0, reservation, Ended::Replied(used)), 252_000);
    assert_eq!(
        gate.begin(0, ASKED, Sender::default()),
        Err(GateBlock::Reserved),
        "the other may cost less"
    );
    gate.end(0, second, Ended::Replied(ASKED));
    assert_eq!(
        gate.begin(0, ASKED, Sender::default()),
        Err(GateBlock::Budget),
        "less than a request is left"
    );
}

#[test]
fn unknown_cost_is_taken_as_reserved_and_what_was_not_sent_is_free() {
    let mut gate = gate(json!({}));
    let mut cost = |fault: Fault| {
        let reservation = gate.begin(0, ASKED, Sender::default()).expect("there is room");
        gate.end(0, reservation, Ended::Fault(&fault))
    };
    assert_eq!(cost(Fault::Broken(String::new())), 1_250_000);
    assert_eq!(cost(Fault::Unreachable(String::new())), 0);
    assert_eq!(cost(Fault::Overflow), 0);
    let unwell = |status| Fault::Unwell { status, after: None, text: String::new() };
    assert_eq!(cost(unwell(503)), 0);
    assert_eq!(cost(unwell(200)), 1_250_000, "an answer that its server broke off");
}

#[test]
fn other_settings_keep_what_was_spent_and_what_is_under_way() {
    let of = |usd: f64, concurrency: u32| {
        json!({"budget": {"usd_per_hour": usd, "pace": "any"},
            "limits": {"concurrency": concurrency}})
    };
    let mut own = gate(of(0.0025, 1));
    let settings = |more: serde_json::Value| {
        let mut all = json!({"api": "openai", "model": "m",
            "price": {"input": 0.25, "cached_input": 0.03, "output": 2.0}});
        more.as_object().expect("a map").iter().for_each(|(k, v)| all[k] = v.clone());
        serde_json::from_value(all).expect("settings")
    };
    let first = own.begin(0, ASKED, Sender::default()).expect("there is room");
    assert_eq!(own.begin(0, ASKED, Sender::default()), Err(GateBlock::Busy));
    own.change(&settings(of(0.0025, 3)));
    let second = own.begin(0, ASKED, Sender::default()).expect("one more may be under way");
    assert_eq!(
        own.begin(0, ASKED, Sender::default()),
        Err(GateBlock::Reserved),
        "two are to be paid"
    );
    own.change(&settings(of(0.005, 3)));
    assert!(own.begin(0, ASKED, Sender::default()).is_ok());
    for reservation in [first, second] {
        own.end(0, reservation, Ended::Replied(ASKED));
    }
    own.change(&settings(of(0.0025, 3)));
    assert_eq!(
        own.begin(0, ASKED, Sender::default()),
        Err(GateBlock::Budget),
        "what was spent is spent"
    );
}

#[test]
fn a_wrong_key_locks_the_judge_for_five_minutes() {
    let mut gate = gate(json!({}));
    let reservation = gate.begin(0, ASKED, Sender::default()).expect("there is room");
    let locked = Fault::Locked("judge_key", String::new());
    gate.end(0, reservation, Ended::Fault(&locked));
    let block = GateBlock::Circuit { until_ms: Some(300_000), is_locked: true };
    assert_eq!(
        (gate.begin(0, ASKED, Sender::default()), gate.is_open(299_999)),
        (Err(block), false)
    );
    assert!(gate.begin(300_000, ASKED, Sender::default()).is_ok());
}

#[test]
fn a_judge_that_says_wait_is_left_alone_for_so_long() {
    let mut gate = gate(json!({}));
    let reservation = gate.begin(0, ASKED, Sender::default()).expect("there is room");
    let after = Some(Duration::from_secs(7));
    gate.end(0, reservation, Ended::Fault(&Fault::TooMany { after, text: String::new() }));
    assert_eq!(gate.begin(10, ASKED, Sender::default()), Err(GateBlock::Rate { until_ms: 7_000 }));
    assert!(gate.begin(7_000, ASKED, Sender::default()).is_ok());
}
