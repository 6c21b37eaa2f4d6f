//! Fair queue of requests that wait for a limit.
//!
//! A pure state machine: join, leave, first. Waiters are ordered by their holder's total including
//! the requested amount, then by arrival, so a small sender precedes a flood. The requests of one
//! holder add up and are served in order of arrival. So many waiters of one holder rank behind one
//! waiter of another with the same holdings.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use smart_default::SmartDefault;

/// Place in a [`WaitQueue`]; the least is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitPlace {
    would_hold: usize,
    number: u64,
}

/// Queue of waiters, each with its waker.
// `SmartDefault` requires no `Default` of `W`, unlike std's derive.
#[derive(Debug, SmartDefault)]
pub(super) struct WaitQueue<W> {
    waiters: BTreeMap<WaitPlace, QueuedWaiter<W>>,
    holders: HashMap<usize, HolderTotals>,
    joined: u64,
}

#[derive(Debug)]
struct QueuedWaiter<W> {
    holder: usize,
    amount: usize,
    waker: W,
}

/// Totals of one holder's waiters.
#[derive(Debug, Default)]
struct HolderTotals {
    count: usize,
    amount: usize,
    /// Key of its last waiter; a later one ranks behind it.
    last: usize,
}

impl<W> WaitQueue<W> {
    /// Adds a waiter of a holder, which now has `held`, for an amount.
    pub(super) fn join(
        &mut self,
        holder: usize,
        held: usize,
        amount: usize,
        waker: W,
    ) -> WaitPlace {
        let own = self.holders.entry(holder).or_default();
        own.count += 1;
        own.amount = own.amount.saturating_add(amount);
        // Never lower than before, though `held` may have fallen: otherwise a later waiter of this
        // holder would overtake its earlier ones.
        own.last = own.last.max(held.saturating_add(own.amount));
        self.joined += 1;
        let place = WaitPlace { would_hold: own.last, number: self.joined };
        self.waiters.insert(place, QueuedWaiter { holder, amount, waker });
        place
    }

    /// Removes a waiter, served or not.
    pub(super) fn leave(&mut self, place: WaitPlace) {
        let Some(waiter) = self.waiters.remove(&place) else { return };
        let Some(own) = self.holders.get_mut(&waiter.holder) else { return };
        own.count -= 1;
        own.amount = own.amount.saturating_sub(waiter.amount);
        if own.count == 0 {
            self.holders.remove(&waiter.holder);
        }
    }

    /// Returns the first waiter with its waker.
    pub(super) fn first(&self) -> Option<(WaitPlace, &W)> {
        self.waiters.first_key_value().map(|(place, waiter)| (*place, &waiter.waker))
    }

    /// Returns the number of waiters.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Serves the whole queue; returns the names of the waiters in order.
    fn served(mut queue: WaitQueue<&'static str>) -> Vec<&'static str> {
        let mut names = Vec::new();
        while let Some((place, name)) = queue.first() {
            names.push(*name);
            queue.leave(place);
        }
        assert!(queue.holders.is_empty());
        names
    }

    #[test]
    fn smallest_holder_goes_first_then_the_oldest_request() {
        let mut queue = WaitQueue::default();
        for (holder, held, amount, name) in [
            (1, 900, 10, "flood 1"),
            (1, 900, 10, "flood 2"),
            (2, 100, 10, "busy"),
            (3, 0, 10, "quiet 1"),
            (4, 0, 10, "other"),
            (3, 0, 10, "quiet 2"),
            (5, 0, 5000, "large"),
        ] {
            queue.join(holder, held, amount, name);
        }
        let order = ["quiet 1", "other", "quiet 2", "busy", "flood 1", "flood 2", "large"];
        assert_eq!(served(queue), order);
    }

    #[test]
    fn one_holder_is_served_in_its_own_order_though_it_holds_less_by_now() {
        let mut queue = WaitQueue::default();
        queue.join(1, 900, 100, "first");
        queue.join(1, 0, 1, "second");
        queue.join(2, 950, 1, "other");
        assert_eq!(served(queue), ["other", "first", "second"]);
    }

    /// One step of a shared limit.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A holder requests an amount.
        Ask(usize, usize),
        /// The holder of the oldest grant releases it.
        GiveBack,
        /// A waiter gives up.
        GiveUp(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..6_usize, 1..=100_usize).prop_map(|(holder, amount)| Step::Ask(holder, amount)),
            3 => Just(Step::GiveBack),
            1 => (0..8_usize).prop_map(Step::GiveUp),
        ];
        vec(step, 1..200)
    }

    /// A limit of 100 with a queue, served like [`super::super::waiters`].
    #[derive(Default)]
    struct Limit {
        queue: WaitQueue<usize>,
        /// Holder, amount and place of each request, by number.
        asks: Vec<(usize, usize, WaitPlace)>,
        waiting: Vec<usize>,
        /// Granted and held requests.
        granted: std::collections::VecDeque<usize>,
    }

    impl Limit {
        fn held_by(&self, holder: usize) -> usize {
            let own = self.granted.iter().filter(|ask| self.asks[**ask].0 == holder);
            own.map(|ask| self.asks[*ask].1).sum()
        }

        fn held(&self) -> usize {
            self.granted.iter().map(|ask| self.asks[*ask].1).sum()
        }

        fn serve(&mut self) {
            while let Some((place, ask)) = self.queue.first() {
                let ask = *ask;
                if self.held() + self.asks[ask].1 > 100 {
                    return;
                }
                self.queue.leave(place);
                self.waiting.retain(|other| *other != ask);
                let earlier = self
                    .waiting
                    .iter()
                    .any(|other| self.asks[*other].0 == self.asks[ask].0 && *other < ask);
                assert!(!earlier, "a later ask of one holder goes first");
                self.granted.push_back(ask);
            }
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Ask(holder, amount) => {
                    let ask = self.asks.len();
                    let place = self.queue.join(holder, self.held_by(holder), amount, ask);
                    self.asks.push((holder, amount, place));
                    self.waiting.push(ask);
                }
                Step::GiveBack => drop(self.granted.pop_front()),
                Step::GiveUp(nth) if nth < self.waiting.len() => {
                    let ask = self.waiting.remove(nth);
                    self.queue.leave(self.asks[ask].2);
                }
                Step::GiveUp(_) => {}
            }
        }
    }

    proptest! {
        #[test]
        fn limit_is_kept_and_nobody_waits_where_the_first_has_room(steps in steps()) {
            let mut limit = Limit::default();
            for step in steps {
                limit.step(step);
                limit.serve();
                prop_assert!(limit.held() <= 100);
                prop_assert_eq!(limit.queue.len(), limit.waiting.len());
                let least = limit.waiting.iter().map(|ask| limit.asks[*ask].2).min();
                prop_assert_eq!(limit.queue.first().map(|(place, _)| place), least);
            }
            // Releasing all grants serves all waiters, in any order of arrival.
            for _ in 0..limit.asks.len() {
                limit.step(Step::GiveBack);
                limit.serve();
            }
            prop_assert!(limit.waiting.is_empty() && limit.queue.holders.is_empty());
        }

        #[test]
        fn sender_without_requests_is_served_before_a_flood(
            flood in vec(1..=100_usize, 1..50), amount in 1..=100_usize,
        ) {
            let mut queue = WaitQueue::default();
            for asked in flood {
                queue.join(1, 200, asked, "flood");
            }
            queue.join(2, 0, amount, "quiet");
            prop_assert_eq!(queue.first().map(|(_, name)| *name), Some("quiet"));
        }
    }
}
