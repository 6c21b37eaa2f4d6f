//! Dispatcher of tasks to external evaluators, beside the shards: handle, start and shutdown.
//!
//! [`ExternalBackend`] decides without clock and I/O; the [`ExternalExecutor`] performs its
//! instructions. No started process outlives them.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use spanscore_net::backoff::millis;
use spanscore_net::metrics::{Meter, unread_meter};

use super::backend::{ExternalBackend, ExternalScheduler};
use super::executor::{ExternalCommand, ExternalExecutor};
use super::metrics::ExternalMetrics;
use crate::scheduler::{self, Driver, EmissionOutlet, SchedulerHandle, SchedulerTask, WaitLimits};
use spanscore_base::model::{Evaluation, Receipt, Sender, WaitingRoom};
use spanscore_evaluate::ExternalRequest;
use spanscore_evaluate::external::ExternalPlan;

/// Consumer of the evaluations of one task, with the receipt to hold until they are delivered.
type ExternalOutlet = Arc<dyn Fn(Vec<Evaluation>, Option<Receipt>) + Send + Sync>;

/// Limits of the dispatcher.
#[derive(Clone, Copy, Debug)]
pub struct ExternalSettings {
    /// Time for an answer from the arrival of a task.
    pub deadline: Duration,
    /// Limit on waiting tasks.
    pub waiting_max: usize,
    /// Limit on their bytes.
    pub waiting_bytes_max: usize,
    /// True if unanswered tasks are left to the next process at shutdown.
    pub leaves: bool,
}

/// Sender of tasks to the dispatcher. Cheap to clone.
#[derive(Clone)]
pub struct ExternalHandle(SchedulerHandle<ExternalRequest, ExternalCommand>);

impl ExternalHandle {
    /// Sends tasks of a sender without waiting. Tasks without room come out at once, as not
    /// evaluable.
    pub fn ask(&self, asked: Vec<ExternalRequest>, receipt: Option<&Receipt>, sender: Sender) {
        self.0.ask(asked, receipt, sender);
    }
}

/// Start-up error: the settings of an evaluator are unusable.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the evaluator `{evaluator}`: {error}")]
pub struct ExternalStartError {
    /// Name of the evaluator.
    pub evaluator: String,
    /// Cause.
    pub error: String,
}

/// Running dispatcher.
pub struct ExternalDispatcher(SchedulerTask<ExternalRequest, ExternalCommand>);

impl ExternalDispatcher {
    /// Starts on the current runtime; evaluators in `known` are queried at once.
    ///
    /// # Errors
    /// An evaluator with unusable settings, such as an unreadable file.
    pub fn start<'e>(
        known: impl Iterator<Item = (&'e str, &'e Arc<ExternalPlan>)>,
        settings: &ExternalSettings,
        outlet: ExternalOutlet,
        meter: &Meter,
    ) -> Result<Self, ExternalStartError> {
        let room = WaitingRoom::new(settings.waiting_max, settings.waiting_bytes_max);
        let mut scheduler = scheduler_of(millis(settings.deadline), true);
        let known: Vec<_> = known.collect();
        for (name, plan) in &known {
            scheduler.channel(name, plan);
        }
        let executor = ExternalExecutor::new(ExternalMetrics::new(meter, &room));
        let outlet: EmissionOutlet =
            Arc::new(move |emission| outlet(emission.evaluations, emission.receipt));
        let mut driver = Driver::new(executor, scheduler, outlet);
        driver.poll();
        match driver.executor.unusable() {
            None => Ok(Self(SchedulerTask::spawn(OF, driver, room, settings.leaves))),
            Some((channel, error)) => {
                let evaluator = known[channel].0.to_owned();
                Err(ExternalStartError { evaluator, error: error.to_owned() })
            }
        }
    }

    /// Returns a sender of tasks.
    pub fn handle(&self) -> ExternalHandle {
        ExternalHandle(self.0.handle.clone())
    }

    /// Applies other limits from now on. New or changed evaluators are queried at their first task.
    pub fn limit(&self, settings: &ExternalSettings) {
        self.0.handle.resize((settings.waiting_max, settings.waiting_bytes_max));
        self.0.handle.command(ExternalCommand::Deadline(millis(settings.deadline)));
    }

    /// Closes the dispatcher and waits for requests in flight until `no_more_time`. Unsent tasks
    /// are then left to the next process if there is a log, else not evaluable. All started
    /// processes end.
    pub async fn shutdown(self, no_more_time: impl Future<Output = ()>) {
        self.0.shutdown(no_more_time).await;
    }
}

/// Name of the targets in log lines.
const OF: &str = "external evaluators";

fn scheduler_of(deadline_ms: u64, waits: bool) -> ExternalScheduler {
    ExternalScheduler::new(ExternalBackend::new(waits), WaitLimits { settle_ms: 0, deadline_ms })
}

/// Runs all tasks; returns their evaluations in the same order. No task waits for an unavailable
/// evaluator.
pub async fn ask_all(asked: Vec<ExternalRequest>) -> Vec<Vec<Evaluation>> {
    let start = |outlet| {
        let room = WaitingRoom::new(usize::MAX, usize::MAX);
        let executor = ExternalExecutor::new(ExternalMetrics::new(&unread_meter(), &room));
        let driver = Driver::new(executor, scheduler_of(u64::MAX, false), outlet);
        Ok::<_, Infallible>(SchedulerTask::spawn(OF, driver, room, false))
    };
    let Ok(all) = scheduler::ask_all(asked, start).await;
    all
}
