//! Shares of a judge's budget by sender, so that none spends the part for others.
//!
//! As in queues, shares have two levels: peers, then the connections of a peer. Spending without a
//! known sender, such as that of an earlier process, belongs to no sender.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::budget::BudgetRequest;
use spanscore_base::model::Sender;

const MINUTE_MS: u64 = 60_000;
/// Period over which a sender's spending is summed, minutes.
const SLOT_MINUTES: u64 = 5;
const DAY_SLOTS: u64 = 24 * 60 / SLOT_MINUTES;
/// Limit on remembered sums of 32 bytes, all of which are read at each request. More are merged.
const PARTS_MAX: usize = 512;
/// Inverse of the part of a budget left by a single peer; a single connection leaves twice that.
const RESERVE_PARTS: u64 = 32;
/// Largest share of one of several senders, as a multiple of the rest.
const HOLDER_TIMES: u64 = 8;

/// Holder whose share a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::judge) enum ShareHolder {
    /// Peer: none of its connections has room.
    Peer,
    /// Connection: others of its peer may have room.
    Connection,
}

/// Spending of a connection in some minutes, or merged spending of a peer with connection 0.
#[derive(Clone, Copy, Debug)]
struct SpentPart {
    slot: u64,
    sender: Sender,
    amount: u64,
}

/// Window of a budget at a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetWindow {
    /// Its length, minutes.
    pub(super) minutes: u64,
    /// Its budget.
    pub(super) limit: u64,
    /// Budget left after the request.
    pub(super) left: u64,
}

/// Spending and reservations of one quantity by sender.
#[derive(Clone, Debug, Default)]
pub(super) struct SpendShares {
    /// Ascending by slot.
    spent: VecDeque<SpentPart>,
    /// Reservations of requests in flight.
    open: Vec<(Sender, u64)>,
}

/// A sender's amounts in a window, and its rivals there.
#[derive(Debug, Default)]
struct PartsInWindow {
    peer: u64,
    connection: u64,
    /// True if other peers have amounts.
    has_rivals: bool,
    /// True if other connections of its peer have amounts.
    has_siblings: bool,
}

impl SpendShares {
    /// Counts a reservation.
    pub(super) fn reserve(&mut self, sender: Sender, amount: u64) {
        self.open.push((sender.without_group(), amount));
    }

    /// Releases a reservation, and counts the spending.
    pub(super) fn settle(&mut self, now_ms: u64, sender: Sender, reserved: u64, amount: u64) {
        let sender = sender.without_group();
        if let Some(place) = self.open.iter().position(|open| *open == (sender, reserved)) {
            self.open.swap_remove(place);
        }
        if amount == 0 {
            return;
        }
        let now = slot_of(now_ms);
        let newest = self.spent.iter_mut().rev().take_while(|part| part.slot >= now);
        match newest.into_iter().find(|part| part.sender == sender) {
            Some(part) => part.amount = part.amount.saturating_add(amount),
            None => self.spent.push_back(SpentPart { slot: now, sender, amount }),
        }
        let is_old = |part: &SpentPart| now.saturating_sub(part.slot) > DAY_SLOTS;
        while self.spent.front().is_some_and(is_old) {
            self.spent.pop_front();
        }
        while self.spent.len() > PARTS_MAX {
            self.merge();
        }
    }

    /// Merges two parts of the peer with most, so that no spending is lost: the least connections
    /// in one slot, otherwise the peer's parts in the two least slots, which count as the later
    /// one. With more peers than remembered, the least belongs to no sender.
    fn merge(&mut self) {
        let mut places = self.most_parts(|part| Some(part.slot));
        if places.len() > 1 {
            places.sort_by_key(|at| {
                let SpentPart { sender, amount, .. } = self.spent[*at];
                (sender.connection != 0, amount)
            });
        } else {
            places = self.most_parts(|_| None);
            let amount = |at: &usize| self.spent[*at].amount;
            let sum = |pair: &&[usize]| pair.iter().map(amount).fold(0, u64::saturating_add);
            places = places.windows(2).min_by_key(sum).map_or(places.clone(), <[usize]>::to_vec);
        }
        let gone = match places[..] {
            [one, other, ..] => {
                let SpentPart { sender, amount, .. } = self.spent[one.min(other)];
                let kept = &mut self.spent[one.max(other)];
                kept.amount = kept.amount.saturating_add(amount);
                if kept.sender != sender {
                    kept.sender.connection = 0;
                }
                Some(one.min(other))
            }
            _ => (0..self.spent.len()).min_by_key(|at| self.spent[*at].amount),
        };
        gone.and_then(|gone| self.spent.remove(gone));
    }

    /// Returns the indexes of the parts of the peer with most, in one slot or in all; the oldest
    /// peer of equal ones.
    fn most_parts(&self, slot: impl Fn(&SpentPart) -> Option<u64>) -> Vec<usize> {
        let mut groups = BTreeMap::<_, Vec<usize>>::new();
        for (at, part) in self.spent.iter().enumerate() {
            groups.entry((slot(part), part.sender.peer)).or_default().push(at);
        }
        let most = groups.into_values().max_by_key(|places| (places.len(), Reverse(places[0])));
        most.unwrap_or_default()
    }

    /// Returns the holder whose share a request exceeds in a window, if any; `is_open` counts
    /// reservations.
    ///
    /// A peer without spending may take everything. A single peer leaves a reserve; each of several
    /// has at most `HOLDER_TIMES` the rest; a connection likewise within its peer's share. A window
    /// with a reserve smaller than an answer has no shares.
    pub(super) fn exceeded(
        &self,
        now_ms: u64,
        window: BudgetWindow,
        request: &BudgetRequest,
        is_open: bool,
    ) -> Option<ShareHolder> {
        let BudgetWindow { minutes, limit, left } = window;
        let reserve = limit / RESERVE_PARTS;
        if 2 * reserve < request.answer {
            return None;
        }
        let BudgetRequest { sender, amount, .. } = *request;
        let held = self.held(now_ms, minutes, sender, is_open);
        let most = |left: u64| left.saturating_mul(HOLDER_TIMES);
        if held.peer == 0 || (!held.has_rivals && sender.peer == 0) {
            return None;
        }
        let of_peer = if held.has_rivals {
            most(left).checked_sub(held.peer.saturating_add(amount)).map(|more| more.min(left))
        } else {
            left.checked_sub(reserve)
        };
        let Some(of_peer) = of_peer else { return Some(ShareHolder::Peer) };
        let fits = if held.has_siblings {
            held.connection == 0 || held.connection.saturating_add(amount) <= most(of_peer)
        } else {
            held.has_rivals || of_peer >= reserve
        };
        (!fits).then_some(ShareHolder::Connection)
    }

    /// Returns the holder of the part that a request goes beyond of what may be spent at once,
    /// though others have spent it; `None` if it stays within. Parts are equal: as many as peers
    /// have some, and of its peer's as many as connections have. The only one has none.
    pub(super) fn exceeded_part(
        &self,
        now_ms: u64,
        at_once: u64,
        request: &BudgetRequest,
        is_open: bool,
    ) -> Option<ShareHolder> {
        let BudgetRequest { sender, amount, .. } = *request;
        let own = sender.without_group();
        let mut peers = BTreeSet::from([own.peer]);
        let mut connections = BTreeSet::from([own.connection]);
        for (other, _) in self.parts(now_ms, SLOT_MINUTES, is_open) {
            peers.insert(other.peer);
            if other.peer == own.peer {
                connections.insert(other.connection);
            }
        }
        let held = self.held(now_ms, SLOT_MINUTES, sender, is_open);
        let of_peer = at_once / peers.len() as u64;
        let of_connection = of_peer / connections.len() as u64;
        if peers.len() > 1 && held.peer.saturating_add(amount) > of_peer {
            return Some(ShareHolder::Peer);
        }
        let is_alone = peers.len() + connections.len() == 2;
        let exceeds = is_alone || held.connection.saturating_add(amount) > of_connection;
        exceeds.then_some(ShareHolder::Connection)
    }

    fn held(&self, now_ms: u64, minutes: u64, sender: Sender, is_open: bool) -> PartsInWindow {
        let own = sender.without_group();
        let mut held = PartsInWindow::default();
        for (other, amount) in self.parts(now_ms, minutes, is_open) {
            if other.peer != own.peer {
                held.has_rivals = true;
                continue;
            }
            held.peer = held.peer.saturating_add(amount);
            if other.connection == own.connection {
                held.connection = held.connection.saturating_add(amount);
            } else {
                held.has_siblings = true;
            }
        }
        held
    }

    /// Returns senders with their spending of the last minutes, including reservations.
    fn parts(
        &self,
        now_ms: u64,
        minutes: u64,
        is_open: bool,
    ) -> impl Iterator<Item = (Sender, u64)> {
        let first = slot_of(now_ms).saturating_sub(minutes / SLOT_MINUTES);
        let spent = self.spent.iter().rev().take_while(move |part| part.slot >= first);
        let open = self.open.iter().copied().filter(move |_| is_open);
        spent.map(|part| (part.sender, part.amount)).chain(open)
    }
}

fn slot_of(now_ms: u64) -> u64 {
    now_ms / (SLOT_MINUTES * MINUTE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::gate::budget::{BudgetRoom, SpendMeter};

    fn of(peer: u32, connection: u16) -> Sender {
        Sender { peer, connection, ..Sender::default() }
    }

    /// Spends a sender's amount if admitted; returns the spent amount.
    fn spend_once(meter: &mut SpendMeter, amount: u64, sender: Sender) -> u64 {
        let request = BudgetRequest { amount, answer: 4, sender };
        if meter.room(0, &request) != BudgetRoom::Free {
            return 0;
        }
        meter.reserve(sender, amount);
        meter.settle(0, sender, amount, amount);
        amount
    }

    /// Lets senders spend in order, each as much as it may of a budget of 1,000 in requests of
    /// `amount`; returns each one's spending.
    fn spend(meter: &mut SpendMeter, amount: u64, senders: &[Sender]) -> Vec<u64> {
        let mut had = Vec::new();
        for sender in senders {
            let mut own = 0;
            while let more @ 1.. = spend_once(meter, amount, *sender) {
                own += more;
            }
            had.push(own);
        }
        had
    }

    fn check(is_even: bool, amount: u64, senders: &[Sender], expected: &[u64]) {
        let mut meter = SpendMeter::new(Some(1_000), None, is_even);
        let had = spend(&mut meter, amount, senders);
        assert_eq!(had, expected, "{is_even}: {amount} each of {senders:?}");
    }

    #[test]
    fn late_sender_finds_a_part_of_the_budget() {
        check(false, 4, &[of(0, 0), of(1, 1)], &[1_000, 0]);
        check(false, 4, &[of(1, 1), of(2, 1), of(3, 1)], &[936, 56, 4]);
        check(false, 4, &[of(1, 1), of(1, 2), of(2, 1)], &[936, 28, 32]);
        check(false, 4, &[of(1, 1), of(1, 2), of(1, 3), of(2, 1)], &[936, 28, 4, 28]);
        check(false, 100, &[of(1, 1), of(2, 1)], &[900, 100]);
    }

    #[test]
    fn late_sender_may_exceed_the_pace_that_another_used_up() {
        check(true, 4, &[of(1, 1), of(2, 1), of(3, 1)], &[80, 40, 24]);
        check(true, 4, &[of(1, 1), of(1, 2), of(1, 3)], &[80, 40, 24]);
        check(true, 4, &[of(0, 0), of(0, 0)], &[80, 0]);
    }

    #[test]
    fn small_budgets_and_those_of_an_earlier_process_have_no_owner() {
        let mut meter = SpendMeter::new(Some(60), None, false);
        assert_eq!(spend(&mut meter, 4, &[of(1, 1), of(2, 1)]), [60, 0]);
        let mut meter = SpendMeter::new(Some(1_000), None, false);
        meter.restore(vec![(0, 900)], 50, 0);
        assert_eq!(spend(&mut meter, 4, &[of(1, 1), of(2, 1), of(1, 1)]), [4, 40, 4]);
    }

    #[test]
    fn senders_that_ask_in_turns_have_as_much() {
        let mut meter = SpendMeter::new(Some(1_000), None, false);
        let all = [of(1, 1), of(2, 1), of(3, 1)];
        let mut had = [0; 3];
        for _ in 0..1_000 {
            for (sender, own) in all.iter().zip(&mut had) {
                *own += spend_once(&mut meter, 1, *sender);
            }
        }
        assert_eq!(had, [320; 3]);
    }

    #[test]
    fn many_connections_and_times_leave_each_peer_all_that_it_spent() {
        let check = |senders: &[Sender], slots: u64, expected: usize| {
            let mut shares = SpendShares::default();
            for slot in 0..slots {
                let now_ms = slot * SLOT_MINUTES * MINUTE_MS;
                senders.iter().for_each(|sender| shares.settle(now_ms, *sender, 0, 3));
            }
            assert_eq!(shares.spent.len(), expected.min(PARTS_MAX));
            assert!(shares.spent.iter().is_sorted_by_key(|part| part.slot));
            let now_ms = (slots - 1) * SLOT_MINUTES * MINUTE_MS;
            for sender in senders {
                let had = shares.held(now_ms, 24 * 60, *sender, false).peer;
                let own = senders.iter().filter(|it| it.peer == sender.peer).count() as u64;
                assert_eq!(had, 3 * own * slots, "{sender:?} of {}", senders.len());
            }
        };
        let flood: Vec<_> = (1..=700).map(|connection| of(1, connection)).collect();
        check(&[of(1, 1), of(2, 1)], 200, 400);
        check(&[&[of(2, 1)], &flood[..]].concat(), 1, PARTS_MAX);
        check(&[of(1, 1), of(2, 1), of(3, 1)], 280, PARTS_MAX);
        let many: Vec<_> = (1..=30).map(|peer| of(peer, 1)).collect();
        check(&many, 24, PARTS_MAX);
    }

    #[test]
    fn largest_part_of_a_flood_stays_its_connections() {
        let mut shares = SpendShares::default();
        shares.settle(0, of(1, 1), 0, 900);
        (2..=1_000).for_each(|connection| shares.settle(0, of(1, connection), 0, 1));
        let held = shares.held(0, 60, of(1, 1), false);
        assert_eq!((held.peer, held.connection), (1_899, 900));
    }
}
