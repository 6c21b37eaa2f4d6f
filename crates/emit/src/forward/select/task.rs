//! Task of tail sampling: holds requests until their traces are decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::decisions::DECISION_BYTES;
use super::holding::{HELD_TRACE_BYTES, HoldLimits, Holding, ReleasedItems, ReleasedRequest};
use super::split::{ItemsByTrace, items_by_trace};
use crate::counters::Loss;
use crate::forward::memory::BodyRoom;
use crate::forward::parcel::KeptBody;
use crate::forward::progress::{LogPlace, ReadBack};
use crate::forward::queue::ForwardQueue;
use crate::forward::send::protobuf;
use crate::forward::{HoldTimes, Passing};
use spanscore_base::model::{Sender, TraceId};
use spanscore_base::otlp::Signal;

/// Interval of releases of chosen traces.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Allowance for judging after the longest time that a trace stays open.
const JUDGING_TIME: Duration = Duration::from_secs(60);
/// Limit on queued verdicts; more are lost, and their traces stay undecided.
const JUDGED_MAX: usize = 1 << 20;
/// Divisor of the forward's memory that gives the limit on remembered decisions' memory.
const DECISIONS_SHARE: usize = 8;
/// Size above which requests are parsed off the network threads, bytes.
const READ_IN_PLACE_BYTES_MAX: usize = 256 << 10;

/// Verdict on a trace, the input of tail sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedTrace {
    /// Judged trace.
    pub trace_id: TraceId,
    /// Sender of the trace.
    pub sender: Sender,
    /// True if it has any agent data.
    pub is_agent: bool,
    /// True if it has an evaluation labelled `fail`.
    pub has_fail: bool,
}

enum SamplerInput {
    ArrivedRequest(ArrivedRequest),
    Judged(TraceId, Sender, bool),
    /// Sets the times for holding and remembering.
    Limit(HoldLimits),
    /// Ends the task after the last held request; nothing more is offered.
    Finish,
    /// Releases everything and ends the task.
    End,
}

/// Offered request.
struct ArrivedRequest {
    signal: Signal,
    sender: Sender,
    /// Uncompressed protobuf; `None` if only the log has it.
    request: Option<Bytes>,
    items: u64,
    room: Arc<BodyRoom>,
    place: Option<LogPlace>,
}

/// Handle of the sampling task.
pub(in crate::forward) struct TraceSampler {
    told: mpsc::UnboundedSender<SamplerInput>,
    queue: Arc<ForwardQueue>,
    only_failed: bool,
    judged: Arc<AtomicUsize>,
    log: Option<Arc<dyn ReadBack>>,
}

impl TraceSampler {
    /// Starts the task. Must be called in a Tokio runtime.
    pub(in crate::forward) fn start(
        queue: Arc<ForwardQueue>,
        only_failed: bool,
        times: HoldTimes,
        log: Option<Arc<dyn ReadBack>>,
    ) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let judged = Arc::new(AtomicUsize::new(0));
        let limits = hold_limits(&queue, times);
        let keeper = HoldingTask {
            holding: Holding::new(limits),
            queue: Arc::clone(&queue),
            judged: Arc::clone(&judged),
            decisions: None,
            is_finishing: false,
            log: log.clone(),
        };
        let task = tokio::spawn(keeper.run(receiver));
        (Self { told: sender, queue, only_failed, judged, log }, task)
    }

    /// Offers a request, or drops and counts it without memory. Never waits.
    pub(in crate::forward) fn offer(&self, passing: &Passing<'_>, place: Option<LogPlace>) {
        let Passing { signal, request, items, sender, .. } = *passing;
        let memory = &self.queue.memory;
        let has_log = place.is_some() && self.log.is_some();
        let room_of = |bytes, spares| memory.room_of(sender, bytes + HELD_TRACE_BYTES, spares);
        let (request, room) = match room_of(request.len(), has_log) {
            room @ Some(_) if passing.is_shared() => (Some(Bytes::copy_from_slice(request)), room),
            room @ Some(_) => (Some(request.clone()), room),
            None if has_log => (None, room_of(0, false)),
            None => (None, None),
        };
        let Some(room) = room else {
            return self.queue.drop_items(signal, Loss::HoldFull, items);
        };
        self.queue.counters().of(signal).held.add(0, items);
        let came = ArrivedRequest { signal, sender, request, items, room, place };
        let _ = self.told.send(SamplerInput::ArrivedRequest(came));
    }

    /// Reports a verdict. Never waits.
    pub(in crate::forward) fn judged(&self, judged: JudgedTrace) {
        if self.judged.fetch_add(1, Ordering::Relaxed) >= JUDGED_MAX {
            self.judged.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let is_chosen = if self.only_failed { judged.has_fail } else { judged.is_agent };
        let JudgedTrace { trace_id, sender, .. } = judged;
        let _ = self.told.send(SamplerInput::Judged(trace_id, sender, is_chosen));
    }

    /// Sets the times for holding and remembering to those of the shards.
    pub(in crate::forward) fn limit(&self, times: HoldTimes) {
        let _ = self.told.send(SamplerInput::Limit(hold_limits(&self.queue, times)));
    }

    /// Ends the task after the last held request is decided. No offer may follow.
    pub(in crate::forward) fn finish(&self) {
        let _ = self.told.send(SamplerInput::Finish);
    }

    /// Returns true if the task has ended.
    pub(in crate::forward) fn has_ended(&self) -> bool {
        self.told.is_closed()
    }

    /// Releases all held requests, and ends the task.
    pub(in crate::forward) fn end(&self) {
        let _ = self.told.send(SamplerInput::End);
    }
}

fn hold_limits(queue: &ForwardQueue, times: HoldTimes) -> HoldLimits {
    let largest = queue.memory.share.limit().min(queue.memory.bytes_max());
    HoldLimits {
        hold_ms: (times.open_max + JUDGING_TIME).as_millis() as u64,
        remember_ms: times.remember.as_millis() as u64,
        decisions_max: (largest / DECISIONS_SHARE / DECISION_BYTES).max(1),
    }
}

struct HoldingTask {
    holding: Holding,
    queue: Arc<ForwardQueue>,
    judged: Arc<AtomicUsize>,
    /// Memory of the remembered decisions, with their bytes.
    decisions: Option<(usize, Arc<BodyRoom>)>,
    /// True once no more requests come.
    is_finishing: bool,
    log: Option<Arc<dyn ReadBack>>,
}

impl HoldingTask {
    async fn run(mut self, mut told: mpsc::UnboundedReceiver<SamplerInput>) {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(FLUSH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let said = tokio::select! {
                said = told.recv() => said,
                _ = ticks.tick() => {
                    self.holding.tick(start.elapsed().as_millis() as u64);
                    self.charge_decisions();
                    self.hand_on();
                    if self.is_finishing && self.holding.is_empty() {
                        break;
                    }
                    continue;
                }
            };
            let now_ms = start.elapsed().as_millis() as u64;
            match said {
                Some(SamplerInput::ArrivedRequest(came)) => self.hold(came, now_ms).await,
                Some(SamplerInput::Judged(trace, sender, is_chosen)) => {
                    self.judged.fetch_sub(1, Ordering::Relaxed);
                    self.holding.decide((trace, sender), is_chosen, now_ms);
                }
                Some(SamplerInput::Limit(limits)) => self.holding.limit(limits),
                Some(SamplerInput::Finish) => self.is_finishing = true,
                Some(SamplerInput::End) | None => break,
            }
            self.hand_on();
        }
        self.holding.end(!self.queue.memory.is_removed());
        self.hand_on();
    }

    async fn hold(&mut self, came: ArrivedRequest, now_ms: u64) {
        let ArrivedRequest { signal, sender, request, items, room, place } = came;
        let Some((request, by_trace)) = self.read(signal, request, place.as_ref()).await else {
            self.queue.counters().of(signal).held.take(0, items);
            return self.queue.drop_items(signal, Loss::Unreadable, items);
        };
        let (by_trace, more_items) = fitted(by_trace, items);
        self.queue.counters().more_held(signal, more_items);
        let body = KeptBody { bytes: &request, coding: None, is_json: false, is_shared: false };
        let more = by_trace.traces.len().saturating_mul(HELD_TRACE_BYTES);
        // The kept body has a reservation of its own.
        drop(room);
        match self.queue.hold(sender, &body, place.is_some(), more) {
            Some(load) => self.holding.add((signal, sender), by_trace, load, place, now_ms),
            None => {
                self.queue.counters().of(signal).held.take(0, items + more_items);
                self.queue.drop_items(signal, Loss::HoldFull, items + more_items);
            }
        }
    }

    /// Returns a request and its items by trace; `None` if the log cannot be read.
    async fn read(
        &self,
        signal: Signal,
        request: Option<Bytes>,
        place: Option<&LogPlace>,
    ) -> Option<(Bytes, ItemsByTrace)> {
        match request {
            Some(request) if request.len() <= READ_IN_PLACE_BYTES_MAX => {
                let by_trace = items_by_trace(signal, &request);
                Some((request, by_trace))
            }
            Some(request) => blocking(move || Some(request), signal).await,
            None => {
                let log = Arc::clone(self.log.as_ref()?);
                let position = place?.position();
                let read = move || {
                    let (signal, raw) = log.read_back(position).ok()?;
                    protobuf(signal, &raw).ok()
                };
                blocking(read, signal).await
            }
        }
    }

    /// Counts the outcomes of held items, and queues the released requests.
    fn hand_on(&mut self) {
        let ReleasedItems { items, unchosen, undecided } =
            std::mem::take(&mut self.holding.released);
        let counters = Arc::clone(self.queue.counters());
        for signal in Signal::ALL {
            let at = signal as usize;
            counters.of(signal).held.take(0, items[at]);
            counters.of(signal).unchosen.add(0, unchosen[at]);
            counters.lost(signal, Loss::Undecided, 0, undecided[at]);
        }
        for part in std::mem::take(&mut self.holding.leaving) {
            let ReleasedRequest { signal, sender, items, bytes, load, place, wanted } = part;
            self.queue.push((sender, bytes), (signal, items), load, place, wanted);
        }
    }

    /// Reserves the memory of the remembered decisions.
    fn charge_decisions(&mut self) {
        let bytes = self.holding.decision_bytes();
        if self.decisions.as_ref().is_none_or(|(known, _)| *known != bytes) {
            self.decisions = None;
            self.decisions = Some((bytes, self.queue.memory.room_beyond(bytes)));
        }
    }
}

async fn blocking(
    read: impl FnOnce() -> Option<Bytes> + Send + 'static,
    signal: Signal,
) -> Option<(Bytes, ItemsByTrace)> {
    let reading = tokio::task::spawn_blocking(move || {
        let request = read()?;
        let by_trace = items_by_trace(signal, &request);
        Some((request, by_trace))
    });
    reading.await.ok().flatten()
}

/// Raises the items by trace to the number counted at arrival; returns also the number of
/// additional items.
fn fitted(mut found: ItemsByTrace, items: u64) -> (ItemsByTrace, u64) {
    let all = found.traces.values().sum::<u64>() + found.without;
    found.without += items.saturating_sub(all);
    (found, all.saturating_sub(items))
}
