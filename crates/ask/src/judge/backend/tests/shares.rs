//! A full queue of which several senders have a part.

use std::collections::BTreeMap;

use spanscore_base::model::{Outcome, Sender, WaitingRoom};

use super::harness::{Harness, reply, small};

/// Has senders ask in turn, each as much as it may; each gets about as many answers as expected,
/// and the rest is not evaluable. `since_ms`: the time that the first has waited.
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
fn who_comes_later_with_less_has_as_much_in_the_end() {
    for since_ms in [0, 9_000] {
        check(&[(1, 1)], since_ms, &[76]);
        check(&[(1, 1), (2, 1)], since_ms, &[43, 43]);
        check(&[(1, 1), (1, 2)], since_ms, &[39, 39]);
        check(&[(1, 1), (1, 2), (2, 1)], since_ms, &[22, 22, 43]);
    }
}
