//! Executor of the judges' scheduler: threads, clients, files and metrics.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backend::spent::SpentFile;
use super::backend::{JudgeBackend, JudgeEffect, JudgeScheduler};
use super::cache::QuestionKey;
use super::call::CallWatch;
use super::client::JudgeClient;
use super::dispatcher::{AnswerLog, JudgesChange};
use super::metrics::JudgeMetrics;
use super::wire::{Fault, Reply};
use crate::scheduler::{Executor, SilentEnd};
use spanscore_base::model::Outcome;
use spanscore_base::panics::caught_future;
use spanscore_evaluate::inquiry::JudgePrompt;
use spanscore_net::blocking::BlockingPool;
use spanscore_net::clock::now_ns;

/// Shortest interval of writes of the spending file.
const KEEP_SPENT: Duration = Duration::from_secs(1);

/// Command to the scheduler.
pub(super) enum JudgeCommand {
    Remember(QuestionKey, String),
    Change(JudgesChange),
}

/// Result of a task.
pub(super) enum JudgeEnd {
    /// Prompt of an inquiry for the judge with this index.
    Rendered(u64, usize, Result<JudgePrompt, Outcome>),
    /// Answer or fault of a request to the judge with this index, and its duration.
    Answered(u64, usize, Duration, Result<Reply, Fault>),
    /// Request not sent because its reservation could not be saved, with the reason.
    Unsaved(u64, String),
}

/// Clients of the judges, with their records.
pub(super) struct JudgeExecutor {
    pub(super) clients: Vec<JudgeClient>,
    pub(super) metrics: Arc<JudgeMetrics>,
    pub(super) spent_file: Option<SpentFile>,
    pub(super) log: Option<Arc<dyn AnswerLog>>,
    pub(super) watch: Option<CallWatch>,
    pub(super) pool: BlockingPool,
    pub(super) has_spent: bool,
    pub(super) saved_at: Instant,
    /// Error of the last write of the spending file.
    pub(super) unsaved: Option<String>,
}

impl JudgeExecutor {
    /// Applies a reload; requests in flight end with the old settings.
    fn change(&mut self, scheduler: &mut JudgeScheduler, change: JudgesChange) {
        scheduler.limits = change.limits;
        for (name, settings, client) in change.judges {
            let place = scheduler.backend.change(&name, settings);
            if place < self.clients.len() {
                self.clients[place] = client;
            } else {
                self.clients.push(client);
            }
        }
        self.metrics.begin(&change.asking);
    }
}

impl Executor for JudgeExecutor {
    type Backend = JudgeBackend;
    type Command = JudgeCommand;
    type Ended = JudgeEnd;

    fn perform(&mut self, _: &JudgeBackend, effect: JudgeEffect, tasks: &mut JoinSet<JudgeEnd>) {
        match effect {
            JudgeEffect::Render { id, judge, inquiry, room } => {
                let pool = self.pool.clone();
                tasks.spawn(async move {
                    let prompt = pool.run(move || inquiry.prompt(&room)).await;
                    JudgeEnd::Rendered(id, judge, prompt.unwrap_or_else(|_| Err(not_rendered())))
                });
            }
            JudgeEffect::Send { id, judge, keys, capabilities, question } => {
                let Some(client) = self.clients.get(judge).cloned() else { return };
                let log = self.log.clone();
                tasks.spawn(async move {
                    let asking = async {
                        let reply = client.ask(keys, &capabilities, &question).await?;
                        if let Some(log) = log {
                            // Logged before it is used: after a crash it is not paid again.
                            log.keep(keys.own, reply.text.clone()).await;
                        }
                        Ok(reply)
                    };
                    let started = Instant::now();
                    let answer = caught_future(asking).await.unwrap_or_else(|_| Err(panicked()));
                    JudgeEnd::Answered(id, judge, started.elapsed(), answer)
                });
            }
            JudgeEffect::Called(call) => {
                self.has_spent = self.spent_file.is_some();
                self.metrics.called(&call);
                if let Some(watch) = &self.watch {
                    watch(call.ended_at(now_ns()));
                }
            }
            JudgeEffect::Count(judge, evaluator, count) => {
                self.metrics.count(&judge, &evaluator, count);
            }
        }
    }

    fn count(&self, end: SilentEnd) {
        self.metrics.ended(end);
    }

    fn command(&mut self, scheduler: &mut JudgeScheduler, command: JudgeCommand) {
        match command {
            JudgeCommand::Remember(key, text) => scheduler.backend.remember(key, text),
            JudgeCommand::Change(change) => self.change(scheduler, change),
        }
    }

    fn ended(&mut self, now_ms: u64, scheduler: &mut JudgeScheduler, ended: JudgeEnd) {
        match ended {
            JudgeEnd::Rendered(id, judge, prompt) => scheduler.rendered(id, judge, prompt),
            JudgeEnd::Answered(id, judge, took, answer) => {
                self.metrics.took(&scheduler.backend.judges[judge].name, took);
                scheduler.answered(now_ms, id, took, answer);
            }
            JudgeEnd::Unsaved(id, error) => {
                scheduler.answered(now_ms, id, Duration::ZERO, Err(Fault::Unsaved(error)));
            }
        }
    }

    fn unsaved(&self) -> Option<Duration> {
        self.has_spent.then_some(KEEP_SPENT)
    }

    /// Saves reservations before a request is sent: after a crash it counts as spent.
    fn saves_before(&mut self, backend: &JudgeBackend, effect: &JudgeEffect) -> bool {
        let JudgeEffect::Send { judge, .. } = effect else { return false };
        let has_budget = backend.judges[*judge].settings.budget != Default::default();
        let is_bound = has_budget && self.spent_file.is_some();
        self.has_spent |= is_bound;
        is_bound
    }

    async fn save(&mut self, scheduler: &mut JudgeScheduler, at_once: bool) -> bool {
        let Some(file) = self.spent_file.as_mut().filter(|_| self.has_spent) else { return true };
        if !at_once && self.saved_at.elapsed() < KEEP_SPENT {
            return true;
        }
        self.saved_at = Instant::now();
        let error = file.keep(&scheduler.backend).await.err();
        self.has_spent = error.is_some();
        let file = file.path.display();
        match &error {
            Some(error) => {
                self.metrics.unsaved();
                if self.unsaved.is_none() {
                    tracing::error!(%file, %error, "what judges cost cannot be written, and none \
                        with a budget is asked: make the file writable, or room on its disk");
                }
            }
            None if self.unsaved.is_some() => {
                tracing::info!(%file, "what judges cost is written again");
            }
            None => {}
        }
        self.unsaved = error.map(|error| format!("{file}: {error}"));
        self.unsaved.is_none()
    }

    fn give_back(&mut self, effect: JudgeEffect, tasks: &mut JoinSet<JudgeEnd>) {
        let JudgeEffect::Send { id, .. } = effect else { return };
        let error = self.unsaved.clone().unwrap_or_default();
        tasks.spawn(async move { JudgeEnd::Unsaved(id, error) });
    }

    fn cut_off(&mut self, now_ms: u64, scheduler: &mut JudgeScheduler) {
        scheduler.cut_off(now_ms);
    }
}

fn not_rendered() -> Outcome {
    let error = "rendering the record ended by an internal error".to_owned();
    Outcome::Failed { error_type: "internal_error", error }
}

fn panicked() -> Fault {
    Fault::Rejected { status: 0, text: "an internal error".to_owned() }
}
