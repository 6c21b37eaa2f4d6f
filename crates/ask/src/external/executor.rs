//! Executor of the external evaluators' scheduler: clients, processes and metrics.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backend::{ExternalBackend, ExternalEffect, ExternalScheduler};
use super::metrics::ExternalMetrics;
use super::transport::{Description, ExternalClient, ExternalFault, ExternalReply};
use crate::scheduler::{Executor, SchedulerBackend, SilentEnd};
use spanscore_base::panics::caught_future;
use spanscore_evaluate::external::ExternalPlan;
use spanscore_net::blocking::BlockingPool;

/// Command to the scheduler.
pub(super) enum ExternalCommand {
    /// Changes the time for an answer, milliseconds.
    Deadline(u64),
}

/// Result of a task.
pub(super) enum ExternalEnd {
    Described(usize, Result<Description, ExternalFault>),
    Answered(usize, u64, Duration, Result<ExternalReply, ExternalFault>),
}

/// Client with its plan, or the reason that there is none.
type OpenedClient = Result<(Arc<ExternalClient>, Arc<ExternalPlan>), String>;

/// Clients of external evaluators.
pub(super) struct ExternalExecutor {
    /// By channel.
    clients: Vec<OpenedClient>,
    metrics: ExternalMetrics,
    pool: BlockingPool,
}

impl ExternalExecutor {
    /// Returns an executor without clients.
    pub(super) fn new(metrics: ExternalMetrics) -> Self {
        Self { clients: Vec::new(), metrics, pool: BlockingPool::default() }
    }

    /// Returns the first channel without a client, and the reason.
    pub(super) fn unusable(&self) -> Option<(usize, &str)> {
        let mut clients = self.clients.iter().enumerate();
        clients.find_map(|(channel, client)| Some((channel, client.as_ref().err()?.as_str())))
    }

    fn client(&self, channel: usize) -> OpenedClient {
        let none = || Err("it was not set up".to_owned());
        self.clients.get(channel).cloned().unwrap_or_else(none)
    }
}

impl Executor for ExternalExecutor {
    type Backend = ExternalBackend;
    type Command = ExternalCommand;
    type Ended = ExternalEnd;

    fn perform(
        &mut self,
        backend: &ExternalBackend,
        effect: ExternalEffect,
        tasks: &mut JoinSet<ExternalEnd>,
    ) {
        match effect {
            ExternalEffect::Open(channel, plan) => {
                let client = ExternalClient::new(&plan).map(|client| (client, plan));
                self.metrics.begin(backend.name(channel));
                self.clients.push(client);
            }
            ExternalEffect::Close(channel) => {
                self.clients[channel] = Err("its settings were replaced".to_owned());
            }
            ExternalEffect::Describe(channel) => {
                let client = self.client(channel);
                let name = backend.name(channel).to_owned();
                tasks.spawn(async move {
                    let describing = async {
                        let (client, plan) = client.map_err(unusable)?;
                        client.describe(&plan, &name).await
                    };
                    let answer = caught_future(describing).await;
                    ExternalEnd::Described(channel, answer.unwrap_or_else(|_| Err(internal())))
                });
            }
            ExternalEffect::Send { channel, id, request } => {
                let client = self.client(channel);
                let pool = self.pool.clone();
                let count_gaps = self.metrics.gaps(backend.name(channel));
                tasks.spawn(async move {
                    let started = Instant::now();
                    let asking = async {
                        let (client, plan) = client.map_err(unusable)?;
                        let made = pool.run(move || request.ready(&plan)).await;
                        let (request, gaps) = made.map_err(|_| internal())??;
                        count_gaps(gaps);
                        client.evaluate(&request).await
                    };
                    let answer = caught_future(asking).await.unwrap_or_else(|_| Err(internal()));
                    ExternalEnd::Answered(channel, id, started.elapsed(), answer)
                });
            }
            ExternalEffect::Count(channel, count) => {
                self.metrics.count(backend.name(channel), &count);
            }
        }
    }

    fn count(&self, end: SilentEnd) {
        self.metrics.ended(end);
    }

    fn command(&mut self, scheduler: &mut ExternalScheduler, command: ExternalCommand) {
        let ExternalCommand::Deadline(deadline_ms) = command;
        scheduler.limits.deadline_ms = deadline_ms;
    }

    fn ended(&mut self, now_ms: u64, scheduler: &mut ExternalScheduler, ended: ExternalEnd) {
        match ended {
            ExternalEnd::Described(channel, answer) => {
                scheduler.described(now_ms, channel, answer);
            }
            ExternalEnd::Answered(channel, id, took, answer) => {
                self.metrics.took(scheduler.backend.name(channel), took);
                scheduler.answered(now_ms, id, answer);
            }
        }
    }
}

fn unusable(error: String) -> ExternalFault {
    ExternalFault::Final("external_not_usable", error)
}

fn internal() -> ExternalFault {
    let error = "asking an external evaluator ended by an internal error";
    ExternalFault::Final("internal_error", error.to_owned())
}
