//! The task of the lane: time, clients and processes for what the core decides.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::core::{ExternalAction, ExternalCore};
use super::{ExternalOrder, ExternalStartError, SubjectOutlet};
use crate::external::metrics::ExternalMetrics;
use crate::external::transport::{
    Description, ExternalClient, ExternalFault, ExternalPayload, ExternalReply,
};
use spanscore_base::panics::caught_future;
use spanscore_evaluate::external::ExternalPlan;
use spanscore_net::lane::{BlockingPool, LaneWork};

/// End of a request.
pub(super) enum ExternalEnd {
    Described(usize, Result<Description, ExternalFault>),
    Answered(usize, u64, Duration, Result<ExternalReply, ExternalFault>),
}

/// A client with what it was made of; without one it is known why.
type OpenedClient = Result<(Arc<ExternalClient>, Arc<ExternalPlan>), String>;

/// The lane with all it needs to run.
pub(super) struct ExternalRunner {
    core: ExternalCore,
    /// By channel.
    clients: Vec<OpenedClient>,
    outlet: SubjectOutlet,
    metrics: ExternalMetrics,
    under_way: JoinSet<ExternalEnd>,
    aside: BlockingPool,
    start: Instant,
}

impl ExternalRunner {
    pub(super) fn new(core: ExternalCore, outlet: SubjectOutlet, metrics: ExternalMetrics) -> Self {
        let clients = Vec::new();
        let under_way = JoinSet::new();
        let start = Instant::now();
        Self { core, clients, outlet, metrics, under_way, aside: BlockingPool::new(), start }
    }

    /// Prepares the clients of the evaluators that are known, and looks for them; gives those that
    /// cannot be used.
    pub(super) fn open(&mut self) -> Vec<ExternalStartError> {
        let actions = self.core.poll(0);
        self.perform(actions);
        let clients = self.clients.iter().enumerate();
        let failed = clients.filter_map(|(channel, client)| {
            let error = client.as_ref().err()?.clone();
            Some(ExternalStartError { evaluator: self.core.name(channel).to_owned(), error })
        });
        failed.collect()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn perform(&mut self, actions: Vec<ExternalAction>) {
        for action in actions {
            match action {
                ExternalAction::Open(channel, plan) => {
                    let client = ExternalClient::new(&plan).map(|client| (client, plan));
                    self.metrics.begin(self.core.name(channel));
                    self.clients.push(client);
                }
                ExternalAction::Close(channel) => {
                    self.clients[channel] = Err("its settings were replaced".to_owned());
                }
                ExternalAction::Describe(channel) => self.describe(channel),
                ExternalAction::Send { channel, id, request } => self.send(channel, id, request),
                ExternalAction::Emit { subject, evaluations, receipt } => {
                    (self.outlet)(subject, evaluations, receipt);
                }
                ExternalAction::Count(count) => {
                    let core = &self.core;
                    self.metrics.count(|channel| core.name(channel), &count);
                }
            }
        }
    }

    fn client(&self, channel: usize) -> OpenedClient {
        let none = || Err("it was not set up".to_owned());
        self.clients.get(channel).cloned().unwrap_or_else(none)
    }

    fn describe(&mut self, channel: usize) {
        let client = self.client(channel);
        let name = self.core.name(channel).to_owned();
        self.under_way.spawn(async move {
            let wanted = name.split_once('/').map_or(&*name, |(_, name)| name);
            let describing = async {
                let (client, plan) = client.map_err(unusable)?;
                client.describe(&plan, wanted).await
            };
            let said = caught_future(describing).await.unwrap_or_else(|_| Err(internal()));
            ExternalEnd::Described(channel, said)
        });
    }

    fn send(&mut self, channel: usize, id: u64, request: ExternalPayload) {
        let client = self.client(channel);
        let aside = self.aside.clone();
        let count_gaps = self.metrics.gaps(self.core.name(channel));
        self.under_way.spawn(async move {
            let started = Instant::now();
            let asking = async {
                let (client, plan) = client.map_err(unusable)?;
                let made = aside.run(move || request.ready(&plan)).await;
                let (request, gaps) = made.map_err(|_| internal())??;
                count_gaps(gaps);
                client.evaluate(&request).await
            };
            let answer = caught_future(asking).await.unwrap_or_else(|_| Err(internal()));
            ExternalEnd::Answered(channel, id, started.elapsed(), answer)
        });
    }
}

impl LaneWork for ExternalRunner {
    type Message = ExternalOrder;
    type Ended = ExternalEnd;

    async fn step(&mut self) {
        let actions = self.core.poll(self.now_ms());
        self.perform(actions);
    }

    fn take_in(&mut self, order: ExternalOrder) -> bool {
        match order {
            ExternalOrder::Ask(asked, receipt, place) => {
                self.core.arrive(self.now_ms(), *asked, receipt, place);
                true
            }
            ExternalOrder::Deadline(deadline_ms) => {
                self.core.patience.deadline_ms = deadline_ms;
                true
            }
            ExternalOrder::Close { leaves } => {
                self.core.close(leaves);
                false
            }
        }
    }

    fn ended(&mut self, ended: ExternalEnd) {
        let now_ms = self.now_ms();
        match ended {
            ExternalEnd::Described(channel, said) => self.core.described(now_ms, channel, said),
            ExternalEnd::Answered(channel, id, took, answer) => {
                self.metrics.took(self.core.name(channel), took);
                self.core.answered(now_ms, id, answer);
            }
        }
    }

    fn sleep(&self) -> Option<Duration> {
        let wake = self.core.next_wake_ms();
        wake.map(|at| Duration::from_millis(at.saturating_sub(self.now_ms())))
    }

    fn is_empty(&self) -> bool {
        self.core.is_empty()
    }

    fn under_way(&mut self) -> &mut JoinSet<ExternalEnd> {
        &mut self.under_way
    }

    /// Drops all that is under way, and with it the processes.
    async fn abandon(&mut self) {
        let actions = self.core.abandon();
        self.perform(actions);
    }
}

fn unusable(error: String) -> ExternalFault {
    ExternalFault::Final { error_type: "external_not_usable", error }
}

fn internal() -> ExternalFault {
    ExternalFault::Final {
        error_type: "internal_error",
        error: "asking an external evaluator ended by an internal error".to_owned(),
    }
}
