//! Room for the requests that wait for their shards.
//!
//! A request takes as much of the queue as its records do, and gives it back when the last of its
//! shards is done with it. Nobody may have nearly all of it: neither one connection, whose flood
//! would keep others out, nor one shard that is held up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::metrics::Meter;
use tokio::time::Instant;

use super::backlog::Backlog;
use crate::model::Share;
use crate::receive::Sender;

/// How often whoever waits for room looks again.
const LOOK: Duration = Duration::from_millis(5);
/// A shard that is held up may have so many times what is left of the queue.
const SHARD_TIMES: usize = 4;

/// The room that a request takes.
pub(super) struct QueueRoom {
    share: Arc<Share>,
    sender: Arc<Sender>,
    bytes: usize,
}

impl QueueRoom {
    /// Takes room, after waiting for it if there is none; `None` at the deadline, and where enough
    /// of this sender waits. `waits` is called once where it has to wait.
    pub(super) async fn take(
        share: &Arc<Share>,
        sender: &Arc<Sender>,
        bytes: usize,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Option<Self> {
        let bytes = bytes.min(share.limit());
        let is_taken = || share.try_take_for(sender.queued(), bytes);
        if !is_taken() {
            let _waiting = sender.wait()?;
            waits();
            look_until(deadline, is_taken).await?;
        }
        Some(Self { share: Arc::clone(share), sender: Arc::clone(sender), bytes })
    }

    /// Makes it as large as what it is for, which is there already.
    pub(super) fn grow(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.share.take(more);
        self.sender.queued().fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        self.share.give_back_for(self.sender.queued(), self.bytes);
    }
}

/// What one shard has in the queue.
pub(super) struct ShardQueue {
    held: Arc<AtomicUsize>,
    /// There is no other shard to leave room for.
    is_only: bool,
}

/// The part of a request that is for one shard.
pub(super) struct ShardRoom {
    queue: Arc<AtomicUsize>,
    bytes: usize,
}

impl ShardQueue {
    /// Of one of so many shards.
    pub(super) fn new(shard_count: usize) -> Self {
        Self { held: Arc::default(), is_only: shard_count == 1 }
    }

    /// Takes room at a shard for what has room in the queue; `None` at the deadline. A shard that
    /// has nothing takes whatever comes.
    pub(super) async fn take(
        &self,
        share: &Share,
        bytes: usize,
        deadline: Instant,
        waits: impl FnOnce(),
    ) -> Option<ShardRoom> {
        let is_taken = || {
            let before = self.held.fetch_add(bytes, Ordering::Relaxed);
            let most = share.left().saturating_mul(SHARD_TIMES);
            let fits = self.is_only || before == 0 || before + bytes <= most;
            if !fits {
                self.held.fetch_sub(bytes, Ordering::Relaxed);
            }
            fits
        };
        if !is_taken() {
            waits();
            look_until(deadline, is_taken).await?;
        }
        Some(ShardRoom { queue: Arc::clone(&self.held), bytes })
    }
}

impl Drop for ShardRoom {
    fn drop(&mut self) {
        self.queue.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Looks again and again; `None` once the deadline has passed.
async fn look_until(deadline: Instant, is_there: impl Fn() -> bool) -> Option<()> {
    loop {
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep_until(deadline.min(Instant::now() + LOOK)).await;
        if is_there() {
            return Some(());
        }
    }
}

/// Shows how full the queue of requests is whenever metrics are read.
pub(super) fn show_queue(meter: &Meter, queue: &Arc<Share>, backlog: &Arc<Backlog>) {
    let (held, capacity) = (Arc::clone(queue), queue.limit() as u64);
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
