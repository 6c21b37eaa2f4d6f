//! One shard at work: assemble, resolve, evaluate, hand out.
//!
//! An internal error ends neither the shard nor the process: where judging a trace panics, that
//! trace is lost; where anything else does, the shard judges what it holds as it stands and starts
//! anew.
//!
//! **Invariant:** an evaluation is remembered, to be revised, only once it was handed out.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::backlog::Backlog;
use super::guard::Guarded;
use super::journal::notes::JudgedNote;
use super::journal::{Journal, Priors};
use super::judging::Lanes;
use super::metrics::{JudgedCounts, PipelineMetrics};
use super::pool::BatchPool;
use super::reading::{ReadingMemory, reserve};
use super::reload::setup::{Reform, Translator};
use super::room::{QueueRoom, ShardRoom};
use super::sessions::SessionSender;
use super::{Outlet, QUEUED_REQUESTS_MAX};
use asking::TraceAnswer;
pub(super) use clock::ShardClock;
pub(super) use costly::Costly;
use inbox::Inbox;
pub(super) use pace::JudgingPace;
use pace::SLICE_STEPS;

use crate::assemble::{Due, Handle, Shard, TakenSteps};
use crate::emit::forward::Forwards;
use crate::evaluate::engine::run::{Evaluators, Evidence, Passes};
use crate::extract::{Resolver, Table};
use crate::model::{
    Claims, Completion, Effort, Evaluation, Reported, SessionKey, Share, SpanBatch, TraceSpans,
};
use crate::panics::caught;
use crate::telemetry::Heartbeats;

/// How often deadlines are looked at.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// Traces whose evaluations are handed out together.
const JUDGED_MAX: usize = 64;
/// What a shard is told.
#[derive(Clone)]
pub(super) enum ShardMessage {
    /// Records of one request; the room it took in the queue is free when it is worked off.
    /// `at_ms`: they came at that time on the shard's clock, and are brought back.
    Batch {
        batch: Arc<SpanBatch>,
        /// That they were extracted with.
        table: Arc<Table>,
        at_ms: Option<u64>,
        room: Arc<(ShardRoom, Arc<QueueRoom>)>,
    },
    /// Read and judge so from now on.
    Reform(Arc<Reform>),
    /// What follows was kept by earlier processes, which have said this.
    Restore { priors: Arc<Priors> },
    /// All that was kept is back, and it is now that late.
    Resume { now_ms: u64 },
    /// Take what senders already have a place for, judge what is open and end.
    Drain,
}

/// A shard with all it needs to judge its traces.
pub(super) struct Worker {
    pub(super) index: usize,
    pub(super) shard: Shard,
    /// Makes an empty shard at a time, for after a panic.
    pub(super) empty: Box<dyn Fn(u64) -> Shard + Send>,
    /// How many shards there are.
    pub(super) shard_count: usize,
    pub(super) resolver: Arc<Resolver>,
    pub(super) evaluators: Arc<Evaluators>,
    pub(super) outlet: Outlet,
    pub(super) metrics: Arc<PipelineMetrics>,
    /// Where batches go that have been added.
    pub(super) pool: Arc<BatchPool>,
    /// How many traces are judged before the next requests are taken in.
    pub(super) pace: JudgingPace,
    /// Tells of traces that are too expensive, seldom.
    pub(super) costly: Costly,
    /// Told of what is taken in and judged.
    pub(super) backlog: Arc<Backlog>,
    /// Told that it moves.
    pub(super) heartbeats: Arc<Heartbeats>,
    /// What traces hold, and what those of this shard held at the last look.
    pub(super) memory: Arc<Share>,
    pub(super) held: usize,
    /// What reading traces may take.
    pub(super) judging: Arc<Share>,
    /// Steps that one trace may take, all its judgements together.
    pub(super) trace_steps: u64,
    /// The owner of sessions.
    pub(super) sessions: Option<SessionSender>,
    /// Told what was judged, where there is a log.
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) clock: ShardClock,
    /// Brings records to the table of today.
    pub(super) translator: Translator,
    /// Told what was judged of traces.
    pub(super) forwards: Arc<Forwards>,
    /// Where what is asked of others goes.
    pub(super) lanes: Lanes,
}

impl Worker {
    /// Works until it is told to drain or every sender is gone.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<ShardMessage>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut inbox = Inbox::default();
        let mut came = Vec::new();
        let mut due = Vec::new();
        let mut is_open = true;
        while is_open || !inbox.is_empty() {
            self.heartbeats.beat(self.index);
            tokio::select! {
                count = queue.recv_many(&mut came, QUEUED_REQUESTS_MAX), if is_open => {
                    is_open = count > 0;
                }
                _ = ticks.tick() => {
                    // While it is brought back its time goes on with what came.
                    if !self.shard.is_restoring() {
                        self.pass_time(self.clock.now_ms(), self.pace.most(), &mut due);
                        if self.shard.behind() > 0 {
                            ticks.reset_immediately();
                        }
                    }
                }
                () = ready(()), if !inbox.is_empty() => {}
            }
            // Of all that came meanwhile it is chosen what is next.
            if !queue.is_empty() {
                queue.recv_many(&mut came, QUEUED_REQUESTS_MAX).await;
            }
            came.drain(..).for_each(|message| inbox.put(message));
            self.work_off(&mut inbox, &mut queue, &mut due).await;
        }
        let now_ms = self.clock.now_ms();
        // What is not back as a whole is still in the log, and judged by the next process.
        if !self.shard.is_restoring() {
            self.guarded(now_ms, &mut due, |own, due| {
                own.judge_all(Completion::Shutdown, now_ms, due);
            });
        }
        self.metrics.shard(self.index, &mut self.shard);
        self.heartbeats.end(self.index);
    }

    /// Works off some of what waits: no more than one expensive trace at once, so that what comes
    /// meanwhile has its turn.
    async fn work_off(
        &mut self,
        inbox: &mut Inbox,
        queue: &mut mpsc::Receiver<ShardMessage>,
        due: &mut Vec<Due>,
    ) {
        let slice = self.pace.intake(self.shard.behind() > 0);
        let mut steps = 0;
        let mut bytes = 0;
        for _ in 0..slice.requests {
            match inbox.take() {
                Some(ShardMessage::Batch { batch, table, at_ms, room }) => {
                    steps += self.arrived((batch, table), at_ms, due);
                    bytes += room.0.bytes();
                }
                Some(ShardMessage::Reform(reform)) => self.reform(reform).await,
                Some(ShardMessage::Restore { priors }) => self.restore(priors),
                Some(ShardMessage::Resume { now_ms }) => self.resume(now_ms, due),
                // What has a place in the queue was acknowledged, or soon is.
                Some(ShardMessage::Drain) => queue.close(),
                None => return,
            }
            if steps > SLICE_STEPS || bytes > slice.bytes {
                return;
            }
        }
    }

    fn restore(&mut self, priors: Arc<Priors>) {
        let tells_known = self.sessions().is_some() || self.forwards.wants_judgements();
        self.shard.restore(Arc::unwrap_or_clone(priors), tells_known);
    }

    fn resume(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        self.clock.set(now_ms);
        self.guarded(now_ms, due, |own, _| own.shard.resume(now_ms));
    }

    /// Judges what is due at a time, no more than so many traces at once.
    fn pass_time(&mut self, now_ms: u64, most: usize, due: &mut Vec<Due>) {
        self.guarded(now_ms, due, |own, due| {
            own.shard.tick_some(now_ms, most, due);
            let steps = own.judge_due(due);
            own.pace.took(steps);
            own.metrics.shard(own.index, &mut own.shard);
        });
    }

    fn arrived(
        &mut self,
        (mut batch, table): (Arc<SpanBatch>, Arc<Table>),
        at_ms: Option<u64>,
        due: &mut Vec<Due>,
    ) -> u64 {
        let is_old =
            Arc::get_mut(&mut batch).is_some_and(|batch| self.bring_up_to_date(batch, &table));
        let records = batch.spans.len();
        let is_spans = batch.is_of_spans();
        if let Some(at_ms) = at_ms {
            if self.clock.has_passed(at_ms, TICK) {
                self.pass_time(at_ms, usize::MAX, due);
            }
            self.clock.set(at_ms);
        }
        let now_ms = at_ms.unwrap_or_else(|| self.clock.now_ms());
        let mut steps = 0;
        self.guarded(now_ms, due, |own, due| steps = own.take_in(batch, is_old, now_ms, due));
        self.backlog.unqueue(records, is_spans);
        steps
    }

    /// Adds records; gives the steps of what was judged with that.
    fn take_in(
        &mut self,
        batch: Arc<SpanBatch>,
        is_old: bool,
        now_ms: u64,
        due: &mut Vec<Due>,
    ) -> u64 {
        self.shard.add(&batch, now_ms, due);
        if is_old {
            batch.runs.iter().for_each(|run| self.shard.lacks_facts(run.trace_id));
        }
        if let Ok(batch) = Arc::try_unwrap(batch) {
            self.pool.give_back(batch);
        }
        self.judge_due(due) + self.judge_running()
    }

    fn judge_all(&mut self, completion: Completion, now_ms: u64, due: &mut Vec<Due>) {
        self.shard.drain(completion, now_ms, due);
        self.judge_due(due);
    }

    /// Judges what is due; gives the steps that it took.
    fn judge_due(&mut self, due: &mut Vec<Due>) -> u64 {
        self.tell_ignored();
        if due.is_empty() {
            return 0;
        }
        let mut taken = 0;
        let now_ns = unix_ns(SystemTime::now());
        let mut left = due.len();
        for some in due.chunks(JUDGED_MAX) {
            let started = Instant::now();
            let mut evaluations =
                Vec::with_capacity(some.len() * self.evaluators.evaluators().len());
            let mut judged = JudgedCounts::default();
            let mut said = Vec::with_capacity(some.len());
            let mut notes = Vec::new();
            let mut claims = Claims::default();
            for due in some {
                let before = evaluations.len();
                self.heartbeats.beat(self.index);
                let steps = self.shard.steps(due.handle).judged;
                let effort = Effort::new(self.trace_steps.saturating_sub(steps));
                let mut out = TraceAnswer { evaluations: &mut evaluations, asked: Vec::new() };
                let done = self.evaluate_one(due, effort, now_ns, &mut judged, &mut out);
                let mut asked = out.asked;
                self.tell_forwards(due, &evaluations[before..], &asked);
                if due.is_silent {
                    evaluations.truncate(before);
                    asked.clear();
                }
                let asked = self.lanes.unless_unasked(asked, &mut evaluations);
                self.supersede(due.handle, &mut evaluations[before..]);
                if !asked.is_empty() {
                    self.hand_out_asking(due, evaluations.split_off(before), asked);
                } else if evaluations.len() > before {
                    notes.extend(self.note_of(due));
                    claims.join(&self.shard.claims(due.handle));
                }
                said.push(done);
            }
            self.metrics.judged(&judged, started.elapsed(), &self.evaluators);
            self.hand_out(evaluations, claims, notes);
            for (due, (reported, steps)) in some.iter().zip(said) {
                taken += steps;
                self.shard.take_steps(due.handle, TakenSteps { judged: steps, early: 0 });
                match reported {
                    Some(reported) => self.shard.keep_reported(due.handle, reported),
                    None => self.shard.not_judged(due),
                }
                self.shard.done(due.handle);
            }
            left -= some.len();
            self.backlog.set_traces(self.index, self.shard.open_count() + left);
        }
        due.clear();
        taken
    }

    /// Tells evaluations of a trace which verdicts they take back.
    fn supersede(&mut self, handle: Handle, evaluations: &mut [Evaluation]) {
        if !evaluations.is_empty() {
            let mut verdicts = self.shard.verdicts(handle);
            verdicts.supersede(evaluations);
            self.shard.keep_verdicts(handle, verdicts);
        }
    }

    /// What is noted of a trace that was judged, where there is a log.
    fn note_of(&self, due: &Due) -> Option<JudgedNote> {
        self.journal.as_ref()?;
        let trace_id = self.shard.trace(due.handle)?.trace_id;
        let Due { revision, digest, revised, .. } = *due;
        Some(JudgedNote { trace_id, revision, digest, revised })
    }

    /// Hands evaluations out, after it is noted what was judged; what they were made of is claimed
    /// until they have arrived.
    fn hand_out(&self, evaluations: Vec<Evaluation>, claims: Claims, notes: Vec<JudgedNote>) {
        if evaluations.is_empty() {
            return;
        }
        self.metrics.evaluations(&evaluations);
        let receipt = self.journal.as_ref().map(|journal| journal.receipt(claims, notes));
        (self.outlet)(evaluations, receipt);
    }

    /// Where judged traces go, while an evaluator judges sessions.
    fn sessions(&self) -> Option<&SessionSender> {
        self.sessions.as_ref().filter(|_| self.evaluators.has_session_level())
    }

    fn hand_to_session(&self, key: Option<SessionKey>, trace: &TraceSpans, digest: [u8; 16]) {
        let (Some(sessions), Some(key)) = (self.sessions(), key) else { return };
        if !sessions.hand_over(key, trace, digest, self.resolver.table()) {
            self.metrics.session_trace_lost();
        }
    }

    /// Memory for reading a trace; `None` where it alone may take more than there is.
    fn reserve(&self, trace: &TraceSpans) -> Option<ReadingMemory> {
        reserve(&self.judging, std::iter::once(trace), || self.heartbeats.beat(self.index))
    }

    /// Judges a trace; gives what was said of it with that, `None` if nothing came of it, and the
    /// steps that it took.
    fn evaluate_one(
        &self,
        due: &Due,
        effort: Effort,
        now_ns: u64,
        judged: &mut JudgedCounts,
        out: &mut TraceAnswer<'_>,
    ) -> (Option<Vec<Reported>>, u64) {
        let mut reported = self.shard.reported(due.handle).to_vec();
        let Some(trace) = self.shard.trace(due.handle) else { return (None, 0) };
        let reading = self.reserve(trace);
        judged.too_large += u64::from(reading.is_none());
        // Without a step nothing of it is read.
        let effort = if reading.is_some() { effort } else { Effort::new(0) };
        let given = effort.given();
        let evidence = Evidence {
            digest: due.digest,
            revised: due.revised,
            revision: due.revision,
            completion: due.completion,
            is_partial: due.is_partial,
            now_ns,
        };
        let before = out.evaluations.len();
        let outcome = caught(|| {
            let TraceAnswer { evaluations, asked } = out;
            let mut trajectory = self.resolver.resolve_within(trace, effort);
            let passes = if due.is_silent && !self.forwards.wants_judgements() {
                Passes::default()
            } else {
                let trajectory = &mut trajectory;
                let reported = &mut reported;
                self.evaluators.evaluate_or_ask(trajectory, evidence, reported, evaluations, asked)
            };
            let session = self.sessions().and_then(|it| it.fields.of(&trajectory));
            (passes, session, trajectory.effort)
        });
        match outcome {
            Ok((passes, session, effort)) => {
                judged.cut_texts += effort.cut_texts();
                self.hand_to_session(session, trace, due.digest);
                if !due.is_silent {
                    judged.add(due.completion, passes);
                }
                if effort.is_trace_spent() && reading.is_some() {
                    judged.expensive += 1;
                    self.costly.tell(trace.trace_id, trace.spans.len(), trace.arena.len());
                }
                (Some(reported), effort.taken())
            }
            Err(_) => {
                out.evaluations.truncate(before);
                out.asked.clear();
                self.metrics.panicked();
                tracing::error!(trace_id = %trace.trace_id, "judging a trace panicked; it is lost");
                // How far it came is not known.
                (None, given / 4)
            }
        }
    }
}

impl Guarded for Worker {
    type Due = Due;

    fn panicked(&self, again: bool) {
        self.metrics.panicked();
        if again {
            tracing::error!(shard = self.index, "a shard panicked again; its open traces are lost");
            return;
        }
        let traces = self.shard.open_count();
        tracing::error!(shard = self.index, traces, "a shard panicked; it judges its open traces");
    }

    fn evaluate_rest(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        due.retain(|due| self.shard.is_due(due));
        self.judge_all(Completion::Evicted, now_ms, due);
    }

    fn start_anew(&mut self, now_ms: u64) {
        self.metrics.shard(self.index, &mut self.shard);
        self.metrics.lost_spans(self.shard.open_spans());
        self.shard = (self.empty)(now_ms);
        self.shard.watch_if(self.evaluators.reports_early());
    }

    fn report_open(&mut self) {
        self.backlog.set_traces(self.index, self.shard.open_count());
        let before = std::mem::replace(&mut self.held, self.shard.bytes());
        self.memory.change(before, self.held);
    }
}

pub(super) fn elapsed_ms(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Unix nanoseconds; 0 before 1970.
pub(super) fn unix_ns(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

mod asking;
mod clock;
mod costly;
mod early;
mod inbox;
mod pace;
mod reform;
mod told;

#[cfg(test)]
pub(super) mod brittle;
#[cfg(test)]
mod tests;
