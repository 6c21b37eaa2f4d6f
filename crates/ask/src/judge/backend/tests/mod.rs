//! Tests of the scheduler with scripted judges, on a fake clock.

mod blocking;
mod harness;
mod jury;
mod money;
mod moving;
mod noisy;
mod shares;
mod spent;
mod unsaved;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use self::harness::{Harness, OneStatement, asked, plan, reply, score, small, with};
use super::{JudgeCount, JudgeEffect};
use crate::judge::wire::{Fault, Finish, Reply};
use crate::scheduler::{Action, Emission, SilentEnd};
use spanscore_base::model::{Outcome, Receipt, Source};
use spanscore_evaluate::JudgeRequest;

#[test]
fn inquiry_settles_before_its_request_and_is_answered_once() {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    assert!(harness.poll().is_empty());
    harness.now_ms += 9_999;
    assert!(harness.poll().is_empty());
    harness.run(5, |_, _, _| reply("yes"));
    let used = harness.emitted[0].judge.clone().expect("it says how");
    assert_eq!((harness.emitted.len(), used.samples, used.model.as_str()), (1, 1, "m"));
    assert_eq!((harness.cost_nano, used.cost_usd), (15_000, 15e-6));
    assert_eq!(
        (harness.load.now(), &harness.counts[..]),
        ((0, 0), &[JudgeCount::Waited(10_000)][..])
    );
}

#[test]
fn a_revision_takes_the_place_of_what_waits_and_silences_what_is_under_way() {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.arrive(asked(1, 1, plan(json!({}))));
    harness.now_ms += 10_000;
    let sent = harness.poll();
    assert_eq!(sent.len(), 1);
    harness.arrive(asked(1, 2, plan(json!({}))));
    harness.answer(sent[0].0, reply("yes"));
    harness.run(5, |_, _, _| reply("yes"));
    assert_eq!(harness.emitted.len(), 1);
    let told = &harness.emitted[0];
    assert_eq!((told.revision, told.revises, told.id.0[8]), (0, None, 2), "nobody saw the others");
    assert_eq!(harness.ends, [SilentEnd::Replaced, SilentEnd::Superseded]);
    assert_eq!(harness.cost_nano, 30_000, "both were paid");
}

#[test]
fn another_way_to_a_judge_takes_what_waits_and_another_model_only_what_comes() {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    let mut settings = harness.core.backend.judges[0].settings.clone();
    settings.base_url = Some("http://localhost:1".into());
    assert_eq!(harness.core.backend.change("small", settings.clone()), 0);
    settings.model = "another".to_owned();
    let other = harness.core.backend.judges.len();
    assert_eq!(harness.core.backend.change("small", settings.clone()), other);
    assert_eq!(harness.core.backend.change("small", settings), other, "it is known");
    harness.arrive(asked(2, 0, plan(json!({}))));
    harness.now_ms += 10_000;
    let judges: Vec<usize> = harness.poll().into_iter().map(|(_, judge, _)| judge).collect();
    assert_eq!(judges, [0, other]);
}

#[test]
fn unreadable_replies_are_repaired_once_and_never_a_low_score() {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, text, _| reply(if text.ends_with("again") { "no" } else { "well" }));
    assert_eq!(harness.reasons(), BTreeMap::from([("scored", 1)]));
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| reply("well"));
    assert_eq!(harness.reasons(), BTreeMap::from([("judge_reply_invalid", 1)]));
    assert_eq!(harness.asked_at.len(), 2);
}

fn check_fault(fault: &Fault, expected: &str, requests: usize) {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| Err(fault.clone()));
    let told = (harness.reasons(), harness.asked_at.len());
    assert_eq!(told, (BTreeMap::from([(expected, 1)]), requests), "{fault:?}");
}

#[test]
fn faults_end_as_failed_or_not_evaluable_after_as_many_tries_as_may_help() {
    check_fault(&Fault::Unreachable("x".into()), "judge_unreachable", 3);
    check_fault(&Fault::Broken("x".into()), "judge_no_answer", 3);
    check_fault(&Fault::Unwell { status: 529, after: None, text: String::new() }, "judge_error", 3);
    check_fault(&Fault::TooMany { after: None, text: String::new() }, "rate_limited", 3);
    check_fault(&Fault::Unreadable("x".into()), "judge_reply_invalid", 3);
    check_fault(&Fault::Rejected { status: 404, text: "x".into() }, "judge_error", 1);
    check_fault(&Fault::Locked("judge_unauthorized", "x".into()), "judge_unauthorized", 1);
    check_fault(&Fault::Refused("x".into()), "judge_refused", 1);
    check_fault(&Fault::Overflow, "evidence_too_long", 2);
    check_fault(&Fault::RefusedParameter("temperature"), "judge_error", 13);
}

#[test]
fn refusals_and_cut_answers_are_no_scores() {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| reply("").map(|it| Reply { finish: Finish::Refused, ..it }));
    assert_eq!(harness.reasons(), BTreeMap::from([("judge_refused", 1)]));
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.run(5, |_, _, _| reply("").map(|it| Reply { finish: Finish::Length, ..it }));
    assert_eq!(harness.reasons(), BTreeMap::from([("judge_reply_invalid", 1)]));
    assert_eq!(harness.asked_at.len(), 2);
}

#[test]
fn retry_delays_of_the_judge_are_kept() {
    let mut harness = Harness::new(small());
    harness.arrive(asked(1, 0, plan(json!({}))));
    let after = Some(Duration::from_secs(20));
    harness.run(0, |_, _, count| match count {
        0 => Err(Fault::TooMany { after, text: String::new() }),
        _ => reply("yes"),
    });
    assert_eq!(harness.asked_at, [1_010_000, 1_030_000]);
    assert_eq!(harness.reasons(), BTreeMap::from([("scored", 1)]));
}

#[test]
fn more_votes_are_taken_only_while_it_is_unsure_then_another_judge_is_asked() {
    let judges = || {
        let mut judges = small();
        judges["large"] = json!({"api": "openai", "model": "l"});
        judges
    };
    let votes = || plan(json!({"min": 1, "max": 3, "escalate_to": "large"}));
    let mut harness = Harness::new(judges());
    harness.arrive(asked(1, 0, votes()));
    harness.run(5, |_, _, _| reply("no"));
    assert_eq!(harness.asked_at.len(), 1, "sure at once");
    let mut harness = Harness::new(judges());
    harness.arrive(asked(1, 0, votes()));
    let words = ["unclear", "unclear", "no", "yes"];
    let mut who = Vec::new();
    harness.run(5, |judge, _, count| {
        who.push(judge);
        reply(words[count])
    });
    // By name: `large` sorts before `small`.
    assert_eq!(who, [1, 1, 1, 0]);
    let told = &harness.emitted[0];
    let used = told.judge.as_deref().expect("it says how");
    assert_eq!(told.outcome, score(1.0));
    assert_eq!((used.escalated, used.samples, used.model.as_str()), (true, 4, "l"));
}

#[test]
fn a_suspected_injection_is_asked_about_again_without_it() {
    for (second, scored) in [("yes", true), ("no", false)] {
        let mut harness = Harness::new(small());
        harness.arrive(asked(1, 0, plan(json!({"rechecks": true}))));
        harness.run(5, |_, _, count| reply(if count == 0 { "yes!" } else { second }));
        let told = matches!(harness.emitted[0].outcome, Outcome::Scored(_));
        assert_eq!((told, harness.asked_at.len()), (scored, 2), "{second}");
    }
}

fn check_suspicion(is_injected: bool, replies: &[&str], expected: &str) {
    let mut harness = Harness::new(small());
    let text = "one".to_owned();
    let inquiry = Arc::new(OneStatement { text, windows: 1, is_injected });
    harness.arrive(JudgeRequest { inquiry, ..asked(1, 0, plan(json!({"rechecks": true}))) });
    harness.run(5, |_, _, count| reply(replies[count]));
    let told = (harness.reasons(), harness.asked_at.len());
    assert_eq!(told, (BTreeMap::from([(expected, 1)]), replies.len()), "{replies:?}");
}

#[test]
fn what_only_the_judge_suspects_is_asked_about_again_without_what_it_cites() {
    check_suspicion(false, &["yes!3", "yes"], "scored");
    check_suspicion(false, &["yes!3", "no"], "insufficient_data");
    check_suspicion(false, &["yes!"], "injection_suspected");
    check_suspicion(false, &["yes!3", "yes!4"], "injection_suspected");
    check_suspicion(false, &["yes"], "scored");
    check_suspicion(true, &["yes!3", "yes!3", "yes"], "scored");
    check_suspicion(true, &["yes!3", "yes!"], "injection_suspected");
}

/// Asks equal questions twice, the second time of another judge that may be alike.
#[track_caller]
fn check_equal(other: Json, requests: usize) {
    let mut judges = small();
    judges["other"] = judges["small"].clone();
    for (key, value) in other.as_object().expect("a map") {
        judges["other"][key] = value.clone();
    }
    let mut harness = Harness::new(judges);
    for (n, judge) in [(1, "small"), (2, "other")] {
        let mut again = asked(n, 0, plan(json!({})));
        again.plan.judge = judge.into();
        let text = "the same".into();
        again.inquiry = Arc::new(OneStatement { text, windows: 1, is_injected: true });
        harness.arrive(again);
        harness.run(5, |_, _, _| reply("yes"));
    }
    let used = harness.emitted[1].judge.as_deref().expect("it says how");
    let is_paid = used.cost_usd > 0.0;
    let found = (harness.asked_at.len(), harness.emitted.len(), is_paid);
    assert_eq!(found, (requests, 2, requests == 2), "{other}");
}

#[test]
fn equal_questions_are_asked_once_of_each_model_at_each_place() {
    check_equal(json!({}), 1);
    check_equal(json!({"limits": {"concurrency": 1}}), 1);
    check_equal(json!({"base_url": "https://api.openai.com/v1/"}), 1);
    check_equal(json!({"base_url": "http://localhost:1/v1"}), 2);
    check_equal(json!({"base_url": "https://api.openai.com/v2"}), 2);
    check_equal(json!({"azure": {"deployment": "d", "api_version": "1"}}), 2);
    check_equal(json!({"seed": 7}), 2);
}

#[test]
fn an_answer_stays_known_when_no_judge_elsewhere_is_alike_any_more() {
    let mut judges = small();
    judges["other"] = judges["small"].clone();
    judges["other"]["base_url"] = json!("http://localhost:1/v1");
    let mut harness = Harness::new(judges);
    for n in [1, 2] {
        let mut again = asked(n, 0, plan(json!({})));
        let text = "the same".into();
        again.inquiry = Arc::new(OneStatement { text, windows: 1, is_injected: true });
        harness.arrive(again);
        harness.run(5, |_, _, _| reply("yes"));
        harness.core.backend.judges[0].settings.model = "another".into();
    }
    assert_eq!((harness.asked_at.len(), harness.emitted.len()), (1, 2));
}

#[test]
fn failing_judge_gets_no_requests_until_it_recovers() {
    let mut harness = Harness::new(with(json!({"limits": {"concurrency": 1}})));
    (0..20).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    let well_at = harness.now_ms + 60_000;
    let mut asked = Vec::new();
    let mut now = 0;
    harness.run(100, |_, _, count| {
        asked.push(count);
        now += 1;
        if now <= 6 {
            Err(Fault::Unwell { status: 503, after: None, text: String::new() })
        } else {
            reply("yes")
        }
    });
    assert!(harness.now_ms >= well_at, "it waited");
    let reasons = harness.reasons();
    assert_eq!(reasons.values().sum::<usize>(), 20);
    assert!(reasons["scored"] >= 18, "{reasons:?}");
}

#[test]
fn inquiries_to_a_dead_judge_end_at_their_deadline() {
    let mut harness = Harness::new(small());
    (0..50).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.run(5, |_, _, _| Err(Fault::Unwell { status: 500, after: None, text: String::new() }));
    let reasons = harness.reasons();
    assert_eq!(reasons.values().sum::<usize>(), 50);
    assert!(reasons["circuit_open"] > 30, "{reasons:?}");
    assert!(harness.asked_at.len() < 30);
    assert_eq!(harness.load.now(), (0, 0));
}

/// A dollar an hour, with a demand of ten.
#[test]
fn a_budget_is_kept_and_spread_over_the_hour_and_every_skip_has_its_reason() {
    let budget = json!({"budget": {"usd_per_hour": 1.0},
        "limits": {"concurrency": 8, "requests_per_minute": 6_000, "tokens_per_minute": 9_000_000},
        "price": {"input": 500.0, "output": 0.0}, "max_tokens": 100});
    let mut harness = Harness::new(with(budget));
    // Each costs half a cent: ten dollars an hour are 2,000 of them.
    let start = harness.now_ms;
    let step_ms = 1_800;
    let mut by_quarter = [0u64; 4];
    for n in 0..2_000 {
        harness.now_ms = start + n * step_ms;
        harness.arrive(asked(n, 0, plan(json!({}))));
        for (id, ..) in harness.poll() {
            by_quarter[((harness.now_ms - start) / 900_000) as usize] += 1;
            harness.answer(id, reply("yes"));
        }
        harness.poll();
    }
    harness.run(0, |_, _, _| reply("yes"));
    let reasons = harness.reasons();
    assert_eq!(reasons.values().sum::<usize>(), 2_000);
    assert_eq!(reasons["scored"] + reasons["budget_exhausted"], 2_000, "{reasons:?}");
    let dollars = harness.cost_nano as f64 / 1e9;
    assert!((0.9..=1.0).contains(&dollars), "{dollars}");
    assert!(by_quarter.iter().all(|quarter| (30..90).contains(quarter)), "{by_quarter:?}");
}

#[test]
fn shutdown_answers_reports_or_leaves_each_inquiry() {
    let mut harness = Harness::new(with(json!({"limits": {"concurrency": 1}})));
    (0..3).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.core.close(harness.now_ms, false);
    let sent = harness.poll();
    assert_eq!(sent.len(), 1, "nobody waits for revisions any more");
    harness.answer(sent[0].0, reply("yes"));
    harness.poll();
    for action in harness.core.abandon() {
        if let Action::Emit(Emission { evaluations, .. }) = action {
            harness.emitted.extend(evaluations);
        }
    }
    assert_eq!(harness.reasons(), BTreeMap::from([("scored", 1), ("shutdown", 2)]));
    let mut harness = Harness::new(small());
    (0..3).for_each(|n| harness.arrive(asked(n, 0, plan(json!({})))));
    harness.core.close(harness.now_ms, true);
    harness.poll();
    assert!(harness.core.is_empty() && harness.emitted.is_empty());
    assert_eq!(harness.ends, vec![SilentEnd::Left; 3]);
}

#[test]
fn shutdown_leaves_inquiries_to_the_reader_of_the_log() {
    let mut harness = Harness::new(with(json!({"limits": {"concurrency": 1}})));
    let source = Arc::<Source>::default();
    for n in 0..3 {
        let receipt = Receipt::new(source.claim(n, 0).into(), || ());
        harness.arrive_with(asked(n, 0, plan(json!({}))), Some(receipt));
    }
    harness.arrive(asked(3, 0, plan(json!({}))));
    harness.now_ms += 10_000;
    assert_eq!(harness.poll().len(), 1);
    source.retire();
    harness.core.close(harness.now_ms, false);
    harness.poll();
    for action in harness.core.abandon() {
        match action {
            Action::Emit(Emission { evaluations, .. }) => harness.emitted.extend(evaluations),
            Action::Count(end) => harness.ends.push(end),
            Action::Effect(_) => {}
        }
    }
    assert_eq!(harness.reasons(), BTreeMap::from([("shutdown", 1)]));
    assert_eq!((harness.ends, source.lowest()), (vec![SilentEnd::Left; 3], None));
}

#[test]
fn requests_cut_off_at_shutdown_are_counted_and_paid() {
    let mut harness = Harness::new(with(json!({"budget": {"usd_per_hour": 1.0, "pace": "any"}})));
    harness.arrive(asked(1, 0, plan(json!({}))));
    harness.core.close(harness.now_ms, false);
    assert_eq!(harness.poll().len(), 1);
    harness.now_ms += 250;
    harness.core.cut_off(harness.now_ms);
    let mut actions = std::mem::take(&mut harness.core.actions);
    let Some(Action::Effect(JudgeEffect::Called(call))) = actions.pop() else {
        panic!("it is counted")
    };
    assert_eq!((call.outcome, call.end_ns, actions.len()), ("judge_cut_off", 250_000_000, 0));
    let cost_nano = (call.cost_usd * 1e9).round() as u64;
    assert!(cost_nano >= 100_000, "all that the answer may have had: {cost_nano}");
    let spent = harness.core.backend.judges[0].gate.money.spent_since(0);
    assert_eq!(spent.iter().map(|(_, nano)| nano).sum::<u64>(), cost_nano);
    assert!(harness.core.in_flight(harness.now_ms).is_empty());
}

fn any_answer() -> impl Strategy<Value = Result<Reply, Fault>> {
    let after = Some(Duration::from_secs(3));
    prop_oneof![
        4 => Just(reply("yes")),
        2 => Just(reply("unclear")),
        1 => Just(reply("no!")),
        1 => Just(reply("nonsense")),
        1 => Just(reply("").map(|it| Reply { finish: Finish::Length, ..it })),
        1 => Just(reply("").map(|it| Reply { finish: Finish::Refused, ..it })),
        1 => Just(Err(Fault::Broken(String::new()))),
        1 => Just(Err(Fault::TooMany { after, text: String::new() })),
        1 => Just(Err(Fault::Unwell { status: 500, after: None, text: String::new() })),
        1 => Just(Err(Fault::RefusedShape(String::new()))),
        1 => Just(Err(Fault::RefusedParameter("seed"))),
        1 => Just(Err(Fault::Overflow)),
        1 => Just(Err(Fault::Refused(String::new()))),
        1 => Just(Err(Fault::Locked("judge_unauthorized", String::new()))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Random answers: every inquiry ends once, and nothing is held after it.
    #[test]
    fn each_inquiry_ends_once(
        answers in prop::collection::vec(any_answer(), 1..40),
        inquiries in prop::collection::vec((0..8u64, 0..20_000u64, any::<bool>()), 1..40),
        takes_ms in 0..30_000u64,
    ) {
        let mut judges = with(json!({"fallback": "large",
            "budget": {"usd_per_hour": 0.002, "pace": "any"}}));
        judges["large"] = json!({"api": "openai", "model": "l"});
        let mut harness = Harness::new(judges);
        let count = inquiries.len();
        for (revision, (n, wait_ms, votes)) in inquiries.into_iter().enumerate() {
            let more = json!({"min": 1, "max": if votes { 3 } else { 1 }, "rechecks": votes,
                "escalate_to": "large"});
            harness.arrive(asked(n, revision as u32, plan(more)));
            harness.now_ms += wait_ms;
            for (at, (id, ..)) in harness.poll().into_iter().enumerate() {
                harness.answer(id, answers[at % answers.len()].clone());
            }
        }
        harness.run(takes_ms, |_, _, count| answers[count % answers.len()].clone());
        let gone = [SilentEnd::Replaced, SilentEnd::Superseded];
        let gone = harness.ends.iter().filter(|end| gone.contains(end)).count();
        prop_assert_eq!(harness.emitted.len() + gone, count);
        prop_assert_eq!(harness.load.now(), (0, 0));
        prop_assert_eq!(harness.core.next_wake_ms(), None);
    }
}

/// Cost of the scheduler for one inquiry, from arrival to its evaluation.
#[test]
#[ignore = "a measurement, of an optimised build"]
fn the_scheduler_takes_little_for_an_inquiry() {
    let limits = json!({"limits": {"concurrency": 1_000, "requests_per_minute": 100_000_000,
        "tokens_per_minute": 1_000_000_000}});
    let mut harness = Harness::new(with(limits));
    let inquiries: Vec<_> = (0..10_000).map(|n| asked(n, 0, plan(json!({})))).collect();
    let started = std::time::Instant::now();
    inquiries.into_iter().for_each(|inquiry| harness.arrive(inquiry));
    harness.run(5, |_, _, _| reply("yes"));
    let each = started.elapsed() / 10_000;
    assert_eq!(harness.emitted.len(), 10_000);
    assert!(each < Duration::from_micros(20), "{each:?}");
}
