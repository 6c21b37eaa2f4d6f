//! Worker of one shard: assembles, resolves, evaluates, passes evaluations on.
//!
//! A panic ends neither the shard nor the process. A panic within a judgement loses that trace. Any
//! other panic makes the shard judge its open traces as they stand and restart.
//!
//! **Invariant:** an evaluation is remembered for revisions only after it was passed on.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::QUEUED_REQUESTS_MAX;
use super::journal::notes::JudgedNote;
use super::journal::{EarlierVerdicts, JudgedTraces, LogHolder};
use super::metrics::{FAULT, JudgedCounts};
use super::panic_recovery::PanicRecovery;
use super::reading::{ReadingMemory, reserve};
use super::reload::setup::{ConfigUpdate, Translator};
use super::request_queue::{QueueRoom, ShardRoom};
use super::sessions::SessionSender;
use asking::TraceAnswer;
use clock::ShardClock;
pub(super) use context::WorkerContext;
use expensive_traces::ExpensiveTraceLog;
use inbox::Inbox;
use long_traces::{ATTEMPT_STEPS, LongTraces};
use pace::{JudgingPace, SLICE_STEPS};
use partitions::PartitionWatch;

use spanscore_assemble::{ChargedSteps, Due, Handle, Shard};
use spanscore_base::model::{
    Claims, Completion, Evaluation, MemoryQuota, NoteCell, Reported, SessionKey, SpanBatch,
    TraceSpans,
};
use spanscore_extract::Table;
use spanscore_net::clock::now_ns;

/// Interval at which deadlines are checked.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// Limit on traces whose evaluations are passed on together.
const JUDGED_MAX: usize = 64;
/// Message to a shard.
#[derive(Clone)]
pub(super) enum ShardMessage {
    /// Records of one request, with their room in the queue until they are added. `at_ms` is set
    /// for restored ones: their arrival on the shard's clock.
    Batch {
        batch: Arc<SpanBatch>,
        /// Table that extracted them.
        table: Arc<Table>,
        at_ms: Option<u64>,
        room: Arc<(ShardRoom, Arc<QueueRoom>)>,
    },
    /// Config update.
    ConfigUpdate(Arc<ConfigUpdate>),
    /// Revocation of partitions: their traces are dropped.
    DropRevoked,
    /// Start of a restore, with the verdicts of earlier processes.
    Restore { priors: Arc<EarlierVerdicts> },
    /// End of a restore, with the current time on its clock.
    Resume { now_ms: u64 },
    /// Shutdown: handle requests with a place in the channel, judge open traces and end.
    Drain,
}

/// Shard with the context for judging its traces.
pub(super) struct Worker {
    pub(super) context: WorkerContext,
    pub(super) index: usize,
    pub(super) shard: Shard,
    /// Factory of empty shards for a time, for after a panic.
    pub(super) empty: Box<dyn Fn(u64) -> Shard + Send>,
    /// Number of traces judged before the next requests are taken in.
    pub(super) pace: JudgingPace,
    /// Rate-limited log of expensive traces.
    pub(super) costly: ExpensiveTraceLog,
    /// Memory quota of traces, and the bytes of this shard at its last report.
    pub(super) memory: Arc<MemoryQuota>,
    pub(super) held: usize,
    /// Sender to the session worker.
    pub(super) sessions: Option<SessionSender>,
    pub(super) clock: ShardClock,
    /// Translator of records to the current table.
    pub(super) translator: Translator,
    /// Traces that exceed a slice.
    pub(super) long: LongTraces,
    /// Number of restarts of the shard.
    pub(super) epoch: u64,
    /// Times of the checks of partitions.
    pub(super) watch: PartitionWatch,
}

impl Worker {
    /// Runs until it is told to drain or all senders are dropped.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<ShardMessage>) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut inbox = Inbox::default();
        let mut came = Vec::new();
        let mut due = Vec::new();
        let mut is_open = true;
        // True while long traces hold up the whole inbox.
        let mut is_held = false;
        while is_open || !inbox.is_empty() || !self.long.is_empty() {
            self.context.heartbeats.beat(self.index);
            tokio::select! {
                count = queue.recv_many(&mut came, QUEUED_REQUESTS_MAX), if is_open => {
                    is_open = count > 0;
                }
                _ = ticks.tick() => {
                    // During a restore the arrival times of records drive the clock.
                    if !self.shard.is_restoring() && !self.may_have_lost_partitions() {
                        self.pass_time(self.clock.now_ms(), self.pace.most(), &mut due);
                        self.name_holder();
                        self.release_aged();
                        if self.shard.behind() > 0 {
                            ticks.reset_immediately();
                        }
                    }
                }
                judged = self.long.judged() => {
                    let now_ms = self.clock.now_ms();
                    self.guarded(now_ms, &mut due, |own, _| own.conclude_long(judged));
                }
                () = ready(()), if !inbox.is_empty() && !is_held => {}
            }
            // The fair queue can only order the messages that it holds.
            if !queue.is_empty() {
                queue.recv_many(&mut came, QUEUED_REQUESTS_MAX).await;
            }
            came.drain(..).for_each(|message| inbox.put(message));
            is_held = !self.work_off(&mut inbox, &mut queue, &mut due).await;
            self.long.close_if(inbox.has_barrier());
            let now_ms = self.clock.now_ms();
            self.guarded(now_ms, &mut due, |own, _| own.begin_long());
        }
        due.extend(self.long.give_up());
        let now_ms = self.clock.now_ms();
        // Traces of an unfinished restore may lack records. All are in the log: the next process
        // judges them completely.
        if !self.shard.is_restoring() {
            self.guarded(now_ms, &mut due, |own, due| {
                own.judge_all(Completion::Shutdown, now_ms, due);
            });
        }
        self.context.metrics.shard(self.index, &mut self.shard);
        self.context.heartbeats.end(self.index);
    }

    /// Handles part of the inbox, at most one expensive trace, so that new messages get a turn;
    /// false if everything waiting is held up.
    async fn work_off(
        &mut self,
        inbox: &mut Inbox,
        queue: &mut mpsc::Receiver<ShardMessage>,
        due: &mut Vec<Due>,
    ) -> bool {
        let slice = self.pace.intake(self.shard.behind() > 0);
        let mut steps = 0;
        let mut bytes = 0;
        for _ in 0..slice.requests {
            match inbox.take(&self.long) {
                Some(ShardMessage::Batch { batch, table, at_ms, room }) => {
                    steps += self.arrived((batch, table), at_ms, due);
                    bytes += room.0.bytes();
                }
                Some(ShardMessage::ConfigUpdate(update)) => self.update(update).await,
                Some(ShardMessage::DropRevoked) => self.drop_revoked(due).await,
                Some(ShardMessage::Restore { priors }) => self.restore(priors),
                Some(ShardMessage::Resume { now_ms }) => self.resume(now_ms, due),
                // Requests with a reserved place are acknowledged: `close` still admits them.
                Some(ShardMessage::Drain) => queue.close(),
                None => return false,
            }
            if steps > SLICE_STEPS || bytes > slice.bytes {
                break;
            }
        }
        true
    }

    fn restore(&mut self, priors: Arc<EarlierVerdicts>) {
        let repeats_known = self.sessions().is_some() || self.context.forwards.wants_judgements();
        self.shard.restore(Arc::unwrap_or_clone(priors), repeats_known);
    }

    fn resume(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        self.clock.set(now_ms);
        self.guarded(now_ms, due, |own, _| own.shard.resume(now_ms));
    }

    /// Advances the shard to a time and judges due traces, at most `most`.
    fn pass_time(&mut self, now_ms: u64, most: usize, due: &mut Vec<Due>) {
        self.guarded(now_ms, due, |own, due| {
            let Self { shard, long, .. } = &mut *own;
            shard.tick_unless(now_ms, most, |sender| long.holds(sender), due);
            let steps = own.judge_due(due);
            own.pace.took(steps);
            own.context.metrics.shard(own.index, &mut own.shard);
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
        // Records of a partition owned by others are theirs.
        if !batch.is_retired() {
            self.guarded(now_ms, due, |own, due| steps = own.take_in(batch, is_old, now_ms, due));
        }
        self.context.backlog.unqueue(records, is_spans);
        steps
    }

    /// Adds records and judges traces that became due; returns the steps taken.
    fn take_in(
        &mut self,
        batch: Arc<SpanBatch>,
        is_old: bool,
        now_ms: u64,
        due: &mut Vec<Due>,
    ) -> u64 {
        self.shard.add(&batch, now_ms, due);
        if is_old {
            let group = batch.sender.group;
            let keys = batch.runs.iter().map(|run| group.key(run.trace_id));
            keys.for_each(|key| self.shard.lacks_facts(key));
        }
        if let Ok(batch) = Arc::try_unwrap(batch) {
            self.context.pool.give_back(batch);
        }
        self.judge_due(due) + self.judge_running()
    }

    fn judge_all(&mut self, completion: Completion, now_ms: u64, due: &mut Vec<Due>) {
        self.shard.drain(completion, now_ms, due);
        self.judge_due(due);
    }

    /// Judges due traces; returns the steps taken.
    fn judge_due(&mut self, due: &mut Vec<Due>) -> u64 {
        self.notify_ignored();
        if due.is_empty() {
            return 0;
        }
        let mut taken = 0;
        let now_ns = now_ns();
        let mut left = due.len();
        for some in due.chunks(JUDGED_MAX) {
            let started = Instant::now();
            let mut evaluations =
                Vec::with_capacity(some.len() * self.context.setup.evaluators.evaluators().len());
            let mut judged = JudgedCounts::default();
            let mut said = Vec::with_capacity(some.len());
            let mut notes = Vec::new();
            let mut claims = Vec::with_capacity(some.len());
            for due in some {
                let before = evaluations.len();
                self.context.heartbeats.beat(self.index);
                if self.is_revoked(due) {
                    continue;
                }
                if self.long.has(due.handle) {
                    self.put_long(*due);
                    continue;
                }
                let mut out = TraceAnswer { evaluations: &mut evaluations, asked: Vec::new() };
                let Some(done) = self.evaluate_one(due, now_ns, &mut judged, &mut out) else {
                    taken += ATTEMPT_STEPS;
                    self.put_long(*due);
                    continue;
                };
                let mut asked = out.asked;
                self.notify_forwards(due, &evaluations[before..], &asked);
                if due.is_silent {
                    evaluations.truncate(before);
                    asked.clear();
                }
                let asked = self.context.dispatchers.unless_unasked(asked, &mut evaluations);
                self.supersede(due.handle, &mut evaluations[before..]);
                if !asked.is_empty() {
                    self.hand_out_asking(due, evaluations.split_off(before), asked);
                } else if evaluations.len() > before {
                    notes.extend(self.note_of(due));
                    claims.push(self.shard.claims(due.handle));
                }
                said.push((due, done));
            }
            self.context.metrics.judged(&judged, started.elapsed(), &self.context.setup.evaluators);
            self.hand_out(evaluations, claims.into_iter().collect(), notes);
            for (due, (reported, steps)) in said {
                taken += steps;
                self.settle(due, reported, steps);
            }
            left -= some.len();
            let unjudged = self.shard.open_count() + self.long.len() + left;
            self.context.backlog.set_traces(self.index, unjudged);
        }
        due.clear();
        taken
    }

    /// Notes in the shard that a due trace was judged, or lost.
    fn settle(&mut self, due: &Due, reported: Option<Vec<Reported>>, steps: u64) {
        self.shard.charge_steps(due.handle, ChargedSteps { judged: steps, early: 0 });
        match reported {
            Some(reported) => self.shard.keep_reported(due.handle, reported),
            None => self.shard.undo_judgement(due),
        }
        self.shard.done(due.handle);
    }

    /// Sets the verdicts superseded by evaluations of a trace, and remembers the new ones.
    fn supersede(&mut self, handle: Handle, evaluations: &mut [Evaluation]) {
        if !evaluations.is_empty() {
            let mut verdicts = self.shard.verdicts(handle);
            verdicts.supersede(evaluations);
            self.shard.keep_verdicts(handle, verdicts);
        }
    }

    /// Logs the trace that holds most of a filling log.
    fn name_holder(&self) {
        let Some(journal) = &self.context.journal else { return };
        journal.look_for_holder((LogHolder::Trace, self.index), || {
            let held = self.shard.traces().map(|it| (it.sent_id(), it.claims.record_bytes()));
            held.max_by_key(|(_, bytes)| *bytes)
        });
        if self.index == 0 {
            journal.look_for_holder((LogHolder::Forward, 0), || journal.held_by_forwards());
        }
    }

    /// Returns the log's note of a judged trace, if there is a log.
    fn note_of(&mut self, due: &Due) -> Option<(JudgedNote, NoteCell)> {
        let journal = self.context.journal.as_ref()?;
        let trace = self.shard.trace(due.handle)?;
        let note = journal.has_all_of(trace).then(|| note(due, trace))?;
        Some((note, self.shard.notes(due.handle)))
    }

    /// Returns the note of a judged trace without its cell.
    fn note_of_trace(&self, due: &Due, trace: &TraceSpans) -> Option<JudgedNote> {
        let journal = self.context.journal.as_ref()?;
        journal.has_all_of(trace).then(|| note(due, trace))
    }

    /// Notes the judged traces, then passes their evaluations on; a receipt claims their evidence
    /// until delivery.
    fn hand_out(&self, evaluations: Vec<Evaluation>, claims: Claims, notes: JudgedTraces) {
        if evaluations.is_empty() {
            return;
        }
        self.context.metrics.evaluations(&evaluations);
        let receipt = self.context.receipt(claims, notes);
        (self.context.outlet)(evaluations, receipt);
    }

    /// Returns the sender to the session worker, while an evaluator judges sessions.
    fn sessions(&self) -> Option<&SessionSender> {
        self.sessions.as_ref().filter(|_| self.context.setup.evaluators.has_session_level())
    }

    fn hand_to_session(
        &self,
        key: Option<SessionKey>,
        (due, trace): (&Due, &TraceSpans),
        table: &Arc<Table>,
    ) {
        let (Some(sessions), Some(key)) = (self.sessions(), key) else { return };
        if !sessions.hand_over(key, (trace, due.digest), table) {
            self.context.metrics.stages.session_losses.add("queue_full", 1);
        }
    }

    /// Takes the memory for reading a trace; `None` if it alone exceeds the limit.
    fn reserve(&self, trace: &TraceSpans) -> Option<ReadingMemory> {
        reserve(&self.context.judging, std::iter::once(trace), || {
            self.context.heartbeats.beat(self.index)
        })
    }
}

impl PanicRecovery for Worker {
    type Due = Due;

    fn panicked(&self, again: bool) {
        self.context.metrics.stages.panics.add(1);
        if again {
            tracing::error!(shard = self.index, "a shard panicked again; its open traces are lost");
            return;
        }
        let traces = self.shard.open_count();
        tracing::error!(shard = self.index, traces, "a shard panicked; it judges its open traces");
    }

    fn evaluate_rest(&mut self, now_ms: u64, due: &mut Vec<Due>) {
        due.retain(|due| self.shard.is_due(due));
        due.extend(self.long.give_up());
        self.judge_all(Completion::Evicted, now_ms, due);
    }

    fn reset(&mut self, now_ms: u64) {
        self.context.metrics.shard(self.index, &mut self.shard);
        let lost = self.shard.open_spans() as u64;
        self.context.metrics.stages.dropped_spans.add(FAULT, lost);
        self.shard = (self.empty)(now_ms);
        self.epoch += 1;
        // Traces queued while the open ones were judged belong to the old shard.
        self.long.give_up();
        self.long.is_off = false;
        self.shard.watch_if(self.context.setup.evaluators.reports_early());
    }

    fn report_open(&mut self) {
        let unjudged = self.shard.open_count() + self.long.len();
        self.context.backlog.set_traces(self.index, unjudged);
        let before = std::mem::replace(&mut self.held, self.shard.bytes());
        self.memory.change(before, self.held);
    }
}

fn note(due: &Due, trace: &TraceSpans) -> JudgedNote {
    let records = trace.claims.positions().collect();
    let Due { revision, digest, revised, .. } = *due;
    JudgedNote { trace_id: trace.trace_id, revision, digest, revised, records }
}

pub(super) fn elapsed_ms(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

mod asking;
mod clock;
mod context;
mod early;
mod expensive_traces;
mod inbox;
mod judgement;
mod long;
pub(super) mod long_thread;
pub(super) mod long_traces;
mod pace;
mod partitions;
mod reform;
mod verdict_notices;

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
