//! Panic isolation: a panic ends only its step, and the caller counts it and continues.
//!
//! Changes made before the panic stay; a caller that continues must repair or drop them.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A step panicked; the process's panic hook has the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Panicked;

/// Runs a step.
///
/// # Errors
/// [`Panicked`] if it panicked.
pub fn caught<T>(step: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|_| Panicked)
}

/// Awaits a future. One that panicked is not polled again.
///
/// # Errors
/// [`Panicked`] if it panicked.
pub async fn caught_future<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(|context| match caught(|| future.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_behind_an_await_is_caught() {
        let broken = caught_future(async {
            tokio::task::yield_now().await;
            [7].iter().find(|number| **number > 7).copied().expect("broken")
        });
        assert_eq!(broken.await, Err(Panicked));
        assert_eq!(caught_future(async { 7 }).await, Ok(7));
    }
}
