//! Traces of partitions: dropped when others own the partition, and released at their maximum age.

use std::time::Duration;

use tokio::time::Instant;

use super::Worker;
use crate::panic_recovery::PanicRecovery;
use crate::sessions::SessionMessage;
use spanscore_assemble::Due;

/// Interval of checks for traces that hold their partition back.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Pause of a shard after which its process may have been stopped. The group may then have
/// reassigned its partitions without its knowledge.
const OVERSLEPT: Duration = Duration::from_secs(1);
/// Time without judgements after such a pause, while the client hears from the group.
const WAKING_TIME: Duration = Duration::from_secs(1);

/// Times of a shard's checks.
#[derive(Default)]
pub(crate) struct PartitionWatch {
    last_tick: Option<Instant>,
    wakes_until: Option<Instant>,
    last_look: Option<Instant>,
}

impl Worker {
    /// Returns true while the effect of a pause is unknown.
    pub(super) fn may_have_lost_partitions(&mut self) -> bool {
        if self.context.partitions.is_none() {
            return false;
        }
        let now = Instant::now();
        let last = self.watch.last_tick.replace(now);
        if last.is_some_and(|last| now.duration_since(last) > OVERSLEPT) {
            self.watch.wakes_until = Some(now + WAKING_TIME);
        }
        self.watch.wakes_until.is_some_and(|until| now < until)
    }

    /// Returns true if another process judges a trace.
    pub(super) fn is_revoked(&self, due: &Due) -> bool {
        self.shard.trace(due.handle).is_some_and(|trace| trace.claims.are_retired())
    }

    /// Drops the traces of partitions owned by others.
    pub(super) async fn drop_revoked(&mut self, due: &mut Vec<Due>) {
        let now_ms = self.clock.now_ms();
        let mut dropped = 0;
        self.guarded(now_ms, due, |own, _| dropped = own.shard.drop_revoked(now_ms));
        if let Some(partitions) = &self.context.partitions {
            partitions.dropped(self.index, dropped);
        }
        // One shard is enough to pass it on to the session worker.
        if let Some(sessions) = self.sessions.as_ref().filter(|_| self.index == 0) {
            // Never fails: the session worker ends after the shards.
            let _ = sessions.queue.send(SessionMessage::DropRevoked).await;
        }
    }

    /// Releases the records of traces beyond their maximum age, and shows the longest holder.
    pub(super) fn release_aged(&mut self) {
        let Some(partitions) = self.context.partitions.clone() else { return };
        let now = Instant::now();
        if self.watch.last_look.is_some_and(|last| now.duration_since(last) < LOOK_INTERVAL) {
            return;
        }
        self.watch.last_look = Some(now);
        let log = self.context.journal.as_ref().map(|journal| journal.log().source());
        let oldest = self.shard.release_aged(self.clock.now_ms(), log);
        partitions.held(self.index, oldest);
    }
}
