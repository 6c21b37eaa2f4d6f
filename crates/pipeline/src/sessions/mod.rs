//! Session worker: owner of all sessions, one task beside the shards.
//!
//! While an evaluator judges sessions, shards hand over a copy of each judged trace. The queue is
//! bounded; a trace beyond it is missing from its session, and counted. Long judgements run on a
//! separate thread ([`long`]), so no session delays others.

mod judging;
mod long;
mod queued_traces;
mod verdicts;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::journal::LogHolder;
use super::metrics::SESSION_VERDICTS;
use super::panic_recovery::PanicRecovery;
use super::reload::setup::{ConfigUpdate, Translator};
use super::worker::{TICK, WorkerContext, elapsed_ms};
use spanscore_assemble::{DueSession, SessionKeyFields, Sessions};
use spanscore_base::model::{Completion, MemoryQuota, SessionKey, TraceSpans};
use spanscore_base::visible;
use spanscore_extract::Table;

pub(super) use long::{LongSessions, SessionTask};
pub(super) use queued_traces::QueuedTraces;
pub(super) use verdicts::SessionVerdicts;

/// Limit on traces waiting for the session worker.
pub(super) const QUEUED_TRACES_MAX: usize = 4096;
/// Sessions judged before the next traces are taken in.
const JUDGED_MAX: usize = 8;

/// Message to the session worker.
pub(super) enum SessionMessage {
    /// Judged trace.
    Trace(SessionTrace),
    /// Config update.
    ConfigUpdate(Arc<ConfigUpdate>),
    /// Revocation of partitions: their traces are dropped.
    DropRevoked,
}

/// Judged trace on its way to its session.
pub(super) struct SessionTrace {
    pub(super) key: SessionKey,
    pub(super) trace: Arc<TraceSpans>,
    pub(super) digest: [u8; 16],
    /// Table that extracted its records.
    table: Arc<Table>,
    /// Bytes charged while it is queued.
    bytes: usize,
}

/// Sender of judged traces.
#[derive(Clone)]
pub(super) struct SessionSender {
    pub(super) fields: SessionKeyFields,
    pub(super) queue: mpsc::Sender<SessionMessage>,
    /// Account of queued traces.
    pub(super) queued_traces: Arc<QueuedTraces>,
}

impl SessionSender {
    /// Sends a copy of a trace; returns false without room.
    pub(super) fn hand_over(
        &self,
        key: SessionKey,
        (trace, digest): (&TraceSpans, [u8; 16]),
        table: &Arc<Table>,
    ) -> bool {
        let Some(bytes) = self.queued_traces.take(trace.sender, trace.bytes_with_resources())
        else {
            return false;
        };
        let sender = trace.sender;
        let trace = Arc::new(trace.clone());
        let table = Arc::clone(table);
        let trace = SessionTrace { key, trace, digest, table, bytes };
        let sent = self.queue.try_send(SessionMessage::Trace(trace)).is_ok();
        if !sent {
            self.queued_traces.give_back(sender, bytes);
        }
        sent
    }
}

/// Sessions with the context for judging them.
pub(super) struct SessionWorker {
    pub(super) context: WorkerContext,
    pub(super) sessions: Sessions,
    /// Memory quota of sessions and of queued traces.
    pub(super) memory: Arc<MemoryQuota>,
    /// Bytes of the sessions at the last report to the quota.
    pub(super) held: usize,
    /// Limit on bytes duplicated by long sessions: a config update copied their records.
    pub(super) copied: usize,
    /// Translator of records to the current table.
    pub(super) translator: Translator,
    /// Index of this worker among the heartbeats.
    pub(super) place: usize,
    /// Verdicts given on sessions, for revisions.
    pub(super) verdicts: SessionVerdicts,
    /// Sessions that exceed a slice.
    pub(super) long: LongSessions,
    /// Account of queued traces.
    pub(super) queued_traces: Arc<QueuedTraces>,
}

impl SessionWorker {
    /// Runs until every shard has ended, then judges open sessions.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<SessionMessage>) {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Vec::new();
        loop {
            self.context.heartbeats.beat(self.place);
            tokio::select! {
                received = queue.recv() => match received {
                    Some(message) => self.receive(message, elapsed_ms(start), &mut due),
                    None => break,
                },
                judged = self.long.judged() => {
                    self.guarded(elapsed_ms(start), &mut due, |own, _| own.conclude_long(judged));
                }
                _ = ticks.tick() => {
                    self.pass_time(elapsed_ms(start), &mut due);
                    if self.sessions.behind() > 0 {
                        ticks.reset_immediately();
                    }
                }
            }
            self.guarded(elapsed_ms(start), &mut due, |own, _| own.long.begin());
        }
        self.end_long().await;
        self.guarded(elapsed_ms(start), &mut due, |own, due| {
            own.judge_all(Completion::Shutdown, due);
        });
        self.context.metrics.sessions(&mut self.sessions);
        self.context.heartbeats.end(self.place);
    }

    fn receive(&mut self, message: SessionMessage, now_ms: u64, due: &mut Vec<DueSession>) {
        match message {
            SessionMessage::Trace(received) => {
                let SessionTrace { key, mut trace, digest, table, bytes } = received;
                let sender = trace.sender;
                if let Some(trace) = Arc::get_mut(&mut trace) {
                    self.bring_up_to_date(trace, &table);
                }
                self.guarded(now_ms, due, |own, due| {
                    own.sessions.add(key, (trace, digest), now_ms, due);
                    own.judge_due(due);
                });
                self.queued_traces.give_back(sender, bytes);
            }
            SessionMessage::ConfigUpdate(update) => self.update(&update),
            SessionMessage::DropRevoked => {
                self.guarded(now_ms, due, |own, _| own.sessions.drop_revoked());
            }
        }
    }

    /// Judges some due sessions.
    fn pass_time(&mut self, now_ms: u64, due: &mut Vec<DueSession>) {
        self.guarded(now_ms, due, |own, due| {
            own.sessions.pass(now_ms);
            for _ in 0..JUDGED_MAX {
                let long = &own.long;
                let next = own.sessions.next_due(now_ms, |sender| long.holds(sender));
                let Some(next) = next else { break };
                due.push(next);
                own.judge_due(due);
            }
        });
        self.name_holder();
        self.context.metrics.sessions(&mut self.sessions);
        let forgotten = self.verdicts.take_forgotten();
        if forgotten > 0 {
            self.context.metrics.stages.forgotten.add(SESSION_VERDICTS, forgotten);
        }
    }

    /// Logs the session that holds most of a filling log.
    fn name_holder(&self) {
        if let Some(journal) = &self.context.journal {
            journal.look_for_holder((LogHolder::Session, 0), || {
                let largest = self.sessions.held().max_by_key(|(_, bytes)| *bytes);
                largest.map(|(key, bytes)| (visible_name(key), bytes))
            });
        }
    }

    /// Applies a config update, also to the traces of open sessions.
    fn update(&mut self, ConfigUpdate { setup, held }: &ConfigUpdate) {
        let before = Arc::clone(self.context.setup.resolver.table());
        let translator = &mut self.translator;
        self.sessions.reform(|trace| {
            translator.translate(&before, setup.table(), &mut trace.arena, &trace.spans);
        });
        self.copied = self.long.bytes();
        self.context.setup = setup.clone();
        self.sessions.limit(held.sessions);
        self.context.trace_steps = u64::from(held.limits.trace_steps);
        self.verdicts.limit(&held.sessions, &self.memory);
    }

    fn bring_up_to_date(&mut self, trace: &mut TraceSpans, table: &Arc<Table>) {
        let today = self.context.setup.resolver.table();
        self.translator.translate(table, today, &mut trace.arena, &trace.spans);
    }
}

/// Limit on the characters of a session id in a log line.
const NAME_CHARS_MAX: usize = 64;

fn visible_name(key: &SessionKey) -> String {
    let id: String = key.session_id.chars().take(NAME_CHARS_MAX).collect();
    visible::line(id).to_string()
}

impl PanicRecovery for SessionWorker {
    type Due = DueSession;

    fn panicked(&self, again: bool) {
        self.context.metrics.stages.panics.add(1);
        if again {
            tracing::error!("assembling sessions panicked again; the open ones are lost");
        } else {
            tracing::error!("assembling sessions panicked; the open ones are judged");
        }
    }

    fn evaluate_rest(&mut self, _now_ms: u64, due: &mut Vec<DueSession>) {
        self.judge_all(Completion::Evicted, due);
    }

    fn reset(&mut self, now_ms: u64) {
        self.sessions.reset(now_ms);
    }

    fn report_open(&mut self) {
        self.context.backlog.set_sessions(self.sessions.open_count() + self.long.len());
        self.copied = self.copied.min(self.long.bytes());
        let held = self.sessions.bytes() + self.verdicts.bytes() + self.copied;
        let before = std::mem::replace(&mut self.held, held);
        self.memory.change(before, self.held);
    }
}

#[cfg(test)]
mod tests;
