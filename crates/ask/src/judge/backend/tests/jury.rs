//! Tests of juries: each judge votes once, and a disagreement is unsure.

use serde_json::{Value as Json, json};

use super::harness::{Harness, asked, plan, reply, small};
use crate::judge::wire::{Fault, Reply};

/// By name: indices 0, 1 and 2 of `large`, `medium`, `small`.
fn judges() -> Json {
    let mut judges = small();
    judges["large"] = json!({"api": "openai", "model": "l", "context_tokens": 8_192});
    judges["medium"] = json!({"api": "openai", "model": "m2", "fallback": "large"});
    judges
}

/// Runs one inquiry by the jury of `small` and `medium`; returns the judges, the reason or
/// `scored`, the models, the votes and the agreement.
fn check(more: Json, judge: impl Fn(usize) -> Result<Reply, Fault>, expected: (&[usize], &str)) {
    let mut harness = Harness::new(judges());
    let mut settings = json!({"min": 2, "max": 2, "jury": ["medium"]});
    for (key, value) in more.as_object().expect("a map") {
        settings[key] = value.clone();
    }
    harness.arrive(asked(1, 0, plan(settings)));
    let mut who = Vec::new();
    harness.run(5, |at, _, _| {
        who.push(at);
        judge(at)
    });
    let used = harness.emitted[0].judge.clone();
    let reason = harness.reasons().into_keys().next().expect("an end");
    let told = used.map_or_else(
        || reason.to_owned(),
        |used| format!("{reason} by {}: {} votes, {}", used.model, used.samples, used.agreement),
    );
    assert_eq!((&*who, &*told), expected);
}

#[test]
fn each_judge_of_a_jury_votes_once() {
    let yes = (&[2, 1][..], "scored by m, m2: 2 votes, 1");
    check(json!({}), |_| reply("yes"), yes);
    let tie = (&[2, 1][..], "insufficient_data by m, m2: 2 votes, 0.5");
    check(json!({}), |at| reply(if at == 1 { "no" } else { "yes" }), tie);
}

#[test]
fn a_third_judge_decides_where_the_jury_differs() {
    let agreed = (&[2, 1][..], "scored by m, m2: 2 votes, 1");
    check(json!({"escalate_to": "large"}), |_| reply("no"), agreed);
    let decided = (&[2, 1, 0][..], "scored by l: 3 votes, 1");
    let judge = |at| reply(if at == 1 { "no" } else { "yes" });
    check(json!({"escalate_to": "large"}), judge, decided);
    let majority = (&[2, 1, 0][..], "scored by m, m2, l: 3 votes, 0.6666666666666666");
    check(json!({"min": 3, "max": 3, "jury": ["medium", "large"]}), judge, majority);
}

/// A smaller jury would be another one: a failing judge is not replaced.
#[test]
fn a_jury_that_lacks_a_vote_gives_no_answer() {
    let fails = |at| match at {
        1 => Err(Fault::Locked("judge_unauthorized", String::new())),
        _ => reply("yes"),
    };
    let failed = (&[2, 1][..], "judge_unauthorized by m, m2: 1 votes, 0");
    check(json!({}), fails, failed);
    let unknown = (&[][..], "judge_unknown");
    check(json!({"jury": ["other"]}), |_| reply("yes"), unknown);
}

/// All judges see the halved record if it exceeds one judge's context; the first one's answer to an
/// unchanged part is cached.
#[test]
fn a_record_that_does_not_fit_one_judge_is_halved_for_all() {
    let overflows = std::cell::Cell::new(true);
    let judge = |at| match at {
        1 if overflows.replace(false) => Err(Fault::Overflow),
        _ => reply("yes"),
    };
    check(json!({}), judge, (&[2, 1, 1], "scored by m, m2: 3 votes, 1"));
}

/// The agreement of a recheck is that of the whole jury, not of the last judge.
#[test]
fn a_suspected_injection_is_asked_about_again_by_all_seats() {
    let judge = |answers: [&'static str; 4]| {
        let count = std::cell::Cell::new(0);
        move |_: usize| {
            let at = count.replace(count.get() + 1);
            reply(answers[at])
        }
    };
    let rechecks = || json!({"rechecks": true});
    let same = (&[2, 1, 2, 1][..], "scored by m, m2: 4 votes, 1");
    check(rechecks(), judge(["yes!", "yes", "yes", "yes"]), same);
    let swayed = (&[2, 1, 2, 1][..], "insufficient_data by m, m2: 4 votes, 0.5");
    check(rechecks(), judge(["yes!", "yes", "no", "yes"]), swayed);
    let escalated = (&[2, 1, 0, 0][..], "scored by l: 4 votes, 1");
    let decided = json!({"rechecks": true, "escalate_to": "large"});
    check(decided, judge(["yes", "no", "yes!", "yes"]), escalated);
}
