//! Driver shared by the lanes of `judge` and `external`: a task that supplies time and results to a
//! core without a clock, and threads for blocking work.
//!
//! The task runs on the runtime of the network, so it only does what is short. Work that grows with
//! the size of a trace (finding and replacing secrets, rendering a record) runs on a
//! [`BlockingPool`].

use std::future::Future;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use spanscore_base::panics::Panicked;

/// Messages taken from the channel in one batch.
const TAKEN_MAX: usize = 256;
/// Longest sleep without an event.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Event handlers of a lane.
pub trait LaneWork: Send + 'static {
    /// Message from outside.
    type Message: Send + 'static;
    /// Result of work under way.
    type Ended: Send + 'static;

    /// Performs all actions due now, file writes included.
    fn step(&mut self) -> impl Future<Output = ()> + Send;

    /// Takes in a message; returns false if it is the last.
    fn take_in(&mut self, message: Self::Message) -> bool;

    /// Takes in the result of work under way.
    fn ended(&mut self, ended: Self::Ended);

    /// Returns the time until the next action that is due without an event.
    fn sleep(&self) -> Option<Duration>;

    /// Returns true if nothing waits and nothing is under way.
    fn is_empty(&self) -> bool;

    /// Returns the tasks under way. Each of them catches its panics.
    fn under_way(&mut self) -> &mut JoinSet<Self::Ended>;

    /// Ends all that waits, for lack of time. Tasks under way are aborted after it.
    fn abandon(&mut self) -> impl Future<Output = ()> + Send;
}

/// Running task of a lane.
pub struct LaneRun {
    /// Owner of the lane, for the log.
    of: &'static str,
    hurry: CancellationToken,
    join: JoinHandle<()>,
}

impl LaneRun {
    /// Spawns a lane on the current runtime.
    pub fn spawn<W: LaneWork>(
        of: &'static str,
        work: W,
        messages: mpsc::UnboundedReceiver<W::Message>,
    ) -> Self {
        let hurry = CancellationToken::new();
        let join = tokio::spawn(run(work, messages, hurry.clone()));
        Self { of, hurry, join }
    }

    /// Tells the task to end at once, without waiting for it.
    pub fn cancel(self) {
        self.hurry.cancel();
    }

    /// Waits until the closed lane is empty; ends it at `no_more_time`.
    pub async fn finish(mut self, no_more_time: impl Future<Output = ()>) {
        let ended = tokio::select! {
            biased;
            ended = &mut self.join => ended,
            () = no_more_time => {
                self.hurry.cancel();
                self.join.await
            }
        };
        if let Err(error) = ended {
            tracing::error!(%error, "the lane of the {} ended by an internal error", self.of);
        }
    }
}

/// Runs until the lane is closed and empty, or told to hurry.
async fn run<W: LaneWork>(
    mut work: W,
    mut messages: mpsc::UnboundedReceiver<W::Message>,
    hurry: CancellationToken,
) {
    let mut taken = Vec::with_capacity(TAKEN_MAX);
    let mut is_open = true;
    loop {
        work.step().await;
        if !is_open && messages.is_empty() && work.is_empty() {
            break;
        }
        let wake = Instant::now() + work.sleep().map_or(SLEEP_MAX, |sleep| sleep.min(SLEEP_MAX));
        tokio::select! {
            biased;
            () = hurry.cancelled() => break,
            Some(ended) = work.under_way().join_next() => {
                if let Ok(ended) = ended {
                    work.ended(ended);
                }
            }
            count = messages.recv_many(&mut taken, TAKEN_MAX) => {
                is_open &= count > 0;
                for message in taken.drain(..) {
                    is_open &= work.take_in(message);
                }
            }
            () = tokio::time::sleep_until(wake) => {}
        }
    }
    work.abandon().await;
    work.under_way().shutdown().await;
}

/// Pool for blocking work beside the threads of the network: as many jobs at a time as there are
/// cores. Cheap to clone.
#[derive(Clone)]
pub struct BlockingPool(Arc<Semaphore>);

impl Default for BlockingPool {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockingPool {
    /// Creates an idle pool.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))))
    }

    /// Runs a job to its end, once a thread is free. A job that began goes on even if its caller
    /// stops waiting.
    ///
    /// # Errors
    /// The job panicked; the message went to the panic hook.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        // Never an error: the semaphore is never closed.
        let place = Arc::clone(&self.0).acquire_owned().await;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        working.await.map_err(|_: JoinError| Panicked)
    }
}
