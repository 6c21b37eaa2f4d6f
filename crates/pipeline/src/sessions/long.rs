//! Long sessions: those that one slice of steps does not suffice for.
//!
//! As with traces ([`crate::worker::long_traces`]) each session is attempted within a slice; one
//! that takes more is judged over on a thread beside, by shares of the senders. A due session is
//! judged by the evaluators of the time when it became due, so a reload need not wait for it.
//!
//! Sessions of a sender that has many of these waiting stay open meanwhile ([`holds_up`]). Those
//! that a limit evicts cannot: beyond a part of the memory they are not evaluable. Past the limits
//! of all, sessions are judged on the worker to their end.

use std::sync::Arc;

use hashbrown::HashMap;
use tokio::sync::mpsc;

use crate::reading::{ReadingMemory, reserve, try_reserve};
use crate::reload::setup::Setup;
use crate::worker::long_traces::{ATTEMPT_STEPS, holds_up};
use spanscore_assemble::DueSession;
use spanscore_base::model::{FairQueue, MemoryQuota, Sender, SenderShares, SessionKey, TraceSpans};
use spanscore_base::panics::caught;
use spanscore_engine::session::{SessionAnswer, evaluate_session};
use spanscore_extract::reading_steps;
use spanscore_net::clock::now_ns;
use spanscore_telemetry::Heartbeats;

/// Long sessions that wait at most.
const WAITING_MAX: usize = 256;
/// Traces of a session above which it is not attempted: each has a slice to be read.
const ATTEMPT_TRACES_MAX: usize = 32;

/// Session that is due, with the evaluators that judge it.
#[derive(Clone)]
pub(super) struct SessionTask {
    pub(super) due: DueSession,
    pub(super) setup: Setup,
    /// Steps of the judgement, and of the reading of each trace.
    pub(super) steps: u64,
}

/// Judged session.
pub(super) struct SessionJudgement {
    pub(super) due: DueSession,
    pub(super) setup: Setup,
    /// `None` after a panic.
    pub(super) answer: Option<SessionAnswer>,
    /// False if reading it would have exceeded the memory for judging.
    pub(super) was_read: bool,
}

impl SessionTask {
    fn traces(&self) -> impl Iterator<Item = &TraceSpans> + Clone {
        self.due.traces.iter().map(|trace| &**trace)
    }

    /// Returns the bytes that it holds: its traces stay while it waits.
    fn bytes(&self) -> usize {
        let held = |trace: &TraceSpans| size_of::<TraceSpans>() + trace.bytes_with_resources();
        size_of::<Self>() + self.traces().map(held).sum::<usize>()
    }

    /// Judges it within a slice; gives it back if it takes more, or memory that others hold.
    pub(super) fn attempt(self, judging: &Arc<MemoryQuota>) -> Result<SessionJudgement, Box<Self>> {
        let reading: usize = self.traces().map(reading_steps).sum();
        let is_short = self.due.traces.len() <= ATTEMPT_TRACES_MAX;
        if !is_short || reading as u64 > ATTEMPT_STEPS {
            return Err(Box::new(self));
        }
        let Some(memory) = try_reserve(judging, self.traces()) else { return Err(Box::new(self)) };
        let steps = self.steps.min(ATTEMPT_STEPS);
        let answer = self.answer(Some(&memory), steps);
        if steps < self.steps && answer.as_ref().is_some_and(|answer| answer.is_spent) {
            return Err(Box::new(self));
        }
        Ok(self.judged(answer, true))
    }

    /// Judges it to its end. Blocks while others hold the memory, and calls `waits` meanwhile.
    pub(super) fn judge(self, judging: &Arc<MemoryQuota>, waits: impl Fn()) -> SessionJudgement {
        let memory = reserve(judging, self.traces(), waits);
        let answer = self.answer(memory.as_ref(), self.steps);
        self.judged(answer, memory.is_some())
    }

    /// Judges it without reading it: not evaluable.
    pub(super) fn pass_over(self) -> SessionJudgement {
        let answer = self.answer(None, 0);
        self.judged(answer, true)
    }

    fn answer(&self, memory: Option<&ReadingMemory>, steps: u64) -> Option<SessionAnswer> {
        let Setup { resolver, evaluators } = &self.setup;
        let steps = if memory.is_some() { steps } else { 0 };
        let now_ns = now_ns();
        caught(|| evaluate_session(resolver, evaluators, &self.due, steps, now_ns)).ok()
    }

    fn judged(self, answer: Option<SessionAnswer>, was_read: bool) -> SessionJudgement {
        let Self { due, setup, .. } = self;
        SessionJudgement { due, setup, answer, was_read }
    }
}

/// Long sessions: those that wait, and the one that is judged.
#[derive(Default)]
pub(crate) struct LongSessions {
    /// Channels to the thread; without them sessions are judged by their worker.
    thread: Option<(mpsc::Sender<SessionTask>, mpsc::Receiver<SessionJudgement>)>,
    line: FairQueue<SessionTask>,
    by_sender: SenderShares,
    /// Number of those that wait or are judged, by session.
    by_key: HashMap<Arc<SessionKey>, usize>,
    running: Option<SessionTask>,
    /// Bytes of those that wait and of the one that is judged.
    bytes: usize,
}

impl LongSessions {
    /// Returns no long sessions, with the thread's side, which takes from a memory for judging.
    pub(crate) fn with_thread(judging: Arc<MemoryQuota>) -> (Self, LongSessionThread) {
        let (tasks, receiver) = mpsc::channel(1);
        let (sender, judgements) = mpsc::channel(1);
        let own = Self { thread: Some((tasks, judgements)), ..Self::default() };
        (own, LongSessionThread { tasks: receiver, judgements: sender, judging })
    }

    /// Returns true if sessions may wait for a thread.
    pub(super) fn has_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// Returns true if one more may wait, where all may have so many bytes.
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        self.len() < WAITING_MAX && self.bytes < bytes_max
    }

    /// Returns true if sessions of a sender stay open, as many of them wait.
    pub(super) fn holds(&self, sender: Sender) -> bool {
        holds_up(&self.by_sender, sender)
    }

    /// Returns true if a judgement of a session waits or is under way: the next comes after it.
    pub(super) fn has(&self, key: &SessionKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Returns the number of judgements that wait or are under way.
    pub(super) fn len(&self) -> usize {
        self.by_key.values().sum()
    }

    /// Returns the bytes of those that wait and of the one that is judged.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if one is judged.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Adds a session; what it has to be read is its cost.
    pub(super) fn put(&mut self, task: SessionTask) {
        let sender = task.due.sender;
        self.bytes += task.bytes();
        self.by_sender.add(sender, 1);
        *self.by_key.entry(Arc::clone(&task.due.key)).or_default() += 1;
        let cost = task.traces().map(reading_steps).sum::<usize>().max(1);
        self.line.put(sender, cost, task);
    }

    /// Hands the next session to the thread, if that is free.
    pub(super) fn begin(&mut self) {
        let Some((tasks, _)) = self.thread.as_ref().filter(|_| self.running.is_none()) else {
            return;
        };
        let Some(task) = self.line.take() else { return };
        self.by_sender.remove(task.due.sender, 1);
        self.running = Some(task.clone());
        // Fails only if the thread has ended: then `judged` says so.
        let _ = tasks.try_send(task);
    }

    /// Waits for the session that is judged, `None` if its thread has ended; never ends if there is
    /// none.
    pub(super) async fn judged(&mut self) -> Option<SessionJudgement> {
        match &mut self.thread {
            Some((_, judgements)) if self.running.is_some() => judgements.recv().await,
            _ => std::future::pending().await,
        }
    }

    /// Notes the end of the judgement under way; returns its session.
    pub(super) fn ended(&mut self) -> Option<SessionTask> {
        let task = self.running.take()?;
        if let Some(count) = self.by_key.get_mut(&task.due.key).filter(|count| **count > 1) {
            *count -= 1;
        } else {
            self.by_key.remove(&task.due.key);
        }
        self.bytes -= task.bytes();
        Some(task)
    }

    /// Goes on without the thread; takes all sessions that wait.
    pub(super) fn give_up(&mut self) -> Vec<SessionTask> {
        let waiting: Vec<_> = std::iter::from_fn(|| self.line.take()).collect();
        *self = Self::default();
        waiting
    }
}

/// Thread of long sessions.
pub(crate) struct LongSessionThread {
    tasks: mpsc::Receiver<SessionTask>,
    judgements: mpsc::Sender<SessionJudgement>,
    judging: Arc<MemoryQuota>,
}

impl LongSessionThread {
    /// Judges the session that it was handed, if any.
    #[cfg(test)]
    pub(super) fn judge_one(&mut self) -> Option<SessionJudgement> {
        Some(self.tasks.try_recv().ok()?.judge(&self.judging, || {}))
    }

    /// Judges sessions until their worker ends; moves the heartbeat at `place` meanwhile.
    pub(crate) async fn run(mut self, heartbeats: Arc<Heartbeats>, place: usize) {
        while let Some(task) = self.tasks.recv().await {
            heartbeats.beat(place);
            let judgement = task.judge(&self.judging, || heartbeats.beat(place));
            heartbeats.end(place);
            if self.judgements.send(judgement).await.is_err() {
                return;
            }
        }
    }
}
