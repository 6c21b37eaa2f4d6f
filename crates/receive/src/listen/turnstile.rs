//! Turnstile of a connection: how many of its requests are worked on at the same moment.
//!
//! HTTP/2 lets a peer begin a hundred requests with one write, and each is a task of its own. The
//! runtime works tasks off in the order in which they are ready: those of a hundred such
//! connections stand before the next request of anybody else. Here a connection has no more of them
//! ready than threads could work on; its others wait for each other, and the threads go round the
//! connections. A request that waits for its body, for room or for a time is not in it.

use std::future::poll_fn;
use std::num::NonZero;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::ready;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// Turnstile that all requests of one connection share.
#[derive(Clone)]
pub(super) struct Turnstile(Arc<Semaphore>);

impl Turnstile {
    /// Opens the turnstile of a connection.
    pub(super) fn new() -> Self {
        /// Threads that work on requests.
        static THREADS: LazyLock<usize> =
            LazyLock::new(|| available_parallelism().map_or(1, NonZero::get));
        Self(Arc::new(Semaphore::new(*THREADS)))
    }

    /// Works on a request, which goes through the turnstile again whenever it is ready.
    pub(super) async fn pass<T>(self, request: impl Future<Output = T>) -> T {
        let mut places = PollSemaphore::new(self.0);
        let mut request = pin!(request);
        poll_fn(move |context| {
            // Held until the request waits for something else. It is never closed.
            let _place = ready!(places.poll_acquire(context));
            request.as_mut().poll(context)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn as_many_are_worked_on_as_there_are_threads_and_those_that_wait_are_not_in_it() {
        let turnstile = Turnstile::new();
        let most = turnstile.0.available_permits();
        let done = Arc::new(AtomicUsize::new(0));
        let waits = tokio::spawn(turnstile.clone().pass(std::future::pending::<()>()));
        tokio::task::yield_now().await;
        assert_eq!(turnstile.0.available_permits(), most, "it waits for something else");
        let places: Vec<_> = (0..most).map(|_| turnstile.0.clone().try_acquire_owned()).collect();
        let requests = (0..3 * most).map(|_| {
            let done = Arc::clone(&done);
            tokio::spawn(
                turnstile.clone().pass(async move { done.fetch_add(1, Ordering::Relaxed) }),
            )
        });
        let requests: Vec<_> = requests.collect();
        tokio::task::yield_now().await;
        assert_eq!(done.load(Ordering::Relaxed), 0);
        drop(places);
        for request in requests {
            request.await.unwrap();
        }
        waits.abort();
        assert_eq!(done.load(Ordering::Relaxed), 3 * most);
    }
}
