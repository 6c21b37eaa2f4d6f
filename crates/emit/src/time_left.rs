//! Time for tasks to end at shutdown.

use std::future::Future;
use std::pin::Pin;

/// Time left, until a future completes.
pub(crate) struct TimeLeft<F> {
    no_more_time: Pin<Box<F>>,
    is_over: bool,
}

impl<F: Future<Output = ()>> TimeLeft<F> {
    pub(crate) fn until(no_more_time: F) -> Self {
        Self { no_more_time: Box::pin(no_more_time), is_over: false }
    }

    /// Waits for an end while there is time; returns true if it came in time.
    pub(crate) async fn allows(&mut self, end: impl Future) -> bool {
        if self.is_over {
            return false;
        }
        tokio::select! {
            biased;
            _ = end => {}
            () = self.no_more_time.as_mut() => self.is_over = true,
        }
        !self.is_over
    }
}
