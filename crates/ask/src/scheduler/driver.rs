//! Driver of a scheduler: the task that supplies time and results, and performs its actions.
//!
//! The task runs on the network's runtime, so its own work is short. Work that grows with a trace
//! (redaction, rendering a record) runs on a
//! [`BlockingPool`](spanscore_net::blocking::BlockingPool).

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handle::{EmissionOutlet, SchedulerMessage};
use super::{Action, Scheduler, SchedulerBackend, SilentEnd};
use spanscore_net::backoff::millis;
use spanscore_net::clock::since_1970;

/// Limit on messages taken from the channel at once.
const TAKEN_MAX: usize = 256;
/// Longest sleep without an event.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Performer of the effects of a backend: clients, metrics and files.
pub(crate) trait Executor: Send + 'static {
    /// Backend.
    type Backend: SchedulerBackend;
    /// External message other than a request.
    type Command: Send + 'static;
    /// Result of a task.
    type Ended: Send + 'static;

    /// Performs an effect, on a separate task if it takes long. Each task catches its panics.
    fn perform(
        &mut self,
        backend: &Self::Backend,
        effect: <Self::Backend as SchedulerBackend>::Effect,
        tasks: &mut JoinSet<Self::Ended>,
    );

    /// Counts a request that ended without an evaluation.
    fn count(&self, end: SilentEnd);

    /// Applies a command.
    fn command(&mut self, scheduler: &mut Scheduler<Self::Backend>, command: Self::Command);

    /// Reports the result of a task to the scheduler.
    fn ended(&mut self, now_ms: u64, scheduler: &mut Scheduler<Self::Backend>, ended: Self::Ended);

    /// Returns the longest sleep while state is unsaved.
    fn unsaved(&self) -> Option<Duration> {
        None
    }

    /// Returns true if state must be saved before the effect.
    fn saves_before(
        &mut self,
        _backend: &Self::Backend,
        _effect: &<Self::Backend as SchedulerBackend>::Effect,
    ) -> bool {
        false
    }

    /// Saves state for the next process, at intervals or `at_once`; false on a failure.
    fn save(
        &mut self,
        _scheduler: &mut Scheduler<Self::Backend>,
        _at_once: bool,
    ) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Returns an effect whose state could not be saved.
    fn give_back(
        &mut self,
        _effect: <Self::Backend as SchedulerBackend>::Effect,
        _tasks: &mut JoinSet<Self::Ended>,
    ) {
    }

    /// Settles requests in flight that get no more time. Their tasks are aborted afterwards.
    fn cut_off(&mut self, _now_ms: u64, _scheduler: &mut Scheduler<Self::Backend>) {}
}

/// Monotonic clock in Unix milliseconds, unaffected by changes of the system clock.
struct SteadyClock {
    start: Instant,
    start_ms: u64,
}

impl SteadyClock {
    fn new() -> Self {
        Self { start: Instant::now(), start_ms: millis(since_1970()) }
    }

    fn now_ms(&self) -> u64 {
        self.start_ms.saturating_add(millis(self.start.elapsed()))
    }
}

/// Scheduler with its executor, clock and tasks.
pub(crate) struct Driver<X: Executor> {
    pub(crate) executor: X,
    scheduler: Scheduler<X::Backend>,
    outlet: EmissionOutlet,
    tasks: JoinSet<X::Ended>,
    clock: SteadyClock,
}

impl<X: Executor> Driver<X> {
    /// Returns an idle driver.
    pub(crate) fn new(
        executor: X,
        scheduler: Scheduler<X::Backend>,
        outlet: EmissionOutlet,
    ) -> Self {
        Self { executor, scheduler, outlet, tasks: JoinSet::new(), clock: SteadyClock::new() }
    }

    /// Returns the outlet of evaluations.
    pub(super) fn outlet(&self) -> EmissionOutlet {
        EmissionOutlet::clone(&self.outlet)
    }

    /// Performs the due actions.
    pub(crate) fn poll(&mut self) {
        let actions = self.scheduler.poll(self.clock.now_ms());
        self.perform(actions);
    }

    /// Splits off the actions that require saved state.
    fn saved_before(&mut self, actions: Vec<ActionOf<X>>) -> (Vec<ActionOf<X>>, Vec<ActionOf<X>>) {
        let backend = &self.scheduler.backend;
        actions.into_iter().partition(|action| match action {
            Action::Effect(effect) => self.executor.saves_before(backend, effect),
            Action::Emit(_) | Action::Count(_) => false,
        })
    }

    /// Performs the due actions. Those that wait for a file delay no others.
    async fn perform_due(&mut self) {
        let actions = self.scheduler.poll(self.clock.now_ms());
        let (waiting, others) = self.saved_before(actions);
        self.perform(others);
        if self.executor.save(&mut self.scheduler, !waiting.is_empty()).await {
            return self.perform(waiting);
        }
        for action in waiting {
            if let Action::Effect(effect) = action {
                self.executor.give_back(effect, &mut self.tasks);
            }
        }
    }

    fn perform(&mut self, actions: Vec<ActionOf<X>>) {
        for action in actions {
            match action {
                Action::Emit(emission) => (self.outlet)(emission),
                Action::Count(end) => self.executor.count(end),
                Action::Effect(effect) => {
                    self.executor.perform(&self.scheduler.backend, effect, &mut self.tasks);
                }
            }
        }
    }

    /// Runs until the scheduler is closed and empty, or told to hurry.
    pub(super) async fn run(
        mut self,
        mut messages: mpsc::UnboundedReceiver<DriverMessage<X>>,
        hurry: CancellationToken,
    ) {
        let mut taken = Vec::with_capacity(TAKEN_MAX);
        let mut is_open = true;
        loop {
            self.perform_due().await;
            if !is_open && messages.is_empty() && self.scheduler.is_empty() {
                break;
            }
            let wake = Instant::now() + self.sleep();
            tokio::select! {
                biased;
                () = hurry.cancelled() => break,
                Some(Ok(ended)) = self.tasks.join_next() => {
                    self.executor.ended(self.clock.now_ms(), &mut self.scheduler, ended);
                }
                count = messages.recv_many(&mut taken, TAKEN_MAX) => {
                    is_open &= count > 0;
                    for message in taken.drain(..) {
                        is_open &= self.take_in(message);
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
        self.executor.cut_off(self.clock.now_ms(), &mut self.scheduler);
        let actions = self.scheduler.abandon();
        self.perform(actions);
        self.executor.save(&mut self.scheduler, true).await;
        self.tasks.shutdown().await;
    }

    fn sleep(&self) -> Duration {
        let now_ms = self.clock.now_ms();
        let wake_ms = self.scheduler.next_wake_ms().map(|at_ms| at_ms.saturating_sub(now_ms));
        let waits = wake_ms.map(Duration::from_millis).into_iter().chain(self.executor.unsaved());
        waits.min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    /// Takes in a message; returns false for the last one.
    fn take_in(&mut self, message: DriverMessage<X>) -> bool {
        let now_ms = self.clock.now_ms();
        match message {
            SchedulerMessage::Ask(request, receipt, place) => {
                self.scheduler.arrive(now_ms, *request, receipt, place);
            }
            SchedulerMessage::Command(command) => {
                self.executor.command(&mut self.scheduler, command);
            }
            SchedulerMessage::Close { leaves } => {
                self.scheduler.close(now_ms, leaves);
                return false;
            }
        }
        true
    }
}

/// Action of a driver.
type ActionOf<X> = Action<<<X as Executor>::Backend as SchedulerBackend>::Effect>;

/// Message to a driver.
pub(super) type DriverMessage<X> = SchedulerMessage<
    <<X as Executor>::Backend as SchedulerBackend>::Request,
    <X as Executor>::Command,
>;
