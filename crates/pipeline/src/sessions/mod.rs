//! Session worker: owner of all sessions, one task beside the shards.
//!
//! While an evaluator judges sessions, shards hand over a copy of each judged trace. The queue is
//! bounded; a trace that finds it full is missing from its session, and counted.

mod verdicts;

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::journal::LogHolder;
use super::metrics::{EXPENSIVE, TOO_LARGE};
use super::panic_recovery::PanicRecovery;
use super::reading::reserve;
use super::reload::setup::{ConfigUpdate, Translator};
use super::worker::{TICK, WorkerContext, elapsed_ms, unix_ns};
use spanscore_assemble::{DueSession, SessionKeyFields, Sessions, SessionsSettings};
use spanscore_base::model::{Claims, Completion, MemoryQuota, SessionKey, TraceSpans};
use spanscore_base::panics::caught;
use spanscore_base::visible;
use spanscore_engine::session::{SessionAnswer, evaluate_session};
use spanscore_extract::Table;

pub(super) use verdicts::SessionVerdicts;

/// Limit of traces that wait for the session worker.
pub(super) const QUEUED_TRACES_MAX: usize = 4096;

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
    /// Bytes charged while it is on its way.
    bytes: usize,
}

/// Sender of judged traces.
#[derive(Clone)]
pub(super) struct SessionSender {
    pub(super) fields: SessionKeyFields,
    pub(super) queue: mpsc::Sender<SessionMessage>,
    /// Memory quota of sessions; traces on their way take the part that sessions leave free.
    pub(super) memory: Arc<MemoryQuota>,
}

impl SessionSender {
    /// Sends a copy of a trace; returns false if there is no room.
    pub(super) fn hand_over(
        &self,
        key: SessionKey,
        trace: &TraceSpans,
        digest: [u8; 16],
        table: &Arc<Table>,
    ) -> bool {
        let bytes = trace.bytes_with_resources();
        if !self.memory.try_take(bytes) {
            return false;
        }
        let trace = Arc::new(trace.clone());
        let table = Arc::clone(table);
        let trace = SessionTrace { key, trace, digest, table, bytes };
        let sent = self.queue.try_send(SessionMessage::Trace(trace)).is_ok();
        if !sent {
            self.memory.give_back(bytes);
        }
        sent
    }
}

/// Sessions with all that is needed to judge them.
pub(super) struct SessionWorker {
    pub(super) context: WorkerContext,
    pub(super) settings: SessionsSettings,
    pub(super) sessions: Sessions,
    /// Memory quota of sessions and of traces on their way.
    pub(super) memory: Arc<MemoryQuota>,
    /// Bytes of the sessions at the last report to the quota.
    pub(super) held: usize,
    /// Translator of records to the current table.
    pub(super) translator: Translator,
    /// Index of this worker among the heartbeats.
    pub(super) place: usize,
    /// Verdicts given on sessions, for revisions.
    pub(super) verdicts: SessionVerdicts,
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
                received = queue.recv() => {
                    let received = match received {
                        Some(SessionMessage::Trace(received)) => received,
                        Some(SessionMessage::ConfigUpdate(update)) => {
                            self.update(&update);
                            continue;
                        }
                        Some(SessionMessage::DropRevoked) => {
                            self.guarded(elapsed_ms(start), &mut due, |own, _| {
                                own.sessions.drop_revoked();
                            });
                            continue;
                        }
                        None => break,
                    };
                    let SessionTrace { key, mut trace, digest, table, bytes } = received;
                    if let Some(trace) = Arc::get_mut(&mut trace) {
                        self.bring_up_to_date(trace, &table);
                    }
                    let now_ms = elapsed_ms(start);
                    self.guarded(now_ms, &mut due, |own, due| {
                        own.sessions.add(key, trace, digest, now_ms, due);
                        own.judge_due(due);
                    });
                    self.memory.give_back(bytes);
                }
                _ = ticks.tick() => {
                    let now_ms = elapsed_ms(start);
                    self.guarded(now_ms, &mut due, |own, due| {
                        own.sessions.tick(now_ms, due);
                        own.judge_due(due);
                    });
                    self.name_holder();
                    self.context.metrics.sessions(&mut self.sessions);
                    self.context.metrics.forgot_session_verdicts(self.verdicts.take_forgotten());
                }
            }
        }
        self.guarded(elapsed_ms(start), &mut due, |own, due| {
            own.judge_all(Completion::Shutdown, due);
        });
        self.context.metrics.sessions(&mut self.sessions);
        self.context.heartbeats.end(self.place);
    }

    /// Names the session that holds most of a log that fills.
    fn name_holder(&self) {
        if let Some(journal) = &self.context.journal {
            journal.look_for_holder((LogHolder::Session, 0), || {
                let largest = self.sessions.held().max_by_key(|(_, bytes)| *bytes);
                largest.map(|(key, bytes)| (visible_name(key), bytes))
            });
        }
    }

    /// Applies a config update, to the traces of open sessions too.
    fn update(&mut self, ConfigUpdate { setup, held }: &ConfigUpdate) {
        let before = Arc::clone(self.context.resolver.table());
        let translator = &mut self.translator;
        self.sessions.reform(|trace| {
            translator.translate(&before, setup.table(), &mut trace.arena, &trace.spans);
        });
        self.context.resolver = Arc::clone(&setup.resolver);
        self.context.evaluators = Arc::clone(&setup.evaluators);
        self.settings = held.sessions;
        self.sessions.limit(held.sessions);
        self.context.trace_steps = u64::from(held.limits.trace_steps);
        self.verdicts.limit(&held.sessions, &self.memory);
    }

    fn bring_up_to_date(&mut self, trace: &mut TraceSpans, table: &Arc<Table>) {
        let today = self.context.resolver.table();
        self.translator.translate(table, today, &mut trace.arena, &trace.spans);
    }

    fn judge_all(&mut self, completion: Completion, due: &mut Vec<DueSession>) {
        self.sessions.drain(completion, due);
        self.judge_due(due);
    }

    fn judge_due(&mut self, due: &mut Vec<DueSession>) {
        let mut left = self.sessions.open_count() + due.len();
        for due in due.drain(..) {
            self.context.heartbeats.beat(self.place);
            self.context.backlog.set_sessions(left);
            left -= 1;
            let now_ns = unix_ns(SystemTime::now());
            let traces = due.traces.iter().map(|trace| &**trace);
            let reading =
                reserve(&self.context.judging, traces, || self.context.heartbeats.beat(self.place));
            let steps = if reading.is_some() { self.context.trace_steps } else { 0 };
            let judged = caught(|| {
                evaluate_session(
                    &self.context.resolver,
                    &self.context.evaluators,
                    &due,
                    steps,
                    now_ns,
                )
            });
            let Ok(SessionAnswer { mut evaluations, skips, asked, is_spent, cut_texts }) = judged
            else {
                self.context.metrics.stages.panics.add(1);
                self.sessions.not_judged(&due);
                tracing::error!("judging a session panicked; it is lost");
                continue;
            };
            let asked = self.context.dispatchers.unless_unasked(asked, &mut evaluations);
            self.verdicts.supersede(&due, &mut evaluations);
            self.context.metrics.evaluations(&evaluations);
            let limited =
                if reading.is_none() { Some(TOO_LARGE) } else { is_spent.then_some(EXPENSIVE) };
            self.context.metrics.stages.cut_texts.add(cut_texts);
            self.context.metrics.session_judged(skips, limited, &self.context.evaluators);
            if !evaluations.is_empty() || !asked.is_empty() {
                let mut claims = Claims::default();
                due.traces.iter().for_each(|trace| claims.join(&trace.claims));
                let receipt = self.context.receipt(claims, Vec::new());
                self.context.dispatchers.ask(asked, receipt.as_ref(), (0, 0));
                if !evaluations.is_empty() {
                    (self.context.outlet)(evaluations, receipt);
                }
            }
        }
    }
}

/// Most characters of a session's id in a log line.
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

    fn start_anew(&mut self, now_ms: u64) {
        self.sessions = Sessions::new(self.settings, now_ms);
    }

    fn report_open(&mut self) {
        self.context.backlog.set_sessions(self.sessions.open_count());
        let held = self.sessions.bytes() + self.verdicts.bytes();
        let before = std::mem::replace(&mut self.held, held);
        self.memory.change(before, self.held);
    }
}

#[cfg(test)]
mod tests;
