//! The task of the lane: time, clients and processes for what the core decides.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::core::{ExternalAction, ExternalCore};
use super::{ExternalOrder, ExternalStartError, SubjectOutlet};
use crate::evaluate::external::ExternalPlan;
use crate::external::metrics::ExternalMetrics;
use crate::external::transport::{
    Description, ExternalClient, ExternalFault, ExternalReply, ExternalRequest,
};
use crate::panics::caught_future;

/// Tasks that are taken in at once.
const TAKEN_MAX: usize = 256;
/// The longest sleep without an event.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// What a request came to.
enum ExternalEnd {
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
    requests: JoinSet<ExternalEnd>,
    start: Instant,
}

impl ExternalRunner {
    pub(super) fn new(core: ExternalCore, outlet: SubjectOutlet, metrics: ExternalMetrics) -> Self {
        let (clients, requests) = (Vec::new(), JoinSet::new());
        Self { core, clients, outlet, metrics, requests, start: Instant::now() }
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

    /// Works until it is told to close and nothing is left, or to hurry.
    pub(super) async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<ExternalOrder>,
        hurry: CancellationToken,
    ) {
        let mut work = Vec::with_capacity(TAKEN_MAX);
        let mut is_open = true;
        loop {
            let actions = self.core.poll(self.now_ms());
            self.perform(actions);
            if !is_open && orders.is_empty() && self.core.is_empty() {
                break;
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                () = hurry.cancelled() => {
                    let actions = self.core.abandon();
                    self.perform(actions);
                    break;
                }
                Some(ended) = self.requests.join_next() => self.ended(ended),
                count = orders.recv_many(&mut work, TAKEN_MAX) => {
                    is_open &= count > 0;
                    for order in work.drain(..) {
                        is_open &= self.take_in(order);
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        // What is under way is dropped, and with it its processes.
        self.requests.shutdown().await;
    }

    /// False where no more comes.
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

    fn ended(&mut self, ended: Result<ExternalEnd, JoinError>) {
        // The task itself catches what panics.
        let Ok(ended) = ended else { return };
        let now_ms = self.now_ms();
        match ended {
            ExternalEnd::Described(channel, said) => self.core.described(now_ms, channel, said),
            ExternalEnd::Answered(channel, id, took, answer) => {
                self.metrics.took(self.core.name(channel), took);
                self.core.answered(now_ms, id, answer);
            }
        }
    }

    fn wake(&self) -> Instant {
        let now_ms = self.now_ms();
        let wake = self.core.next_wake_ms().map(|at| at.saturating_sub(now_ms));
        Instant::now() + wake.map_or(SLEEP_MAX, |wake| Duration::from_millis(wake).min(SLEEP_MAX))
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
        let (client, name) = (self.client(channel), self.core.name(channel).to_owned());
        self.requests.spawn(async move {
            let wanted = name.split_once('/').map_or(&*name, |(_, name)| name);
            let describing = async {
                let (client, plan) = client.map_err(unusable)?;
                client.describe(&plan, wanted).await
            };
            let said = caught_future(describing).await.unwrap_or_else(|_| Err(internal()));
            ExternalEnd::Described(channel, said)
        });
    }

    fn send(&mut self, channel: usize, id: u64, request: ExternalRequest) {
        let client = self.client(channel);
        self.requests.spawn(async move {
            let started = Instant::now();
            let asking = async {
                let (client, plan) = client.map_err(unusable)?;
                let making = tokio::task::spawn_blocking(move || request.ready(&plan));
                let request = making.await.map_err(|_| internal())??;
                client.evaluate(&request).await
            };
            let answer = caught_future(asking).await.unwrap_or_else(|_| Err(internal()));
            ExternalEnd::Answered(channel, id, started.elapsed(), answer)
        });
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
