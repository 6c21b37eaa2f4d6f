//! Long sessions: those that exceed one slice of steps.
//!
//! As with traces ([`crate::worker::long_traces`]) each session is attempted within a slice. A
//! longer one is judged from its start on a separate thread, in fair turns of the senders. A due
//! session is judged by the evaluators at the time it became due, so a reload need not wait for it.
//!
//! Sessions of a sender with many waiting ones stay open ([`holds_up`]). Sessions evicted by a
//! limit cannot: beyond a share of the memory they are not evaluable. Beyond the common limits,
//! sessions are judged on the worker.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::reading::{ReadingMemory, reserve, try_reserve};
use crate::reload::setup::Setup;
use crate::worker::long_thread::{LongLink, LongThread, LongWork};
use crate::worker::long_traces::{ATTEMPT_STEPS, holds_up};
use spanscore_assemble::DueSession;
use spanscore_base::model::{FairQueue, MemoryQuota, Sender, SenderShares, SessionKey, TraceSpans};
use spanscore_base::panics::caught;
use spanscore_engine::session::{SessionAnswer, evaluate_session};
use spanscore_extract::reading_steps;
use spanscore_net::clock::now_ns;

/// Limit on waiting long sessions.
const WAITING_MAX: usize = 256;
/// Traces of a session above which it is not attempted: each gets a slice to be read.
const ATTEMPT_TRACES_MAX: usize = 32;

/// Due session with its evaluators.
#[derive(Clone)]
pub(crate) struct SessionTask {
    pub(super) due: DueSession,
    pub(super) setup: Setup,
    /// Memory quota for judging.
    pub(super) judging: Arc<MemoryQuota>,
    /// Steps for the judgement, and for reading each trace.
    pub(super) steps: u64,
}

/// Judged session.
pub(crate) struct SessionJudgement {
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

    /// Returns the bytes that it holds while it waits.
    fn bytes(&self) -> usize {
        let held = |trace: &TraceSpans| size_of::<TraceSpans>() + trace.bytes_with_resources();
        size_of::<Self>() + self.traces().map(held).sum::<usize>()
    }

    /// Judges it within a slice; returns it if that does not suffice, or if others hold the memory.
    pub(super) fn attempt(self) -> Result<SessionJudgement, Box<Self>> {
        let reading: usize = self.traces().map(reading_steps).sum();
        let is_short = self.due.traces.len() <= ATTEMPT_TRACES_MAX;
        if !is_short || reading as u64 > ATTEMPT_STEPS {
            return Err(Box::new(self));
        }
        let memory = try_reserve(&self.judging, self.traces());
        let Some(memory) = memory else { return Err(Box::new(self)) };
        let steps = self.steps.min(ATTEMPT_STEPS);
        let answer = self.answer(Some(&memory), steps);
        if steps < self.steps && answer.as_ref().is_some_and(|answer| answer.is_spent) {
            return Err(Box::new(self));
        }
        Ok(self.judged(answer, true))
    }

    /// Returns it unread and not evaluable.
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

impl LongWork for SessionTask {
    type Judgement = SessionJudgement;

    /// Judges it completely. Blocks while others hold the memory, and calls `waits` meanwhile.
    fn judge(self, waits: impl Fn()) -> SessionJudgement {
        let memory = reserve(&self.judging, self.traces(), waits);
        let answer = self.answer(memory.as_ref(), self.steps);
        self.judged(answer, memory.is_some())
    }
}

/// Long sessions: the waiting ones, and the one being judged.
#[derive(Default)]
pub(crate) struct LongSessions {
    /// Channels to the thread; without them the worker judges sessions.
    pub(super) thread: Option<LongLink<SessionTask>>,
    queue: FairQueue<SessionTask>,
    by_sender: SenderShares,
    /// Number of waiting or judged ones, by session.
    by_key: HashMap<Arc<SessionKey>, usize>,
    running: Option<SessionTask>,
    /// Bytes of all waiting ones and the one being judged.
    bytes: usize,
}

impl LongSessions {
    /// Returns empty long sessions, and the thread's side.
    pub(crate) fn with_thread() -> (Self, LongThread<SessionTask>) {
        let (link, thread) = LongLink::with_thread();
        (Self { thread: Some(link), ..Self::default() }, thread)
    }

    /// Returns true if one more may wait within this limit on bytes.
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        self.len() < WAITING_MAX && self.bytes < bytes_max
    }

    /// Returns true if a sender's sessions stay open, because many of them wait.
    pub(super) fn holds(&self, sender: Sender) -> bool {
        holds_up(&self.by_sender, sender)
    }

    /// Returns true if a judgement of a session waits or is running: the next follows it.
    pub(super) fn has(&self, key: &SessionKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Returns the number of waiting or running judgements.
    pub(super) fn len(&self) -> usize {
        self.by_key.values().sum()
    }

    /// Returns the bytes of all waiting ones and the one being judged.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if one is being judged.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Adds a session; its cost is its size to be read.
    pub(super) fn put(&mut self, task: SessionTask) {
        let sender = task.due.sender;
        self.bytes += task.bytes();
        self.by_sender.add(sender, 1);
        *self.by_key.entry(Arc::clone(&task.due.key)).or_default() += 1;
        let cost = task.traces().map(reading_steps).sum::<usize>().max(1);
        self.queue.put(sender, cost, task);
    }

    /// Hands the next session to the thread, if it is free.
    pub(super) fn begin(&mut self) {
        let Some(link) = self.thread.as_ref().filter(|_| self.running.is_none()) else { return };
        let Some(task) = self.queue.take() else { return };
        self.by_sender.remove(task.due.sender, 1);
        self.running = Some(task.clone());
        // Fails only if the thread has ended: then `judged` says so.
        let _ = link.tasks.try_send(task);
    }

    /// Waits for the session being judged; `None` if its thread has ended. Pending for ever without
    /// one.
    pub(super) async fn judged(&mut self) -> Option<SessionJudgement> {
        LongLink::judged(&mut self.thread, self.running.is_some()).await
    }

    /// Ends the running judgement; returns its session.
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

    /// Continues without the thread; returns all waiting sessions.
    pub(super) fn give_up(&mut self) -> Vec<SessionTask> {
        let waiting: Vec<_> = std::iter::from_fn(|| self.queue.take()).collect();
        *self = Self::default();
        waiting
    }
}
