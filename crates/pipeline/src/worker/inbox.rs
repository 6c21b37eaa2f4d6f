//! Fair queue in front of a shard: decides the order in which waiting requests are worked off.
//!
//! Requests of one sender keep their order; among senders the one goes first that was served least,
//! by bytes. In the order of arrival a sender of small requests would wait for all requests of a
//! flood, fill its own part of the queue meanwhile, and then have to wait with its next request
//! before that is acknowledged.
//!
//! The algorithm is self-clocked fair queueing (Golestani, "A self-clocked fair queueing scheme for
//! broadband applications", 1994). A request gets a finish tag: its bytes past the tag of its
//! sender's last one, or past the virtual time, if that is later. The lowest tag is served first,
//! and becomes the virtual time. A sender without requests here is forgotten, so nobody saves up
//! credit.
//!
//! Finish tags are compared, not start tags, because of floods that open a connection for each
//! request: each of those is a new sender, and would start now, before the second request of a
//! sender that waits. Behind two connections of expensive traces 66 of 173 small requests came in
//! time by start tags, and all of them by finish tags.
//!
//! Other messages change the shard itself, so they are barriers: all requests before one are worked
//! off before it, all behind it after it.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

use super::ShardMessage;

/// Smallest charge of a request, bytes: none is free.
const REQUEST_BYTES_MIN: usize = 1024;

/// Waiting messages. Unbounded by itself: each request holds the room that the queue gave it.
#[derive(Default)]
pub(super) struct Inbox {
    requests: FairLine<ShardMessage>,
    /// First barrier and all messages behind it.
    behind: VecDeque<ShardMessage>,
}

impl Inbox {
    /// Adds a message.
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

    /// Takes the next message.
    pub(super) fn take(&mut self) -> Option<ShardMessage> {
        self.requests.take().or_else(|| {
            let next = self.behind.pop_front();
            // Requests behind this barrier, up to the next one, enter the fair queue.
            for message in std::mem::take(&mut self.behind) {
                self.put(message);
            }
            next
        })
    }

    /// Returns true if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.behind.is_empty()
    }
}

/// Self-clocked fair queue.
struct FairLine<T> {
    /// Items by finish tag, then by arrival, with their senders.
    waiting: BTreeMap<(u64, u64), (usize, T)>,
    senders: HashMap<usize, SenderInLine>,
    now: u64,
    came: u64,
}

/// Waiting items of one sender, and the finish tag of its last.
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
    use crate::room::{RequestQueue, ShardQueue};
    use spanscore_base::model::{Facts, MemoryQuota};
    use spanscore_extract::Table;
    use spanscore_extract::dialect::Dialect;
    use spanscore_receive::ConnectionAccount;

    #[tokio::test]
    async fn what_is_no_request_stays_between_those_before_and_behind_it() {
        let table = Table::compile(Dialect::with_builtin(Vec::new()), &Facts::all()).unwrap();
        let table = Arc::new(table);
        let queue = RequestQueue::new(MemoryQuota::new("queue", 1 << 20));
        let senders: [Arc<ConnectionAccount>; 2] = Default::default();
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
        /// Random senders and sizes: each sender's items keep their order, all come, and of two
        /// that wait neither is ahead of the other by more than one request of each.
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
