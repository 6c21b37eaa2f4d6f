//! Byte-bounded request queue of the shards, with fair waiting.
//!
//! A request takes as much of the queue as its records, and releases it when the last of its shards
//! has taken them. Neither a connection nor a shard may hold nearly all of it: a flood would block
//! others, as would a delayed shard. Requests without room wait in the order of [`Waiters`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;

use super::backlog::Backlog;
use spanscore_base::model::MemoryQuota;
use spanscore_net::metrics::{Meter, Scraped};
use spanscore_net::readings;
use spanscore_receive::{ConnectionAccount, RoomRequest, Waiters};

/// Limit on a delayed shard, as a multiple of the queue's free bytes.
const SHARD_TIMES: usize = 4;

/// Inverse of the part of the queue that a large request leaves free for small ones: a tenth.
///
/// A quarter of the request itself left ninety kilobytes under a flood of new connections; a sender
/// of twenty small requests a second needed more while one trace was judged.
const LEFT_PART: usize = 10;

/// Inverse of the part of the free bytes below which a sender waits for no shard: a half. Such
/// senders cannot fill a shard: some dozens of them would leave a twentieth of the queue.
///
/// An eighth was too little: a sender of twenty small requests a second waited for a shard with two
/// or three expensive traces.
const LITTLE_PART: usize = 2;

/// Queue of all shards, by bytes.
pub(super) struct RequestQueue {
    share: Arc<MemoryQuota>,
    waiters: Waiters,
}

/// Bytes held by a request, released on drop.
pub(super) struct QueueRoom {
    queue: Arc<RequestQueue>,
    sender: Arc<ConnectionAccount>,
    bytes: usize,
}

impl RequestQueue {
    /// Creates a queue within a quota.
    pub(super) fn new(share: Arc<MemoryQuota>) -> Arc<Self> {
        Arc::new(Self { share, waiters: Waiters::default() })
    }

    /// Returns the quota of the queue.
    pub(super) fn share(&self) -> &Arc<MemoryQuota> {
        &self.share
    }

    /// Takes room for a request, and waits for it if necessary; `None` at the deadline, or if too
    /// many of the sender's requests wait. Calls `waits` once if it must wait. The charge of a
    /// large request is limited to that of one sender, so that room is left for others.
    pub(super) async fn take(
        self: &Arc<Self>,
        sender: &Arc<ConnectionAccount>,
        bytes: usize,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Option<QueueRoom> {
        let bytes = bytes.min(self.share.largest());
        let is_taken = || self.try_take(sender, bytes);
        if !self.waiters.is_empty() || !is_taken() {
            let _waiting = sender.wait()?;
            let held = sender.queued().load(Ordering::Relaxed);
            let asked = RoomRequest { sender, held, amount: bytes };
            let is_there = self.waiters.wait(asked, deadline, waits, is_taken).await;
            is_there.then_some(())?;
        }
        Some(QueueRoom { queue: Arc::clone(self), sender: Arc::clone(sender), bytes })
    }
}

impl RequestQueue {
    /// Takes room if as much stays free, or a tenth of the queue. The limit per sender is not
    /// enough: it allows a new sender all the free room, and in a flood of connections every sender
    /// is new.
    fn try_take(&self, sender: &ConnectionAccount, bytes: usize) -> bool {
        if !self.share.try_take_for(sender.queued(), bytes) {
            return false;
        }
        let leaves_some = self.share.left() >= bytes.min(self.share.limit() / LEFT_PART);
        if !leaves_some {
            self.share.give_back_for(sender.queued(), bytes);
        }
        leaves_some
    }
}

impl QueueRoom {
    /// Grows to the size of the extracted batches without waiting, since they are in memory.
    pub(super) fn grow(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.queue.share.take(more);
        self.sender.queued().fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        self.queue.share.give_back_for(self.sender.queued(), self.bytes);
        self.queue.waiters.wake();
    }
}

/// Account of one shard in the queue.
pub(super) struct ShardQueue {
    room: Arc<HeldAtShard>,
    /// True if there is no other shard to leave room for.
    is_only: bool,
}

#[derive(Default)]
struct HeldAtShard {
    bytes: AtomicUsize,
    waiters: Waiters,
}

/// Bytes of a request at one shard, released on drop.
pub(super) struct ShardRoom {
    room: Arc<HeldAtShard>,
    bytes: usize,
}

impl ShardQueue {
    /// Creates the account of one of `shard_count` shards.
    pub(super) fn new(shard_count: usize) -> Self {
        Self { room: Arc::default(), is_only: shard_count == 1 }
    }

    /// Takes room at a shard for a request with room in the queue; `None` at the deadline. An idle
    /// shard takes a request of any size.
    pub(super) async fn take(
        &self,
        request: &QueueRoom,
        bytes: usize,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Option<ShardRoom> {
        let HeldAtShard { bytes: all, waiters } = &*self.room;
        let queued = request.sender.queued().load(Ordering::Relaxed);
        if queued <= request.queue.share.left() / LITTLE_PART {
            all.fetch_add(bytes, Ordering::Relaxed);
            return Some(ShardRoom { room: Arc::clone(&self.room), bytes });
        }
        let is_taken = || {
            let before = all.fetch_add(bytes, Ordering::Relaxed);
            let most = request.queue.share.left().saturating_mul(SHARD_TIMES);
            let fits = self.is_only || before == 0 || before + bytes <= most;
            if !fits {
                all.fetch_sub(bytes, Ordering::Relaxed);
            }
            fits
        };
        if !waiters.is_empty() || !is_taken() {
            let asked = RoomRequest { sender: &request.sender, held: queued, amount: bytes };
            waiters.wait(asked, deadline, waits, is_taken).await.then_some(())?;
        }
        Some(ShardRoom { room: Arc::clone(&self.room), bytes })
    }
}

impl ShardRoom {
    /// Returns the bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ShardRoom {
    fn drop(&mut self) {
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.room.waiters.wake();
    }
}

readings! {
    const QUEUE: (Arc<MemoryQuota>, Arc<Backlog>) {
        gauge("spanscore.pipeline.queue_size", "By", "Requests that wait to be assembled.",
            |(queue, _)| queue.held() as u64);
        gauge("spanscore.pipeline.queue_capacity", "By",
            "Room for requests that wait to be assembled.", |(queue, _)| queue.limit() as u64);
        gauge("spanscore.pipeline.queued_spans", "{span}", "Spans that wait to be assembled.",
            |(_, backlog)| backlog.queued_spans());
    }
}

/// Shows the size and capacity of the queue, and its spans.
pub(super) fn show_queue(meter: &Meter, queue: &Arc<MemoryQuota>, backlog: &Arc<Backlog>) {
    let parts = (Arc::clone(queue), Arc::clone(backlog));
    Scraped::show_all(QUEUE, meter, move |see| see(&parts, &[]));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// Takes room on its own task.
    fn ask(
        queue: &Arc<RequestQueue>,
        sender: &Arc<ConnectionAccount>,
        bytes: usize,
    ) -> tokio::task::JoinHandle<Option<QueueRoom>> {
        let queue = Arc::clone(queue);
        let sender = Arc::clone(sender);
        tokio::spawn(async move { queue.take(&sender, bytes, Instant::now() + LONG, || {}).await })
    }

    #[tokio::test(start_paused = true)]
    async fn sender_with_little_in_the_queue_goes_before_a_flood_that_came_first() {
        let queue = RequestQueue::new(MemoryQuota::new("queue", 1000));
        let flood = Arc::default();
        let other = Arc::default();
        let quiet = Arc::default();
        let mut held = Vec::new();
        for (sender, bytes) in [(&flood, 700), (&other, 200)] {
            held.push(queue.take(sender, bytes, Instant::now(), || {}).await.unwrap());
        }
        let waiting = ask(&queue, &flood, 100);
        yield_now().await;
        let later = ask(&queue, &quiet, 90);
        yield_now().await;
        assert!(!waiting.is_finished() && !later.is_finished());
        drop(held.pop());
        let room = later.await.unwrap().expect("there is room for it");
        yield_now().await;
        assert!(!waiting.is_finished(), "the flood has four times what is left");
        drop(held);
        assert!(waiting.await.unwrap().is_some());
        drop(room);
        assert_eq!(queue.share().held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn request_larger_than_the_queue_leaves_some_of_it_to_others() {
        let queue = RequestQueue::new(MemoryQuota::new("queue", 1000));
        let large = queue.take(&Arc::default(), 5000, Instant::now(), || {}).await;
        assert!(large.is_some() && queue.share().held() == 800);
        assert!(queue.take(&Arc::default(), 100, Instant::now(), || {}).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_new_senders_leaves_room_for_small_requests() {
        let queue = RequestQueue::new(MemoryQuota::new("queue", 10_000));
        let mut held = Vec::new();
        while let Some(room) = queue.take(&Arc::default(), 400, Instant::now(), || {}).await {
            held.push(room);
        }
        assert_eq!(queue.share().left(), 400);
        let quiet = Arc::default();
        for _ in 0..10 {
            held.push(queue.take(&quiet, 10, Instant::now(), || {}).await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sender_with_little_in_the_queue_waits_for_no_shard_that_floods_hold_up() {
        let queue = RequestQueue::new(MemoryQuota::new("queue", 10_000));
        let shards = [ShardQueue::new(2), ShardQueue::new(2)];
        let mut held = Vec::new();
        for bytes in [7_000, 2_000] {
            let room = queue.take(&Arc::default(), bytes, Instant::now(), || {}).await;
            let room = Arc::new(room.unwrap());
            for shard in &shards {
                let part = shard.take(&room, bytes / 2, Instant::now(), || {}).await;
                held.push((Arc::clone(&room), part));
            }
        }
        let quiet = Arc::default();
        let room = Arc::new(queue.take(&quiet, 50, Instant::now(), || {}).await.unwrap());
        for shard in &shards {
            assert!(shard.take(&room, 50, Instant::now(), || {}).await.is_some());
        }
        // Its next request takes it past the half.
        let more = Arc::new(queue.take(&quiet, 400, Instant::now(), || {}).await.unwrap());
        assert!(shards[0].take(&more, 400, Instant::now(), || {}).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn room_at_a_shard_is_waited_for_without_looking() {
        let queue = RequestQueue::new(MemoryQuota::new("queue", 1000));
        let shard = Arc::new(ShardQueue::new(2));
        let sender = Arc::default();
        let room = Arc::new(queue.take(&sender, 500, Instant::now(), || {}).await.unwrap());
        let first = shard.take(&room, 1900, Instant::now(), || {}).await;
        let own = Arc::clone(&shard);
        let its = Arc::clone(&room);
        let waiting = tokio::spawn(async move {
            own.take(&its, 200, Instant::now() + LONG, || {}).await.is_some()
        });
        yield_now().await;
        let started = Instant::now();
        drop(first);
        assert!(waiting.await.unwrap());
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
