//! Long traces: those that exceed one slice of steps.
//!
//! A shard judges each trace within a slice. A longer one is judged from its start on a separate
//! thread, one at a time, in fair turns of the senders. So no trace delays others by more than a
//! slice, with any evaluator or library. Answers do not depend on it, since the attempt has no
//! effect.
//!
//! Requests of a sender with many waiting long traces stay in the inbox ([`LongTraces::holds`]).
//! Beyond the common limits, traces are judged on the shard.

use std::sync::Arc;

use hashbrown::HashMap;

use super::WorkerContext;
use super::asking::TraceAnswer;
use super::judgement::{JudgedTask, JudgingTask};
use crate::reading::reserve;
use crate::reload::setup::Setup;
use crate::worker::long_thread::{LongLink, LongThread, LongWork};
use spanscore_assemble::{Due, Handle, SessionKeyFields};
use spanscore_base::model::{
    Evaluation, FairQueue, Reported, Sender, SenderShares, TraceSpans, WorkBudget,
};
use spanscore_evaluate::AskedTarget;
use spanscore_net::clock::now_ns;

/// Steps of an attempt on the shard: about two milliseconds.
pub(crate) const ATTEMPT_STEPS: u64 = 1_000_000;
/// Limit on waiting long traces.
const WAITING_MAX: usize = 256;
/// Waiting long traces, or sessions, of one connection at which it is held up.
const HOLDING_MAX: usize = 4;
/// Waiting long traces, or sessions, of one peer at which each of its connections with one is held
/// up.
const PEER_HOLDING_MAX: usize = 64;

/// Returns true if a sender is held up, because many of its long traces or sessions wait. Records
/// of topics and files have no connection and come from many senders, so they are never held up.
pub(crate) fn holds_up(waiting: &SenderShares, sender: Sender) -> bool {
    let (peer, own) = waiting.held(sender);
    sender.connection != 0 && (own >= HOLDING_MAX || own > 0 && peer >= PEER_HOLDING_MAX)
}

/// Waiting long trace.
struct WaitingTrace {
    due: Due,
    sender: Sender,
    bytes: usize,
}

/// Long traces of a shard: the waiting ones, and the one being judged.
#[derive(Default)]
pub(crate) struct LongTraces {
    /// Channels to the thread; without them the shard judges traces.
    thread: Option<LongLink<LongTask>>,
    queue: FairQueue<Handle>,
    waiting: HashMap<Handle, WaitingTrace>,
    /// Bytes of all waiting ones and the one being judged, and their limit.
    bytes: usize,
    bytes_max: usize,
    running_bytes: usize,
    /// Number of waiting ones, by sender.
    by_sender: SenderShares,
    /// The trace being judged, with the number of earlier restarts of the shard.
    running: Option<(Due, u64)>,
    /// True while all traces are judged on the shard.
    pub(super) is_off: bool,
    /// True while a message waits for the end of all long traces.
    is_closed: bool,
}

impl LongTraces {
    /// Returns empty long traces with a limit in bytes, and the thread's side.
    pub(super) fn with_thread(bytes_max: usize) -> (Self, LongThread<LongTask>) {
        let (link, thread) = LongLink::with_thread();
        (Self { thread: Some(link), bytes_max, ..Self::default() }, thread)
    }

    /// Returns true if none waits or is being judged.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of waiting or judged ones.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.running.is_some())
    }

    /// Returns true if one more may wait.
    pub(super) fn has_room(&self) -> bool {
        let is_full = self.waiting.len() >= WAITING_MAX || self.bytes >= self.bytes_max;
        self.thread.is_some() && !self.is_off && !self.is_closed && !is_full
    }

    /// Returns true if a sender's requests are held up, because many of its traces wait.
    pub(super) fn holds(&self, sender: Sender) -> bool {
        holds_up(&self.by_sender, sender)
    }

    /// Returns true if a trace waits or is being judged: its next judgement follows that one.
    pub(super) fn has(&self, handle: Handle) -> bool {
        self.running.is_some_and(|(due, _)| due.handle == handle)
            || self.waiting.contains_key(&handle)
    }

    /// Adds a sender's trace; a waiting one keeps its place.
    pub(super) fn put(&mut self, due: Due, sender: Sender, bytes: usize) {
        self.bytes += bytes;
        let sender = self.waiting.get(&due.handle).map_or(sender, |before| before.sender);
        if let Some(before) = self.waiting.insert(due.handle, WaitingTrace { due, sender, bytes }) {
            self.bytes -= before.bytes;
            return;
        }
        self.by_sender.add(sender, 1);
        self.queue.put(sender, 1, due.handle);
    }

    /// Returns the due of a waiting trace.
    pub(super) fn waiting(&self, handle: Handle) -> Option<Due> {
        self.waiting.get(&handle).map(|waiting| waiting.due)
    }

    /// Takes the next trace to be judged, if the thread is free.
    pub(super) fn next(&mut self) -> Option<Due> {
        if self.running.is_some() {
            return None;
        }
        let handle = self.queue.take()?;
        let WaitingTrace { due, sender, bytes } = self.waiting.remove(&handle)?;
        self.bytes -= bytes;
        self.by_sender.remove(sender, 1);
        Some(due)
    }

    /// Hands a trace to the free thread; false if it has ended.
    pub(super) fn begin(&mut self, task: LongTask) -> bool {
        let running = (task.due, task.epoch);
        let bytes = task.trace.bytes();
        // Its channel has room for one, and none is running.
        let is_sent = self.thread.as_ref().is_some_and(|link| link.tasks.try_send(task).is_ok());
        self.running = is_sent.then_some(running);
        self.running_bytes = if is_sent { bytes } else { 0 };
        self.bytes += self.running_bytes;
        is_sent
    }

    /// Waits for the trace being judged; pending for ever without one.
    pub(super) async fn judged(&mut self) -> Option<LongJudgement> {
        LongLink::judged(&mut self.thread, self.running.is_some()).await
    }

    /// Ends the running judgement; returns its trace and epoch.
    pub(super) fn ended(&mut self) -> Option<(Due, u64)> {
        self.bytes -= std::mem::take(&mut self.running_bytes);
        self.running.take()
    }

    /// Stops or allows further waiting traces.
    pub(super) fn close_if(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// Continues without the ended thread; returns all waiting traces.
    pub(super) fn lose_thread(&mut self) -> Vec<Due> {
        self.thread = None;
        self.give_up()
    }

    /// Returns all waiting traces, and has later ones judged on the shard.
    pub(super) fn give_up(&mut self) -> Vec<Due> {
        self.is_off = true;
        self.queue = FairQueue::default();
        self.by_sender = SenderShares::default();
        self.bytes = self.running_bytes;
        self.waiting.drain().map(|(_, waiting)| waiting.due).collect()
    }
}

/// Long trace on its way to the thread.
pub(crate) struct LongTask {
    pub(super) context: WorkerContext,
    pub(super) due: Due,
    pub(super) trace: Arc<TraceSpans>,
    pub(super) reported: Vec<Reported>,
    pub(super) session: Option<SessionKeyFields>,
    /// Remaining steps of the trace.
    pub(super) steps: u64,
    /// Number of restarts of the shard, which reuses handles.
    pub(super) epoch: u64,
}

/// Long trace on its way back.
pub(crate) struct LongJudgement {
    pub(super) due: Due,
    pub(super) trace: Arc<TraceSpans>,
    pub(super) reported: Vec<Reported>,
    pub(super) evaluations: Vec<Evaluation>,
    pub(super) asked: Vec<AskedTarget>,
    /// `None` after a panic.
    pub(super) judged: Option<JudgedTask>,
    /// False if reading the trace would have exceeded the memory for judging.
    pub(super) was_read: bool,
    pub(super) steps: u64,
    pub(super) took: std::time::Duration,
    pub(super) epoch: u64,
    /// Its evaluators, which a reload may have replaced.
    pub(super) setup: Setup,
}

impl LongWork for LongTask {
    type Judgement = LongJudgement;

    fn judge(self, waits: impl Fn()) -> LongJudgement {
        let Self { context, due, trace, mut reported, session, steps, epoch } = self;
        let started = std::time::Instant::now();
        let reading = reserve(&context.judging, std::iter::once(&*trace), waits);
        let was_read = reading.is_some();
        let effort = WorkBudget::new(if was_read { steps } else { 0 });
        let mut evaluations = Vec::new();
        let mut out = TraceAnswer { evaluations: &mut evaluations, asked: Vec::new() };
        let now_ns = now_ns();
        let task = JudgingTask { due: &due, trace: &trace, now_ns, session, is_attempt: false };
        let judged = context.judge(&task, effort, &mut reported, &mut out);
        let asked = out.asked;
        let took = started.elapsed();
        LongJudgement {
            due,
            trace,
            reported,
            evaluations,
            asked,
            judged,
            was_read,
            steps,
            took,
            epoch,
            setup: context.setup,
        }
    }
}
