//! Handle of a running scheduler, with its limits, and its shutdown.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::driver::{Driver, Executor};
use super::{Emission, PendingRequest, SchedulerBackend, not_sent};
use spanscore_base::model::{Evaluation, Reason, Receipt, Sender, WaitingPlace, WaitingRoom};

/// Consumer of evaluations.
pub(crate) type EmissionOutlet = Arc<dyn Fn(Emission) + Send + Sync>;

/// Message to a scheduler.
pub(super) enum SchedulerMessage<R, C> {
    Ask(Box<R>, Option<Receipt>, WaitingPlace),
    Command(C),
    Close { leaves: bool },
}

/// Sender of requests to a scheduler.
pub(crate) struct SchedulerHandle<R, C> {
    sender: mpsc::UnboundedSender<SchedulerMessage<R, C>>,
    room: Arc<WaitingRoom>,
    outlet: EmissionOutlet,
}

impl<R, C> Clone for SchedulerHandle<R, C> {
    fn clone(&self) -> Self {
        let Self { sender, room, outlet } = self;
        Self { sender: sender.clone(), room: Arc::clone(room), outlet: Arc::clone(outlet) }
    }
}

impl<R: PendingRequest, C> SchedulerHandle<R, C> {
    /// Sends requests of a sender without waiting. Requests without room come out at once, as not
    /// evaluable.
    pub(crate) fn ask(&self, requests: Vec<R>, receipt: Option<&Receipt>, sender: Sender) {
        for request in requests {
            let Some(place) = self.room.enter(sender, request.bytes()) else {
                self.refuse(request, receipt.cloned(), Reason::QueueFull);
                continue;
            };
            let message = SchedulerMessage::Ask(Box::new(request), receipt.cloned(), place);
            if let Err(mpsc::error::SendError(SchedulerMessage::Ask(request, receipt, _))) =
                self.sender.send(message)
            {
                self.refuse(*request, receipt, Reason::Shutdown);
            }
        }
    }

    fn refuse(&self, request: R, receipt: Option<Receipt>, reason: Reason) {
        (self.outlet)(Emission::unsent(request, receipt, not_sent::<R>(reason)));
    }

    /// Sends a command. It is lost only after the scheduler has ended.
    pub(crate) fn command(&self, command: C) {
        let _ = self.sender.send(SchedulerMessage::Command(command));
    }

    /// Changes the limits on waiting requests and their bytes.
    pub(crate) fn resize(&self, (count_max, bytes_max): (usize, usize)) {
        self.room.resize(count_max, bytes_max);
    }
}

/// Running scheduler.
pub(crate) struct SchedulerTask<R, C> {
    /// Kind of its targets, for log lines.
    of: &'static str,
    pub(crate) handle: SchedulerHandle<R, C>,
    /// True if unanswered requests are left to the next process at shutdown.
    leaves: bool,
    hurry: CancellationToken,
    join: JoinHandle<()>,
}

impl<R: PendingRequest, C: Send + 'static> SchedulerTask<R, C> {
    /// Spawns a scheduler on the current runtime.
    pub(crate) fn spawn<X>(
        of: &'static str,
        driver: Driver<X>,
        room: Arc<WaitingRoom>,
        leaves: bool,
    ) -> Self
    where
        X: Executor<Command = C>,
        X::Backend: SchedulerBackend<Request = R>,
    {
        let (sender, receiver) = mpsc::unbounded_channel();
        let handle = SchedulerHandle { sender, room, outlet: driver.outlet() };
        let hurry = CancellationToken::new();
        let join = tokio::spawn(driver.run(receiver, hurry.clone()));
        Self { of, handle, leaves, hurry, join }
    }

    /// Closes the scheduler and waits for requests in flight until `no_more_time`. Unanswered
    /// requests are then left to the next process, or not evaluable.
    pub(crate) async fn shutdown(mut self, no_more_time: impl Future<Output = ()>) {
        // Fails only after the scheduler has ended by itself.
        let _ = self.handle.sender.send(SchedulerMessage::Close { leaves: self.leaves });
        let ended = tokio::select! {
            biased;
            ended = &mut self.join => ended,
            () = no_more_time => {
                self.hurry.cancel();
                self.join.await
            }
        };
        if let Err(error) = ended {
            tracing::error!(%error, "the dispatcher of the {} ended by an internal error", self.of);
        }
    }
}

/// Sends all requests to a new scheduler; returns their evaluations in the same order.
///
/// # Errors
/// Those of `start`.
pub(crate) async fn ask_all<R: PendingRequest, C: Send + 'static, E>(
    requests: Vec<R>,
    start: impl FnOnce(EmissionOutlet) -> Result<SchedulerTask<R, C>, E>,
) -> Result<Vec<Vec<Evaluation>>, E> {
    let done = Arc::new(Mutex::new(vec![Vec::new(); requests.len()]));
    let filled = Arc::clone(&done);
    let task = start(Arc::new(move |Emission { subject, evaluations, .. }| {
        let place = usize::try_from(u128::from_be_bytes(subject)).unwrap_or(usize::MAX);
        let mut filled = filled.lock();
        if let Some(place) = filled.get_mut(place) {
            *place = evaluations;
        }
    }))?;
    // Numbered, so that none supersedes another.
    let numbered = requests.into_iter().zip(0u128..).map(|(mut request, place)| {
        *request.subject() = place.to_be_bytes();
        request
    });
    task.handle.ask(numbered.collect(), None, Sender::default());
    task.shutdown(std::future::pending()).await;
    let done = std::mem::take(&mut *done.lock());
    Ok(done)
}
