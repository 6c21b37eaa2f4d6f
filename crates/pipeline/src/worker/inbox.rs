//! Inbox of a shard, which orders waiting requests.
//!
//! Requests of one sender keep their order; among senders the least served in bytes goes first
//! ([`FairQueue`]). In order of arrival a sender of small requests would wait for all requests of a
//! flood. It would fill its share of the queue meanwhile, and its next request would wait for
//! acknowledgement.
//!
//! Other messages change the shard, so they are barriers: earlier requests are handled before them,
//! later ones after them. Requests of senders with many long traces wait here, each sender within
//! its share. A config update does not wait for them, since no sender may delay a config. Waiting
//! records are translated later, and a trace being judged counts as judged before it. No other
//! message passes long traces, and no more of those are added while one waits
//! ([`LongTraces::close_if`]).

use std::collections::VecDeque;

use super::ShardMessage;
use super::long_traces::LongTraces;
use spanscore_base::model::FairQueue;

/// Smallest charge of a request, bytes.
const REQUEST_BYTES_MIN: usize = 1024;

/// Waiting messages. Bounded by the queue's room, which each request holds.
#[derive(Default)]
pub(super) struct Inbox {
    requests: FairQueue<ShardMessage>,
    /// First barrier and all messages after it.
    behind: VecDeque<ShardMessage>,
}

impl Inbox {
    /// Adds a message.
    pub(super) fn put(&mut self, message: ShardMessage) {
        match &message {
            ShardMessage::Batch { batch, room, .. } if self.behind.is_empty() => {
                let sender = batch.sender;
                let cost = room.0.bytes().max(REQUEST_BYTES_MIN);
                self.requests.put(sender, cost, message);
            }
            _ => self.behind.push_back(message),
        }
    }

    /// Takes the next message that no long trace holds up.
    pub(super) fn take(&mut self, long: &LongTraces) -> Option<ShardMessage> {
        let is_held = |message: &ShardMessage| match message {
            ShardMessage::Batch { batch, .. } => long.holds(batch.sender),
            _ => false,
        };
        if let Some(request) = self.requests.take_unless(is_held) {
            return Some(request);
        }
        let waits = !self.requests.is_empty() || !long.is_empty();
        if waits && !matches!(self.behind.front(), Some(ShardMessage::ConfigUpdate(_))) {
            return None;
        }
        let next = self.behind.pop_front();
        // Requests after this barrier, up to the next one, enter the fair queue.
        for message in std::mem::take(&mut self.behind) {
            self.put(message);
        }
        next
    }

    /// Returns true if a message waits for the end of all long traces.
    pub(super) fn has_barrier(&self) -> bool {
        let next = self.behind.front();
        next.is_some_and(|next| !matches!(next, ShardMessage::ConfigUpdate(_)))
    }

    /// Returns true if it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.behind.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;
    use crate::request_queue::{RequestQueue, ShardQueue};
    use spanscore_base::model::{Facts, MemoryQuota, Sender, SpanBatch};
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
        let long = LongTraces::default();
        for (number, peer) in [(1, 0), (2, 0), (3, 1), (4, 2), (5, 0), (6, 0), (7, 1), (8, 2)] {
            let Some(account) = senders.get(peer as usize) else {
                inbox.put(ShardMessage::Resume { now_ms: number });
                continue;
            };
            let room = queue.take(account, 5_000, Instant::now(), || {}).await.unwrap();
            let own = ShardQueue::new(1).take(&room, 5_000, Instant::now(), || {}).await.unwrap();
            let sender = Sender { peer, ..Sender::default() };
            let batch = Arc::new(SpanBatch { sender, ..SpanBatch::default() });
            let room = Arc::new((own, Arc::new(room)));
            let table = Arc::clone(&table);
            inbox.put(ShardMessage::Batch { batch, table, at_ms: Some(number), room });
        }
        assert!(inbox.has_barrier());
        let numbers = std::iter::from_fn(|| inbox.take(&long)).map(|message| match message {
            ShardMessage::Batch { at_ms, .. } => at_ms.unwrap_or(0),
            ShardMessage::Resume { now_ms } => now_ms,
            _ => 0,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 3, 2, 4, 5, 7, 6, 8]);
        assert!(inbox.is_empty() && !inbox.has_barrier());
        assert_eq!(queue.share().held(), 0, "the room is given back with the request");
    }
}
