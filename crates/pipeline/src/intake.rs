//! Intake of requests: admission, extraction, log, hand-over to the shards' queues.
//!
//! ```text
//! start ── empty log, or none ──► Live
//!   │                               ▲
//!   └─► Restoring ── resume ────────┘
//!           └────── fault ──► Lost: refuses
//! any ── shutdown ──► Closed: refuses
//! ```
//!
//! During a restore, requests are only logged and acknowledged; the restore reads them from the log
//! in order. So shards see only the log's order, and an early request cannot overtake older spans
//! of its trace.

pub(super) mod collecting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::metrics::Meter;
use parking_lot::RwLock;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock as AsyncRwLock, RwLockReadGuard, mpsc};
use tokio::time::{Instant, timeout_at};

use super::backlog::Backlog;
use super::extraction::{Extraction, TableBatches, UnreadRequest};
use super::journal::{EarlierVerdicts, Journal};
use super::metrics::PipelineMetrics;
use super::reload::setup::ConfigUpdate;
use super::request_queue::{QueueRoom, RequestQueue, ShardQueue, show_queue};
use super::worker::{ShardMessage, WorkerContext};
use super::{QUEUED_REQUESTS_MAX, RETRY_AFTER};
use spanscore_base::model::{Claim, Claims, MemoryQuota, Sender, SpanBatch, shard_of};
use spanscore_base::otlp::Signal;
use spanscore_emit::forward::{Forwards, Passing};
use spanscore_extract::Extracted;
use spanscore_kafka::RecordClaims;
use spanscore_log::AppendError;
use spanscore_receive::{Accepted, ConnectionAccount, Intake, Lack, ROOM_WAIT, Received, Refused};

/// Entry point for receivers.
pub struct PipelineIntake {
    extraction: Extraction,
    shards: Vec<(mpsc::Sender<ShardMessage>, ShardQueue)>,
    /// Byte-bounded queue in front of the shards.
    queue: Arc<RequestQueue>,
    state: RwLock<IntakeState>,
    /// True if a request arrived since the last call of `rest`.
    is_used: AtomicBool,
    metrics: Arc<PipelineMetrics>,
    backlog: Arc<Backlog>,
    /// Log that stores requests before they are acknowledged.
    journal: Option<Arc<Journal>>,
    /// Read-locked by each request during the restore, write-locked to end it.
    gate: Arc<AsyncRwLock<()>>,
    forwards: Arc<Forwards>,
    /// Account of restored requests; a single one preserves their order in the fair queues.
    restorer: Arc<ConnectionAccount>,
}

/// Longest wait of a request for the log.
const LOG_WAIT: Duration = Duration::from_secs(5);
/// Wait of a restored request for room before it counts as refused and is retried.
const RESTORE_WAIT: Duration = Duration::from_secs(600);

/// State of the intake, which determines the handling of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntakeState {
    /// An earlier process is being restored: requests are only logged.
    Restoring,
    /// No restore is needed, or it is complete: requests go to the shards.
    Live,
    /// The restore failed: logged requests would never be read.
    Lost,
    /// Final state, at shutdown.
    Closed,
}

/// Origin of a request.
enum RequestOrigin<'a> {
    /// Sender that waits for an answer.
    Sender(&'a Received),
    /// Log record, with its arrival on the clock of the shards.
    Log { claim: Claim, at_ms: u64, sender: Sender },
    /// Record of a topic, which serves as its log.
    Topic { claims: RecordClaims, sender: Sender },
}

impl PipelineIntake {
    /// Builds the intake. With a log the shards receive nothing before [`resume`](Self::resume).
    pub(super) fn new(
        context: &WorkerContext,
        shards: Vec<mpsc::Sender<ShardMessage>>,
        queue: &Arc<MemoryQuota>,
        meter: &Meter,
    ) -> Self {
        show_queue(meter, queue, &context.backlog);
        let journal = context.journal.clone();
        let table = Arc::clone(context.setup.resolver.table());
        let pool = Arc::clone(&context.pool);
        let state = journal.as_ref().map_or(IntakeState::Live, |_| IntakeState::Restoring);
        let shard_count = shards.len();
        let with_queue = |shard| (shard, ShardQueue::new(shard_count));
        Self {
            extraction: Extraction::new(table, pool, shard_count),
            shards: shards.into_iter().map(with_queue).collect(),
            queue: RequestQueue::new(Arc::clone(queue)),
            state: RwLock::new(state),
            is_used: AtomicBool::new(false),
            metrics: Arc::clone(&context.metrics),
            backlog: Arc::clone(&context.backlog),
            journal,
            gate: Arc::default(),
            forwards: Arc::clone(&context.forwards),
            restorer: Arc::default(),
        }
    }

    fn state(&self) -> IntakeState {
        *self.state.read()
    }

    /// Changes the state, unless it is final.
    fn enter(&self, next: IntakeState) {
        let mut state = self.state.write();
        if *state != IntakeState::Closed {
            *state = next;
        }
    }

    /// Refuses from now on, and sends each shard a last message.
    pub(super) async fn close(&self, last: ShardMessage) {
        self.enter(IntakeState::Closed);
        self.tell_all(|| last.clone()).await;
    }

    /// Frees caches if no request arrived since the last call: small live allocations may pin large
    /// free spans of memory.
    pub(super) fn rest(&self) {
        if !self.is_used.swap(false, Ordering::Relaxed) {
            self.extraction.rest();
            spanscore_detect::forget();
        }
    }

    /// Waits for room for a request; refuses at the deadline. The minimum charge is the queue's
    /// limit divided by the places of a shard's channel, so that bytes run out before places.
    async fn room_for(
        &self,
        bytes: usize,
        sender: &Arc<ConnectionAccount>,
        deadline: Instant,
    ) -> Result<QueueRoom, Refused> {
        let bytes = bytes.max(self.queue.share().limit() / QUEUED_REQUESTS_MAX);
        let waits = || self.metrics.stages.waits.add("queue", 1);
        let room = self.queue.take(sender, bytes, deadline, waits).await;
        room.ok_or_else(|| self.overloaded("queue_full"))
    }

    async fn tell_all(&self, message: impl Fn() -> ShardMessage) {
        for (shard, _) in &self.shards {
            // Fails only if the shard has ended.
            let _ = shard.send(message()).await;
        }
    }

    fn overloaded(&self, reason: &'static str) -> Refused {
        self.metrics.stages.refused.add(reason, 1);
        Refused::Later { lack: Lack::Room, retry_after: RETRY_AFTER }
    }

    fn not_kept(&self, reason: &'static str, why: &'static str) -> Refused {
        self.metrics.stages.refused.add(reason, 1);
        Refused::Later { lack: Lack::Log(why), retry_after: RETRY_AFTER }
    }

    /// Sends a config update to the shards, then extracts with its table. Requests extracted
    /// meanwhile arrive after the message with the old table.
    pub(super) async fn update(&self, update: Arc<ConfigUpdate>) {
        self.tell_all(|| ShardMessage::ConfigUpdate(Arc::clone(&update))).await;
        self.extraction.set_table(Arc::clone(update.setup.table()));
    }

    /// Hands each shard its batch, or none to any: a refused request is retried, and must not be
    /// judged in part. The room is released when the last shard has taken its batch.
    async fn hand_over(
        &self,
        (batches, table): TableBatches,
        mut room: QueueRoom,
        deadline: Instant,
        origin: RequestOrigin<'_>,
    ) -> Result<Option<Claim>, Refused> {
        let filled = batches.iter().filter(|batch| !batch.spans.is_empty());
        let copied = match &origin {
            RequestOrigin::Sender(received) if self.journal.is_some() => received.copied_bytes(),
            _ => 0,
        };
        room.grow(filled.map(SpanBatch::bytes).sum::<usize>() + copied);
        let room = Arc::new(room);
        let mut places = Vec::with_capacity(self.shards.len());
        for ((shard, queue), batch) in self.shards.iter().zip(batches) {
            if batch.spans.is_empty() {
                self.extraction.pool().give_back(batch);
                continue;
            }
            let waits = || self.metrics.stages.waits.add("shard", 1);
            let own = queue.take(&room, batch.bytes(), deadline, waits).await;
            let own = own.ok_or_else(|| self.overloaded("shard_full"))?;
            // Places at all shards are reserved before any message is sent, which makes it all or
            // nothing. A shard does not end while a place in its channel is reserved.
            let place = match timeout_at(deadline, shard.reserve()).await {
                Ok(place) => place.map_err(|_| Refused::ShuttingDown)?,
                Err(_) => return Err(self.overloaded("shard_full")),
            };
            places.push((place, batch, own));
        }
        let mut by_trace = None;
        let (claim, at_ms, sender) = match origin {
            RequestOrigin::Sender(received)
                if !places.is_empty() || self.forwards.wants(received.signal) =>
            {
                (self.keep(received).await?, None, received.sender)
            }
            RequestOrigin::Sender(received) => (None, None, received.sender),
            RequestOrigin::Log { claim, at_ms, sender } => (Some(claim), Some(at_ms), sender),
            RequestOrigin::Topic { claims: RecordClaims::One(claim), sender } => {
                (Some(claim), None, sender)
            }
            RequestOrigin::Topic { claims: RecordClaims::ByTrace(claims), sender } => {
                by_trace = Some(claims);
                (None, None, sender)
            }
        };
        let claims = claim.clone().map(Claims::from).unwrap_or_default();
        for (place, mut batch, own) in places {
            self.backlog.queue(batch.spans.len(), batch.is_of_spans());
            batch.claims = claims.clone();
            batch.claims_by_trace.clone_from(&by_trace);
            batch.sender = sender;
            let room = Arc::new((own, Arc::clone(&room)));
            let batch = Arc::new(batch);
            let table = Arc::clone(&table);
            place.send(ShardMessage::Batch { batch, table, at_ms, room });
        }
        Ok(claim)
    }

    /// Offers a request to the forwards.
    fn pass_on(&self, received: &Received, extracted: &Extracted, claim: Option<&Claim>) {
        let Received { signal, request, raw, sender, .. } = received;
        if self.forwards.wants(*signal) {
            let items = extracted.accepted + extracted.rejected_total();
            let passing = Passing { signal: *signal, request, raw, items, sender: *sender };
            self.forwards.offer(&passing, claim);
        }
    }

    /// Logs a request, if there is a log; returns a claim on its position.
    async fn keep(&self, received: &Received) -> Result<Option<Claim>, Refused> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let keeping = tokio::time::timeout(LOG_WAIT, journal.keep(received));
        // It may still be written, and so be repeated: shards drop duplicate spans.
        let kept = keeping.await.unwrap_or(Err(AppendError::Behind));
        kept.map(Some).map_err(|error| match error {
            AppendError::Full => self.not_kept("log_full", "the log is full"),
            AppendError::Share => {
                let why = "the log is nearly full, and you have your part of it: come again, or \
                           see log.size_max_mib";
                self.not_kept("log_share", why)
            }
            AppendError::Behind => self.not_kept("log_behind", "the disk does not keep up"),
            AppendError::Failed | AppendError::Closed => {
                self.not_kept("log_failed", "the log cannot be written")
            }
            AppendError::TooLarge => Refused::Malformed(error.to_string()),
        })
    }

    /// Waits for a place in the order during a restore; `None` without one. Refuses at the
    /// deadline: the exclusive last step is short unless shards are delayed.
    async fn restoring(
        &self,
        deadline: Instant,
    ) -> Result<Option<RwLockReadGuard<'_, ()>>, Refused> {
        if !self.is_restoring()? {
            return Ok(None);
        }
        let restoring = timeout_at(deadline, self.gate.read()).await;
        let restoring = restoring.map_err(|_| self.overloaded("restoring"))?;
        // The holder of the gate may have ended the restore.
        Ok(self.is_restoring()?.then_some(restoring))
    }

    /// Returns true if requests are only logged; refuses in a state that accepts none.
    fn is_restoring(&self) -> Result<bool, Refused> {
        match self.state() {
            IntakeState::Restoring => Ok(true),
            IntakeState::Live => Ok(false),
            IntakeState::Lost => {
                let why = "what an earlier process left cannot be read";
                Err(self.not_kept("restore_failed", why))
            }
            IntakeState::Closed => Err(Refused::ShuttingDown),
        }
    }

    /// Accepts a request of a topic, which is in no log of this process.
    ///
    /// # Errors
    /// No part of it was accepted.
    pub(super) async fn accept_of_topic(
        &self,
        received: &Received,
        claims: RecordClaims,
        sender: &Arc<ConnectionAccount>,
    ) -> Result<Extracted, Refused> {
        let deadline = Instant::now() + ROOM_WAIT;
        if self.is_restoring()? {
            return Err(self.overloaded("restoring"));
        }
        self.is_used.store(true, Ordering::Relaxed);
        let room = self.room_for(received.request.len(), sender, deadline).await?;
        let (batches, extracted) = self.read(received.signal, &received.request, deadline).await?;
        let origin = RequestOrigin::Topic { claims, sender: received.sender };
        self.hand_over(batches, room, deadline, origin).await?;
        self.metrics.extracted(&extracted);
        self.pass_on(received, &extracted, None);
        Ok(extracted)
    }

    /// Makes each shard drop the traces of partitions owned by others.
    pub(super) async fn drop_revoked(&self) {
        self.tell_all(|| ShardMessage::DropRevoked).await;
    }

    /// Sends each shard the earlier verdicts on its traces.
    pub(super) async fn begin_restoring(&self, priors: EarlierVerdicts) {
        let count = self.shards.len();
        let mut parts: Vec<EarlierVerdicts> =
            self.shards.iter().map(|_| EarlierVerdicts::default()).collect();
        for (trace_id, prior) in priors {
            if let Some(part) = parts.get_mut(shard_of(trace_id, count)) {
                part.insert(trace_id, prior);
            }
        }
        for ((shard, _), priors) in self.shards.iter().zip(parts) {
            // Fails only if the shard has ended.
            let _ = shard.send(ShardMessage::Restore { priors: Arc::new(priors) }).await;
        }
    }

    /// Hands a logged request to the shards when they have room. One of an earlier process
    /// (`is_old`) also goes to the forwards, which know what they have forwarded.
    ///
    /// # Errors
    /// The request is unreadable.
    pub(super) async fn restore(
        &self,
        kept: &Received,
        claim: Claim,
        at_ms: u64,
        is_old: bool,
    ) -> Result<(), String> {
        loop {
            let origin = RequestOrigin::Log { claim: claim.clone(), at_ms, sender: kept.sender };
            match self.restore_in_time(kept, Instant::now() + RESTORE_WAIT, origin).await {
                Ok(extracted) => {
                    if is_old {
                        if kept.signal == Signal::Traces {
                            self.metrics.stages.recovered.add(extracted.records);
                        }
                        self.pass_on(kept, &extracted, Some(&claim));
                    }
                    return Ok(());
                }
                Err(Refused::Later { .. }) => {}
                Err(Refused::Malformed(error)) => return Err(error),
                // The record stays in the log for the next process.
                Err(Refused::ShuttingDown) => return Ok(()),
            }
        }
    }

    async fn restore_in_time(
        &self,
        kept: &Received,
        deadline: Instant,
        origin: RequestOrigin<'_>,
    ) -> Result<Extracted, Refused> {
        let room = self.room_for(kept.request.len(), &self.restorer, deadline).await?;
        let (batches, extracted) = self.read(kept.signal, &kept.request, deadline).await?;
        self.hand_over(batches, room, deadline, origin).await?;
        Ok(extracted)
    }

    /// Blocks new requests until [`resume`](Self::resume).
    pub(super) async fn hold_requests(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }

    /// Refuses from now on, since logged requests would never be read.
    pub(super) fn give_up_restoring(&self) {
        self.enter(IntakeState::Lost);
    }

    /// Ends the restore: sets the shards' clocks and admits requests.
    pub(super) async fn resume(&self, now_ms: u64, gate: OwnedRwLockWriteGuard<()>) {
        self.tell_all(|| ShardMessage::Resume { now_ms }).await;
        self.go_live();
        drop(gate);
    }

    /// Hands requests to the shards on arrival.
    pub(super) fn go_live(&self) {
        self.forwards.replayed();
        self.enter(IntakeState::Live);
    }

    /// Extracts the records of a request, by shard.
    async fn read(
        &self,
        signal: Signal,
        request: &Bytes,
        deadline: Instant,
    ) -> Result<(TableBatches, Extracted), Refused> {
        let waits = || self.metrics.stages.waits.add("reading", 1);
        let read = self.extraction.read(signal, request, deadline, waits).await;
        read.map_err(|unread| match unread {
            UnreadRequest::Broken(error) => Refused::Malformed(error.to_string()),
            UnreadRequest::Crowded => self.overloaded("reading_full"),
            UnreadRequest::Ending => Refused::ShuttingDown,
        })
    }
}

impl Intake for PipelineIntake {
    async fn accept_by(
        &self,
        received: Received,
        sender: &Arc<ConnectionAccount>,
        deadline: Instant,
    ) -> Result<Accepted, Refused> {
        let restoring = self.restoring(deadline).await?;
        self.is_used.store(true, Ordering::Relaxed);
        let room = self.room_for(received.request.len(), sender, deadline).await?;
        let (batches, extracted) = self.read(received.signal, &received.request, deadline).await?;
        let claim = if restoring.is_some() {
            let pool = self.extraction.pool();
            batches.0.into_iter().for_each(|batch| pool.give_back(batch));
            self.keep(&received).await?
        } else {
            self.hand_over(batches, room, deadline, RequestOrigin::Sender(&received)).await?
        };
        self.metrics.extracted(&extracted);
        self.pass_on(&received, &extracted, claim.as_ref());
        Ok(Accepted {
            accepted: extracted.accepted,
            rejected: extracted.rejected_total(),
            message: extracted.message(),
        })
    }
}

#[cfg(test)]
mod tests;
