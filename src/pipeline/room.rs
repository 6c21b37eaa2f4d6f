//! Room for the requests that wait for their shards.
//!
//! A request takes as much of the queue as its records do, and gives it back when the last of its
//! shards is done with it. Nobody may have nearly all of it: neither one connection, whose flood
//! would keep others out, nor one shard that is held up. Who finds none waits in the order of
//! [`Waiters`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::metrics::Meter;
use tokio::time::Instant;

use super::backlog::Backlog;
use crate::model::Share;
use crate::receive::{AskedRoom, Sender, Waiters};

/// A shard that is held up may have so many times what is left of the queue.
const SHARD_TIMES: usize = 4;

/// A large request leaves this part of the queue to small ones.
const LEFT_PART: usize = 10;

/// A sender that has no more than this part of what is left of the queue waits for no shard: by its
/// requests alone none could get nearly all of it, and some dozens of them would leave a twentieth.
const LITTLE_PART: usize = 2;

/// The queue of all shards, by bytes.
pub(super) struct RequestQueue {
    share: Arc<Share>,
    waiters: Waiters,
}

/// The room that a request takes.
pub(super) struct QueueRoom {
    queue: Arc<RequestQueue>,
    sender: Arc<Sender>,
    bytes: usize,
}

impl RequestQueue {
    /// Of this share.
    pub(super) fn new(share: Arc<Share>) -> Arc<Self> {
        Arc::new(Self { share, waiters: Waiters::default() })
    }

    /// The bytes that it holds and may hold.
    pub(super) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Takes room, after waiting for it if there is none; `None` at the deadline, and where enough
    /// of this sender waits. `waits` is called once where it has to wait. No request takes more
    /// than a sender may have, however large it is: some is left for others.
    pub(super) async fn take(
        self: &Arc<Self>,
        sender: &Arc<Sender>,
        bytes: usize,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Option<QueueRoom> {
        let bytes = bytes.min(self.share.largest());
        let is_taken = || self.try_take(sender, bytes);
        if !self.waiters.is_empty() || !is_taken() {
            let _waiting = sender.wait()?;
            let held = sender.queued().load(Ordering::Relaxed);
            let asked = AskedRoom { sender, held, amount: bytes };
            let is_there = self.waiters.wait(asked, deadline, waits, is_taken).await;
            is_there.then_some(())?;
        }
        Some(QueueRoom { queue: Arc::clone(self), sender: Arc::clone(sender), bytes })
    }
}

impl RequestQueue {
    /// Takes room if there is some and as much is left behind it, or a tenth of the queue: whoever
    /// has nothing may take all there is of a share, and a flood that opens a connection for each
    /// request has nothing each time.
    fn try_take(&self, sender: &Sender, bytes: usize) -> bool {
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
    /// Who has it, as a number that nobody else is while it is held.
    pub(super) fn holder(&self) -> usize {
        Arc::as_ptr(&self.sender).addr()
    }

    /// Makes it as large as what it is for, which is there already.
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

/// What one shard has in the queue.
pub(super) struct ShardQueue {
    room: Arc<HeldAtShard>,
    /// There is no other shard to leave room for.
    is_only: bool,
}

#[derive(Default)]
struct HeldAtShard {
    bytes: AtomicUsize,
    waiters: Waiters,
}

/// The part of a request that is for one shard.
pub(super) struct ShardRoom {
    room: Arc<HeldAtShard>,
    bytes: usize,
}

impl ShardQueue {
    /// Of one of so many shards.
    pub(super) fn new(shard_count: usize) -> Self {
        Self { room: Arc::default(), is_only: shard_count == 1 }
    }

    /// Takes room at a shard for what has room in the queue; `None` at the deadline. A shard that
    /// has nothing takes whatever comes.
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
            let asked = AskedRoom { sender: &request.sender, held: queued, amount: bytes };
            waiters.wait(asked, deadline, waits, is_taken).await.then_some(())?;
        }
        Some(ShardRoom { room: Arc::clone(&self.room), bytes })
    }
}

impl ShardRoom {
    /// How much it is.
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

/// Shows how full the queue of requests is whenever metrics are read.
pub(super) fn show_queue(meter: &Meter, queue: &Arc<Share>, backlog: &Arc<Backlog>) {
    let held = Arc::clone(queue);
    let capacity = queue.limit() as u64;
    meter
        .u64_observable_gauge("spanscore.pipeline.queue_size")
        .with_description("Requests that wait to be assembled.")
        .with_unit("By")
        .with_callback(move |size| size.observe(held.held() as u64, &[]))
        .build();
    meter
        .u64_observable_gauge("spanscore.pipeline.queue_capacity")
        .with_description("Room for requests that wait to be assembled.")
        .with_unit("By")
        .with_callback(move |room| room.observe(capacity, &[]))
        .build();
    let backlog = Arc::clone(backlog);
    meter
        .u64_observable_gauge("spanscore.pipeline.queued_spans")
        .with_description("Spans that wait to be assembled.")
        .with_unit("{span}")
        .with_callback(move |spans| spans.observe(backlog.queued_spans(), &[]))
        .build();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::yield_now;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// Takes room on a task of its own.
    fn ask(
        queue: &Arc<RequestQueue>,
        sender: &Arc<Sender>,
        bytes: usize,
    ) -> tokio::task::JoinHandle<Option<QueueRoom>> {
        let queue = Arc::clone(queue);
        let sender = Arc::clone(sender);
        tokio::spawn(async move { queue.take(&sender, bytes, Instant::now() + LONG, || {}).await })
    }

    #[tokio::test(start_paused = true)]
    async fn sender_with_little_in_the_queue_goes_before_a_flood_that_came_first() {
        let queue = RequestQueue::new(Share::new("queue", 1000));
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
        let queue = RequestQueue::new(Share::new("queue", 1000));
        let large = queue.take(&Arc::default(), 5000, Instant::now(), || {}).await;
        assert!(large.is_some() && queue.share().held() == 800);
        assert!(queue.take(&Arc::default(), 100, Instant::now(), || {}).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_new_senders_leaves_room_for_small_requests() {
        let queue = RequestQueue::new(Share::new("queue", 10_000));
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
        let queue = RequestQueue::new(Share::new("queue", 10_000));
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
        // Its next one makes it one that has more than little.
        let more = Arc::new(queue.take(&quiet, 400, Instant::now(), || {}).await.unwrap());
        assert!(shards[0].take(&more, 400, Instant::now(), || {}).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn room_at_a_shard_is_waited_for_without_looking() {
        let queue = RequestQueue::new(Share::new("queue", 1000));
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
