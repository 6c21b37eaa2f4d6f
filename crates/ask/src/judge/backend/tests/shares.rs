//! Tests of shares of senders in a full queue and a budget.

use std::collections::BTreeMap;

use serde_json::json;

use spanscore_base::model::{Evaluation, Outcome, Sender, WaitingRoom};

use super::harness::{Harness, asked, plan, reply, small, with};
use crate::judge::wire::{Reply, TokenUsage};

/// Lets senders ask in turn, as much as each may. Each gets about as many answers as expected, and
/// the rest is not evaluable. `since_ms` is the wait of the first.
fn check(senders: &[(u32, u16)], since_ms: u64, expected: &[u64]) {
    let mut harness = Harness::new(small());
    harness.load = WaitingRoom::new(100, 1 << 20);
    let of = |(peer, connection): (u32, u16)| Sender { peer, connection, ..Sender::default() };
    let mut asked = BTreeMap::new();
    for (place, sender) in (0_u64..).zip(senders) {
        let count = harness.fill(of(*sender), 1_000 * place);
        asked.insert(place, count);
        assert!(harness.poll().is_empty());
        harness.now_ms += since_ms / senders.len() as u64;
    }
    let waiting = harness.load.now().0 as u64;
    harness.run(5, |_, _, _| reply("yes"));
    let reasons = harness.reasons();
    let scored = reasons["scored"] as u64;
    let displaced = reasons.get("queue_full").map_or(0, |count| *count as u64);
    assert_eq!((scored, scored + displaced), (waiting, asked.values().sum()), "{senders:?}");
    let mut of_each = vec![0; senders.len()];
    for evaluation in &harness.emitted {
        let number = u64::from_be_bytes(evaluation.id.0[..8].try_into().unwrap());
        let is_scored = matches!(evaluation.outcome, Outcome::Scored(_));
        of_each[(number / 1_000) as usize] += u64::from(is_scored);
    }
    let is_near = of_each.iter().zip(expected).all(|(found, it)| found.abs_diff(*it) <= 2);
    assert!(is_near, "{senders:?}: {of_each:?}");
}

#[test]
fn late_sender_with_fewer_requests_gets_an_equal_share() {
    for since_ms in [0, 9_000] {
        check(&[(1, 1)], since_ms, &[76]);
        check(&[(1, 1), (2, 1)], since_ms, &[43, 43]);
        check(&[(1, 1), (1, 2)], since_ms, &[39, 39]);
        check(&[(1, 1), (1, 2), (2, 1)], since_ms, &[22, 22, 43]);
    }
}

/// Lets a flood and another sender use a budget of some hundred requests, concurrently or in turn:
/// the other is answered, and seven eighths are spent.
fn check_budget(other: Sender, is_later: bool) {
    let mut harness = Harness::new(with(json!({
        "budget": {"usd_per_hour": 0.1206, "pace": "any"}, "max_tokens": 1_000,
        "limits": {"concurrency": 16, "requests_per_minute": 60_000,
            "tokens_per_minute": 90_000_000}})));
    harness.load = WaitingRoom::new(1_000, 1 << 20);
    let flood = Sender { peer: 1, connection: 1, ..Sender::default() };
    harness.fill(flood, 0);
    let answer = |_, _: &str, _| {
        let usage = TokenUsage { input: 1, cached: 0, output: 1_000 };
        reply("yes").map(|reply| Reply { usage, ..reply })
    };
    if is_later {
        harness.run(900, answer);
    }
    for n in 5_000..5_003 {
        let place = harness.load.enter(other, 1).expect("room");
        harness.core.arrive(harness.now_ms, asked(n, 0, plan(json!({}))), None, place);
    }
    harness.run(900, answer);
    let is_others = |it: &&Evaluation| it.id.0[..8] >= 5_000_u64.to_be_bytes()[..];
    let others = harness.emitted.iter().filter(is_others);
    let scored = others.filter(|it| matches!(it.outcome, Outcome::Scored(_))).count();
    let reasons = harness.reasons();
    assert_eq!(scored, 3, "{reasons:?}");
    assert!(harness.cost_nano <= 120_600_000, "{} spent", harness.cost_nano);
    assert!(harness.cost_nano >= 105_000_000 && reasons["budget_share"] > 100, "{reasons:?}");
}

#[test]
fn flood_of_inquiries_leaves_budget_to_other_senders() {
    let other = Sender { peer: 2, connection: 1, ..Sender::default() };
    check_budget(other, true);
    check_budget(other, false);
}

/// Has a connection reserve its share of the hour or of the pace, with requests that are not
/// answered; returns the harness after a request of another sender, and what is asked of that.
fn ask_beside_open_requests(other: Sender, pace: &str) -> (Harness, usize) {
    let mut harness = Harness::new(with(json!({
        "budget": {"usd_per_hour": 0.0402, "pace": pace}, "max_tokens": 1_000,
        "limits": {"concurrency": 64, "requests_per_minute": 60_000,
            "tokens_per_minute": 90_000_000}})));
    harness.load = WaitingRoom::new(1_000, 1 << 20);
    harness.fill(Sender { peer: 1, connection: 1, ..Sender::default() }, 0);
    harness.now_ms += 10_000;
    let expected = if pace == "even" { 3..4 } else { 30..40 };
    assert!(expected.contains(&harness.poll().len()));
    let place = harness.load.enter(other, 1).expect("room");
    harness.core.arrive(harness.now_ms, asked(5_000, 0, plan(json!({}))), None, place);
    harness.now_ms += 10_000;
    let sent = harness.poll().len();
    (harness, sent)
}

#[test]
fn sender_is_asked_for_though_another_has_its_share_under_way() {
    for (peer, connection) in [(1, 2), (2, 1)] {
        let other = Sender { peer, connection, ..Sender::default() };
        for pace in ["any", "even"] {
            assert_eq!(ask_beside_open_requests(other, pace).1, 1, "{pace}: {other:?}");
        }
    }
}

#[test]
fn requests_that_were_passed_by_end_for_their_senders_share() {
    for pace in ["any", "even"] {
        let other = Sender { peer: 2, ..Sender::default() };
        let (mut harness, _) = ask_beside_open_requests(other, pace);
        harness.now_ms += 300_000;
        harness.poll();
        let reasons = harness.reasons();
        assert!(reasons.len() == 1 && reasons["budget_share"] > 100, "{pace}: {reasons:?}");
    }
}

#[test]
fn connection_behind_many_that_have_their_shares_is_asked_for() {
    let mut harness = Harness::new(with(json!({
        "budget": {"usd_per_hour": 0.201, "pace": "any"}, "max_tokens": 1_000,
        "limits": {"concurrency": 200, "requests_per_minute": 60_000,
            "tokens_per_minute": 90_000_000}})));
    harness.load = WaitingRoom::new(1_000, 1 << 20);
    let of = |connection| Sender { peer: 1, connection, ..Sender::default() };
    let arrive = |harness: &mut Harness, n: u64, connection: u16| {
        let place = harness.load.enter(of(connection), 1).expect("room");
        harness.core.arrive(harness.now_ms, asked(n, 0, plan(json!({}))), None, place);
    };
    (0..16 * 14).for_each(|n| arrive(&mut harness, n, 1 + n as u16 % 16));
    harness.now_ms += 10_000;
    assert_eq!(harness.poll().len(), 16 * 12);
    arrive(&mut harness, 5_000, 17);
    harness.now_ms += 10_000;
    assert_eq!(harness.poll().len(), 1, "the one behind 16 that wait");
}

#[test]
fn request_that_waited_for_no_share_of_late_ends_by_its_deadline() {
    let other = Sender { peer: 2, connection: 1, ..Sender::default() };
    let (mut harness, _) = ask_beside_open_requests(other, "any");
    let judge = &mut harness.core.backend.judges[0];
    let mut settings = judge.settings.clone();
    settings.limits.concurrency = 1;
    judge.gate.change(&settings);
    harness.poll();
    harness.now_ms += 300_000;
    harness.poll();
    let reasons = harness.reasons();
    assert!(reasons.len() == 1 && reasons["deadline"] > 100, "{reasons:?}");
}
