//! Remembered sampling decisions, for late requests: bounded in time and number; the oldest of the
//! largest sender goes first.

use std::collections::VecDeque;

use hashbrown::HashMap;

use spanscore_base::model::{Sender, SenderShares, TraceId};

/// Memory of a remembered decision, in its table and in its sender's list, bytes.
pub(super) const DECISION_BYTES: usize =
    2 * (size_of::<(TraceId, Decision)>() + size_of::<(u64, TraceId)>());
/// Further memory per sender, bytes: its list, which starts with four entries, and its share's
/// count.
const SENDER_BYTES: usize = 2 * size_of::<(Sender, VecDeque<(u64, TraceId)>)>()
    + 4 * size_of::<(u64, TraceId)>()
    + 8 * size_of::<(u64, usize)>();

#[derive(Clone, Copy, Debug)]
struct Decision {
    is_chosen: bool,
    until_ms: u64,
    /// Sender, without its group.
    sender: Sender,
}

/// Remembered decisions.
#[derive(Default)]
pub(super) struct Decisions {
    by_trace: HashMap<TraceId, Decision>,
    /// Decisions of each sender by time, the oldest first.
    lines: HashMap<Sender, VecDeque<(u64, TraceId)>>,
    shares: SenderShares,
}

impl Decisions {
    /// Returns the number of decisions.
    pub(super) fn count(&self) -> usize {
        self.by_trace.len()
    }

    /// Returns their memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.count() * DECISION_BYTES + self.lines.len() * SENDER_BYTES
    }

    /// Returns true if a trace is chosen; `None` if undecided or forgotten.
    pub(super) fn get(&self, trace: TraceId) -> Option<bool> {
        self.by_trace.get(&trace).map(|decision| decision.is_chosen)
    }

    /// Records the decision on a sender's trace until a time; returns true if it is chosen. A
    /// chosen trace stays chosen.
    pub(super) fn decide(
        &mut self,
        (trace, sender): (TraceId, Sender),
        is_chosen: bool,
        until_ms: u64,
    ) -> bool {
        if let Some(known) = self.by_trace.get_mut(&trace) {
            known.is_chosen |= is_chosen;
            known.until_ms = until_ms;
            return known.is_chosen;
        }
        let sender = sender.without_group();
        self.by_trace.insert(trace, Decision { is_chosen, until_ms, sender });
        self.line(sender).push_back((until_ms, trace));
        self.shares.add(sender, 1);
        is_chosen
    }

    /// Forgets the oldest decisions of the largest sender down to the limit. Those of `sender`, the
    /// newest, are spared unless it is the largest.
    pub(super) fn forget_beyond(&mut self, most: usize, sender: Sender) {
        let sender = sender.without_group();
        while self.count() > most {
            let richest = self.shares.richest(sender, 0).unwrap_or(sender);
            let Some((until_ms, trace)) = self.pop(richest) else { return };
            match self.by_trace.get(&trace).map(|decision| decision.until_ms) {
                // It was decided again later, and is no longer the oldest.
                Some(later) if later != until_ms => self.line(richest).push_back((later, trace)),
                _ => self.remove(trace),
            }
        }
    }

    /// Forgets expired decisions.
    pub(super) fn forget_until(&mut self, now_ms: u64) {
        let senders: Vec<Sender> = self.lines.keys().copied().collect();
        for sender in senders {
            while self.first(sender).is_some_and(|(until_ms, _)| until_ms <= now_ms) {
                let Some((_, trace)) = self.pop(sender) else { break };
                match self.by_trace.get(&trace).map(|decision| decision.until_ms) {
                    // It was decided again later.
                    Some(later) if later > now_ms => self.line(sender).push_back((later, trace)),
                    _ => self.remove(trace),
                }
            }
        }
    }

    fn line(&mut self, sender: Sender) -> &mut VecDeque<(u64, TraceId)> {
        self.lines.entry(sender).or_default()
    }

    fn first(&self, sender: Sender) -> Option<(u64, TraceId)> {
        self.lines.get(&sender)?.front().copied()
    }

    fn pop(&mut self, sender: Sender) -> Option<(u64, TraceId)> {
        let line = self.lines.get_mut(&sender)?;
        let first = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&sender);
        }
        first
    }

    fn remove(&mut self, trace: TraceId) {
        if let Some(Decision { sender, .. }) = self.by_trace.remove(&trace) {
            self.shares.remove(sender, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TraceId {
        let mut id = [1; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        TraceId(id)
    }

    fn sender(peer: u32, connection: u16) -> Sender {
        Sender { peer, connection, ..Sender::default() }
    }

    #[test]
    fn flood_of_decisions_evicts_decisions_of_its_own_sender() {
        const MOST: usize = 100;
        // The others are another peer, and another connection of the flooding peer.
        for other in [sender(2, 1), sender(1, 2)] {
            let mut decisions = Decisions::default();
            let decide = |decisions: &mut Decisions, number, sender| {
                decisions.decide((id(number), sender), true, u64::from(number) + 1);
                decisions.forget_beyond(MOST, sender);
            };
            (0..10).for_each(|number| decide(&mut decisions, number, other));
            (10..1000).for_each(|number| decide(&mut decisions, number, sender(1, 1)));
            assert_eq!(decisions.count(), MOST);
            assert!((0..10).all(|number| decisions.get(id(number)) == Some(true)), "{other:?}");
            assert_eq!(decisions.get(id(10)), None);
            // Later senders make room in it, up to as many.
            (1000..2000).for_each(|number| decide(&mut decisions, number, other));
            let of_flood = (10..1000).filter(|number| decisions.get(id(*number)).is_some());
            assert!(of_flood.count() >= MOST / 2 - 1 && decisions.count() == MOST);
            decisions.forget_until(3000);
            assert!(decisions.count() == 0 && decisions.lines.is_empty());
        }
    }

    #[test]
    fn decision_that_was_made_again_is_remembered_from_then_on() {
        let mut decisions = Decisions::default();
        assert!(!decisions.decide((id(1), sender(1, 1)), false, 10));
        assert!(decisions.decide((id(1), sender(1, 1)), true, 20));
        assert!(decisions.decide((id(1), sender(2, 1)), false, 30), "it stays chosen");
        decisions.forget_until(20);
        assert_eq!(decisions.get(id(1)), Some(true));
        decisions.forget_until(30);
        assert_eq!((decisions.get(id(1)), decisions.count()), (None, 0));
        // The first of three is decided again, so the second becomes the oldest.
        for (number, until_ms) in [(1, 10), (2, 20), (3, 30), (1, 40)] {
            decisions.decide((id(number), sender(1, 1)), true, until_ms);
        }
        decisions.forget_beyond(2, sender(1, 1));
        assert_eq!(
            [1, 2, 3].map(|number| decisions.get(id(number)).is_some()),
            [true, false, true]
        );
        assert_eq!(decisions.bytes(), 2 * DECISION_BYTES + SENDER_BYTES);
    }
}
