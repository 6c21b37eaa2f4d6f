//! What all lanes beside the shards share: a task that gives a core, which decides without a clock,
//! its time and its requests, and threads for what takes long.
//!
//! A lane runs on the threads of the network, so its task only ever does what is short. What takes
//! the longer the larger a trace is (secrets found and replaced, a record laid out) runs [`Aside`].

use std::future::Future;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::panics::Panicked;

/// Messages that are taken in at once.
const TAKEN_MAX: usize = 256;
/// The longest sleep without an event.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// What a lane does when it is told something.
pub(crate) trait LaneWork: Send + 'static {
    /// What it is told from outside.
    type Message: Send + 'static;
    /// What a request of it came to.
    type Ended: Send + 'static;

    /// Does all that is to be done now, and what goes with it on the disk.
    fn step(&mut self) -> impl Future<Output = ()> + Send;

    /// Takes a message in; false where no more comes.
    fn take_in(&mut self, message: Self::Message) -> bool;

    /// What came of a request.
    fn ended(&mut self, ended: Self::Ended);

    /// How long nothing is to be done unless something happens.
    fn sleep(&self) -> Option<Duration>;

    /// Whether nothing waits and nothing is under way.
    fn is_empty(&self) -> bool;

    /// What is under way. Each of it catches its own panics.
    fn under_way(&mut self) -> &mut JoinSet<Self::Ended>;

    /// There is no more time: lets go of all that waits. What is under way is dropped after it.
    fn abandon(&mut self) -> impl Future<Output = ()> + Send;
}

/// The task of a lane that runs.
pub(crate) struct LaneRun {
    /// Whose lane it is, for the log.
    of: &'static str,
    hurry: CancellationToken,
    join: JoinHandle<()>,
}

impl LaneRun {
    /// Runs a lane on the current runtime.
    pub(crate) fn spawn<W: LaneWork>(
        of: &'static str,
        work: W,
        messages: mpsc::UnboundedReceiver<W::Message>,
    ) -> Self {
        let hurry = CancellationToken::new();
        let join = tokio::spawn(run(work, messages, hurry.clone()));
        Self { of, hurry, join }
    }

    /// Ends it at once, without waiting for that.
    pub(crate) fn cancel(self) {
        self.hurry.cancel();
    }

    /// Waits until nothing is left of what it was told to close with, at most until there is no
    /// more time.
    pub(crate) async fn finish(mut self, no_more_time: impl Future<Output = ()>) {
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

/// Works until it is told to close and nothing is left, or to hurry.
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

/// Runs what takes long on threads beside those of the network, as many at a time as there are
/// cores. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Aside(Arc<Semaphore>);

impl Aside {
    /// Nothing runs yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))))
    }

    /// Runs some work to its end, once there is a thread for it. What began goes on where nobody
    /// waits for it any more.
    ///
    /// # Errors
    /// It panicked; the message went to the hook of the process.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        // The semaphore is never closed.
        let place = Arc::clone(&self.0).acquire_owned().await;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        working.await.map_err(|_: JoinError| Panicked)
    }
}
