//! Long traces: those that one slice of steps does not suffice for.
//!
//! A shard judges each trace within a slice of steps. What does not end there is done over on a
//! thread beside the shard, one trace at a time, by shares: of the senders that wait, the one goes
//! first that was served least. So no trace holds up others for more than a slice, whatever kind of
//! evaluator or library it keeps busy, and an answer is the same as if nobody had waited: the
//! attempt leaves nothing.
//!
//! Requests of a sender that has many long traces waiting stay in the inbox
//! ([`LongTraces::holds`]). Past the limits of all, traces are judged on the shard to their end.

use std::sync::Arc;

use hashbrown::HashMap;
use tokio::sync::mpsc;

use super::WorkerContext;
use super::asking::TraceAnswer;
use super::judgement::{JudgedTask, JudgingTask};
use crate::reading::reserve;
use crate::reload::setup::Setup;
use spanscore_assemble::{Due, Handle, SessionKeyFields};
use spanscore_base::model::{
    Evaluation, FairQueue, Reported, Sender, SenderShares, TraceSpans, WorkBudget,
};
use spanscore_evaluate::AskedTarget;
use spanscore_net::clock::now_ns;
use spanscore_telemetry::Heartbeats;

/// Steps of a trace on its shard: about two milliseconds.
pub(crate) const ATTEMPT_STEPS: u64 = 1_000_000;
/// Long traces that wait at most.
const WAITING_MAX: usize = 256;
/// Waiting long traces, or sessions, of one connection from which on it is held up.
const HOLDING_MAX: usize = 4;
/// Waiting long traces, or sessions, of one peer from which on each connection with one is held up.
const PEER_HOLDING_MAX: usize = 64;

/// Returns true if more of a sender is held up, as much of it waits. What comes by no connection,
/// of topics and files, is of many senders: it does not wait for what is long of one.
pub(crate) fn holds_up(waiting: &SenderShares, sender: Sender) -> bool {
    let (peer, own) = waiting.held(sender);
    sender.connection != 0 && (own >= HOLDING_MAX || own > 0 && peer >= PEER_HOLDING_MAX)
}

/// Long trace that waits.
struct WaitingTrace {
    due: Due,
    sender: Sender,
    bytes: usize,
}

/// Long traces of a shard: those that wait, and the one that is judged.
#[derive(Default)]
pub(crate) struct LongTraces {
    /// Channels to the thread; without them traces are judged on the shard.
    thread: Option<(mpsc::Sender<LongTask>, mpsc::Receiver<LongJudgement>)>,
    line: FairQueue<Handle>,
    waiting: HashMap<Handle, WaitingTrace>,
    /// Bytes of those that wait and of the one that is judged, and the most that they may have.
    bytes: usize,
    bytes_max: usize,
    running_bytes: usize,
    /// Number of those that wait, by sender.
    by_sender: SenderShares,
    /// The trace that is judged, with the restarts of the shard before it.
    running: Option<(Due, u64)>,
    /// True while all traces are judged on the shard.
    is_off: bool,
    /// True while a message waits for the end of all long traces.
    is_closed: bool,
}

impl LongTraces {
    /// Returns long traces of so many bytes at most, with the thread's side.
    pub(super) fn with_thread(bytes_max: usize) -> (Self, LongTraceThread) {
        let (tasks, receiver) = mpsc::channel(1);
        let (sender, judgements) = mpsc::channel(1);
        let thread = Some((tasks, judgements));
        let own = Self { thread, bytes_max, ..Self::default() };
        (own, LongTraceThread { tasks: receiver, judgements: sender })
    }

    /// Returns true if none waits and none is judged.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of those that wait or are judged.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.running.is_some())
    }

    /// Returns true if one more may wait.
    pub(super) fn has_room(&self) -> bool {
        let is_full = self.waiting.len() >= WAITING_MAX || self.bytes >= self.bytes_max;
        self.thread.is_some() && !self.is_off && !self.is_closed && !is_full
    }

    /// Returns true if requests of a sender wait, as many of its traces do.
    pub(super) fn holds(&self, sender: Sender) -> bool {
        holds_up(&self.by_sender, sender)
    }

    /// Returns true if a trace waits or is judged: its next judgement comes after that one.
    pub(super) fn has(&self, handle: Handle) -> bool {
        self.running.is_some_and(|(due, _)| due.handle == handle)
            || self.waiting.contains_key(&handle)
    }

    /// Adds a trace of a sender; one that waits already keeps its place.
    pub(super) fn put(&mut self, due: Due, sender: Sender, bytes: usize) {
        self.bytes += bytes;
        let sender = self.waiting.get(&due.handle).map_or(sender, |before| before.sender);
        if let Some(before) = self.waiting.insert(due.handle, WaitingTrace { due, sender, bytes }) {
            self.bytes -= before.bytes;
            return;
        }
        self.by_sender.add(sender, 1);
        self.line.put(sender, 1, due.handle);
    }

    /// Returns the due of a trace that waits.
    pub(super) fn waiting(&self, handle: Handle) -> Option<Due> {
        self.waiting.get(&handle).map(|waiting| waiting.due)
    }

    /// Takes the next trace to be judged, if the thread is free.
    pub(super) fn next(&mut self) -> Option<Due> {
        if self.running.is_some() {
            return None;
        }
        let handle = self.line.take()?;
        let WaitingTrace { due, sender, bytes } = self.waiting.remove(&handle)?;
        self.bytes -= bytes;
        self.by_sender.remove(sender, 1);
        Some(due)
    }

    /// Hands a trace to the thread, which is free; false if that has ended.
    pub(super) fn begin(&mut self, task: LongTask) -> bool {
        let running = (task.due, task.epoch);
        let bytes = task.trace.bytes();
        let tasks = self.thread.as_ref().map(|(tasks, _)| tasks);
        // Its channel has room for one, and none is running.
        let is_sent = tasks.is_some_and(|tasks| tasks.try_send(task).is_ok());
        self.running = is_sent.then_some(running);
        self.running_bytes = if is_sent { bytes } else { 0 };
        self.bytes += self.running_bytes;
        is_sent
    }

    /// Waits for the trace that is judged; never ends if there is none.
    pub(super) async fn judged(&mut self) -> Option<LongJudgement> {
        match &mut self.thread {
            Some((_, judgements)) if self.running.is_some() => judgements.recv().await,
            _ => std::future::pending().await,
        }
    }

    /// Notes the end of the judgement that was running; returns its trace, with its epoch.
    pub(super) fn ended(&mut self) -> Option<(Due, u64)> {
        self.bytes -= std::mem::take(&mut self.running_bytes);
        self.running.take()
    }

    /// Lets no more traces wait, or lets them again.
    pub(super) fn close_if(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// Goes on without the thread, which has ended; takes all traces that wait.
    pub(super) fn lose_thread(&mut self) -> Vec<Due> {
        self.thread = None;
        self.give_up()
    }

    /// Has traces wait again.
    pub(super) fn go_on(&mut self) {
        self.is_off = false;
    }

    /// Takes all traces that wait, and has those to come judged on the shard.
    pub(super) fn give_up(&mut self) -> Vec<Due> {
        self.is_off = true;
        self.line = FairQueue::default();
        self.by_sender = SenderShares::default();
        self.bytes = self.running_bytes;
        self.waiting.drain().map(|(_, waiting)| waiting.due).collect()
    }
}

/// Long trace on its way to the thread.
pub(super) struct LongTask {
    pub(super) context: WorkerContext,
    pub(super) due: Due,
    pub(super) trace: Arc<TraceSpans>,
    pub(super) reported: Vec<Reported>,
    pub(super) session: Option<SessionKeyFields>,
    /// Steps that the trace has left.
    pub(super) steps: u64,
    /// Number of restarts of the shard, which uses handles again.
    pub(super) epoch: u64,
}

/// Long trace on its way back.
pub(super) struct LongJudgement {
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
    /// Evaluators that judged it, which a reload may have replaced.
    pub(super) setup: Setup,
}

impl LongTask {
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
        let WorkerContext { resolver, evaluators, .. } = context;
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
            setup: Setup { resolver, evaluators },
        }
    }
}

/// Thread of a shard's long traces.
pub(crate) struct LongTraceThread {
    tasks: mpsc::Receiver<LongTask>,
    judgements: mpsc::Sender<LongJudgement>,
}

impl LongTraceThread {
    /// Judges the trace that it was handed, if any.
    #[cfg(test)]
    pub(super) fn judge_one(&mut self) -> Option<LongJudgement> {
        Some(self.tasks.try_recv().ok()?.judge(|| {}))
    }

    /// Judges traces until the shard ends; moves the heartbeat at `place` meanwhile.
    pub(crate) async fn run(mut self, heartbeats: Arc<Heartbeats>, place: usize) {
        while let Some(task) = self.tasks.recv().await {
            heartbeats.beat(place);
            let judgement = task.judge(|| heartbeats.beat(place));
            heartbeats.end(place);
            if self.judgements.send(judgement).await.is_err() {
                return;
            }
        }
    }
}
