//! Tests of randomly erring judges: votes and escalation against their formulas.

use serde_json::{Value as Json, json};

use super::harness::{Harness, asked, plan, reply, score, small, with};

/// Inquiries of one experiment.
const INQUIRIES: u64 = 2_000;

/// Uniform pseudo-random numbers in 0 to 1, the same in each run.
fn chances() -> impl FnMut() -> f64 {
    let mut state = 7_u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1_u32 << 31)
    }
}

fn limits() -> Json {
    json!({"limits": {"concurrency": 64, "requests_per_minute": 10_000_000,
        "tokens_per_minute": 1_000_000_000}})
}

/// Returns the share of inquiries scored 0, where 1 is correct.
fn errors(harness: &Harness) -> f64 {
    let wrong = harness.emitted.iter().filter(|it| it.outcome == score(0.0)).count();
    wrong as f64 / INQUIRIES as f64
}

/// A judge that errs in one answer of five errs in one of ten where the majority of three counts:
/// `3 p² (1 - p) + p³`.
#[test]
fn votes_make_a_noisy_judge_as_good_as_the_formula_says() {
    for (votes, expected, agreement) in [(1, 0.2, 1.0), (3, 0.104, 0.84)] {
        let mut harness = Harness::new(with(limits()));
        for n in 0..INQUIRIES {
            harness.arrive(asked(n, 0, plan(json!({"min": votes, "max": votes}))));
        }
        let mut chance = chances();
        harness.run(5, |_, _, _| reply(if chance() < 0.2 { "no" } else { "yes" }));
        let found = errors(&harness);
        assert!((found - expected).abs() < 0.03, "{votes} votes: {found}");
        let used = harness.emitted.iter().filter_map(|it| it.judge.as_deref());
        let mean = used.map(|it| it.agreement).sum::<f64>() / INQUIRIES as f64;
        assert!((mean - agreement).abs() < 0.03, "{votes} votes: {mean}");
    }
}

/// The small judge is unsure with probability `q` and errs else with `p`; the large one errs with
/// `e`. The share of errors is `(1 - q) p + q e`, and `q` of all inquiries cost a second request.
#[test]
fn another_judge_makes_a_noisy_one_as_good_as_the_formula_says() {
    for (q, p, e) in [(0.25, 0.1, 0.02), (0.5, 0.2, 0.2), (0.0, 0.3, 0.0)] {
        let mut judges = with(limits());
        judges["large"] = small()["small"].clone();
        judges["large"]["limits"] = limits()["limits"].clone();
        let mut harness = Harness::new(judges);
        for n in 0..INQUIRIES {
            harness.arrive(asked(n, 0, plan(json!({"escalate_to": "large"}))));
        }
        let mut chance = chances();
        // By name: `large` sorts before `small`.
        harness.run(5, |judge, _, _| {
            let errs = if judge == 0 { e } else { p };
            match (judge, chance(), chance()) {
                (1, unsure, _) if unsure < q => reply("unclear"),
                (_, _, wrong) if wrong < errs => reply("no"),
                _ => reply("yes"),
            }
        });
        let found = errors(&harness);
        let expected = (1.0 - q) * p + q * e;
        assert!((found - expected).abs() < 0.03, "{q} {p} {e}: {found} and not {expected}");
        let used = harness.emitted.iter().filter_map(|it| it.judge.as_deref());
        let escalated = used.filter(|it| it.escalated).count() as f64 / INQUIRIES as f64;
        assert!((escalated - q).abs() < 0.03, "{q}: {escalated}");
        let requests = harness.asked_at.len() as f64 / INQUIRIES as f64;
        assert!((requests - 1.0 - q).abs() < 0.03, "{q}: {requests}");
    }
}
