//! What waits for a shard, in the order in which it is worked off.
//!
//! Requests stand in a fair queue: each sender's in the order in which they came, and among senders
//! the one goes first that was given least so far, by bytes. In the order of arrival alone a sender
//! of small requests would wait for all that a flood has in the queue, fill its own part of it
//! meanwhile, and then have to wait with its next request before that is acknowledged.
//!
//! It is self-clocked fair queueing (Golestani, "A self-clocked fair queueing scheme for broadband
//! applications", 1994): what is put in ends its bytes behind its sender's last, or behind now, if
//! that is later; what ends first goes first, and now is where that ends. Who has nothing here is
//! not remembered, so nobody saves up. That it is the ends which are compared, and not the starts,
//! is for floods that open a connection for each request: each is a new sender, and would start
//! now, before the second request of whoever waits.
//!
//! Whatever is no request changes how the shard works, so it stays where it stands: all before it
//! is worked off before it, all behind it after it.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

use super::ShardMessage;

/// A request counts as so many bytes at least: none is free.
const REQUEST_BYTES_MIN: usize = 1024;

/// What waits. Its room is that of the requests in it, which the queue has given them.
#[derive(Default)]
pub(super) struct Inbox {
    requests: FairLine<ShardMessage>,
    /// From the first message on that is no request.
    behind: VecDeque<ShardMessage>,
}

impl Inbox {
    /// Puts a message in.
    pub(super) fn put(&mut self, message: ShardMessage) {
        match &message {
            ShardMessage::Batch { room, .. } if self.behind.is_empty() => {
                let (own, request) = &**room;
                let cost = own.bytes().max(REQUEST_BYTES_MIN);
                self.requests.put(request.holder(), cost, message);
            }
            _ => self.behind.push_back(message),
        }
    }

    /// Takes the next message out.
    pub(super) fn take(&mut self) -> Option<ShardMessage> {
        self.requests.take().or_else(|| {
            let next = self.behind.pop_front();
            // What stands behind it, up to the next of its kind, may be ordered from now on.
            for message in std::mem::take(&mut self.behind) {
                self.put(message);
            }
            next
        })
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.behind.is_empty()
    }
}

/// Self-clocked fair queueing of what several senders put in.
struct FairLine<T> {
    /// By end, then by arrival.
    waiting: BTreeMap<(u64, u64), (usize, T)>,
    senders: HashMap<usize, SenderInLine>,
    now: u64,
    came: u64,
}

/// What one sender has in the line.
#[derive(Default)]
struct SenderInLine {
    count: usize,
    end: u64,
}

impl<T> Default for FairLine<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), senders: HashMap::new(), now: 0, came: 0 }
    }
}

impl<T> FairLine<T> {
    fn put(&mut self, sender: usize, cost: usize, what: T) {
        let own = self.senders.entry(sender).or_default();
        own.end = own.end.max(self.now).saturating_add(cost as u64);
        own.count += 1;
        self.came += 1;
        self.waiting.insert((own.end, self.came), (sender, what));
    }

    fn take(&mut self) -> Option<T> {
        let ((end, _), (sender, what)) = self.waiting.pop_first()?;
        self.now = end;
        if let Some(own) = self.senders.get_mut(&sender) {
            own.count -= 1;
            if own.count == 0 {
                self.senders.remove(&sender);
            }
        }
        Some(what)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;
    use crate::extract::Table;
    use crate::extract::dialect::Dialect;
    use crate::model::{Facts, Share};
    use crate::pipeline::room::{RequestQueue, ShardQueue};
    use crate::receive::Sender;

    #[tokio::test]
    async fn what_is_no_request_stays_between_those_before_and_behind_it() {
        let table = Table::compile(Dialect::with_builtin(Vec::new()), &Facts::all()).unwrap();
        let table = Arc::new(table);
        let queue = RequestQueue::new(Share::new("queue", 1 << 20));
        let senders: [Arc<Sender>; 2] = Default::default();
        let mut inbox = Inbox::default();
        for (number, sender) in [(1, 0), (2, 0), (3, 1), (4, 2), (5, 0), (6, 0), (7, 1), (8, 2)] {
            let Some(sender) = senders.get(sender) else {
                inbox.put(ShardMessage::Resume { now_ms: number });
                continue;
            };
            let room = queue.take(sender, 5_000, Instant::now(), || {}).await.unwrap();
            let own = ShardQueue::new(1).take(&room, 5_000, Instant::now(), || {}).await.unwrap();
            let batch = Arc::default();
            let room = Arc::new((own, Arc::new(room)));
            let table = Arc::clone(&table);
            inbox.put(ShardMessage::Batch { batch, table, at_ms: Some(number), room });
        }
        let numbers = std::iter::from_fn(|| inbox.take()).map(|message| match message {
            ShardMessage::Batch { at_ms, .. } => at_ms.unwrap_or(0),
            ShardMessage::Resume { now_ms } => now_ms,
            _ => 0,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 3, 2, 4, 5, 7, 6, 8]);
        assert!(inbox.is_empty());
        assert_eq!(queue.share().held(), 0, "the room is given back with the request");
    }

    fn taken<T>(line: &mut FairLine<T>) -> Vec<T> {
        std::iter::from_fn(|| line.take()).collect()
    }

    #[test]
    fn sender_with_little_waits_for_one_request_of_a_flood_and_not_for_all() {
        let mut line = FairLine::default();
        (0..50).for_each(|number| line.put(1, 400_000, ("flood", number)));
        assert_eq!(line.take(), Some(("flood", 0)));
        (0..3).for_each(|number| line.put(2, 2_000, ("quiet", number)));
        let order = taken(&mut line);
        assert_eq!(order[..3], [("quiet", 0), ("quiet", 1), ("quiet", 2)]);
        assert_eq!(order[3..], (1..50).map(|number| ("flood", number)).collect::<Vec<_>>());
        assert!(line.senders.is_empty());
    }

    #[test]
    fn senders_of_equal_requests_take_turns_however_many_each_has() {
        let mut line = FairLine::default();
        for (sender, count) in [(1, 4), (2, 2), (3, 1)] {
            (0..count).for_each(|_| line.put(sender, 10, sender));
        }
        assert_eq!(taken(&mut line), [1, 2, 3, 1, 2, 1, 1]);
    }

    #[test]
    fn flood_of_new_senders_does_not_pass_who_waits_with_little() {
        let mut line = FairLine::default();
        let mut order = Vec::new();
        for number in 0..10 {
            line.put(100 + number, 400_000, "flood");
            line.put(2, 2_000, "quiet");
            if number % 3 == 2 {
                order.extend(line.take());
            }
        }
        order.extend(taken(&mut line));
        let quiet = order.iter().take_while(|name| **name == "quiet").count();
        assert_eq!((quiet, order.len()), (10, 20));
    }

    #[test]
    fn large_request_is_passed_by_as_many_bytes_as_it_has_and_no_more() {
        let mut line = FairLine::default();
        line.put(1, 10_000, "large");
        let mut passed = 0;
        loop {
            line.put(2 + passed, 1_000, "small");
            match line.take() {
                Some("small") => passed += 1,
                _ => break,
            }
        }
        assert_eq!(passed, 9);
    }

    #[test]
    fn who_was_away_has_saved_up_nothing() {
        let mut line = FairLine::default();
        (0..6).for_each(|_| line.put(1, 10, 1));
        assert_eq!([1; 4].map(|_| line.take()), [Some(1); 4]);
        (0..3).for_each(|_| line.put(2, 10, 2));
        assert_eq!(taken(&mut line), [1, 2, 1, 2, 2]);
    }

    proptest! {
        /// However senders and sizes mix: each one's come in their order, all come, and while two
        /// wait, neither gets more before the other than one request of each.
        #[test]
        fn senders_are_served_fairly_and_each_in_its_own_order(
            asks in vec((0..4_usize, 1..1_000_usize), 1..120),
        ) {
            let mut line = FairLine::default();
            for (number, (sender, cost)) in asks.iter().enumerate() {
                line.put(*sender, *cost, number);
            }
            let order = taken(&mut line);
            prop_assert_eq!(order.len(), asks.len());
            let mut left = [0; 4];
            asks.iter().for_each(|(sender, _)| left[*sender] += 1);
            let mut given = [0; 4];
            let mut last = [None; 4];
            for number in order {
                let (sender, cost) = asks[number];
                prop_assert!(last[sender] < Some(number), "its own order");
                last[sender] = Some(number);
                let waits = |other: usize| left[other] > 0 && other != sender;
                for other in (0..4).filter(|other| waits(*other)) {
                    prop_assert!(given[sender] <= given[other] + 1_000, "fair");
                }
                given[sender] += cost;
                left[sender] -= 1;
            }
        }
    }
}
