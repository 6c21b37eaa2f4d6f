//! Pool of threads for blocking work.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::JoinError;

use spanscore_base::panics::Panicked;

/// Pool for blocking work beside the threads of the network: as many jobs at a time as there are
/// cores. Cheap to clone.
#[derive(Clone)]
pub struct BlockingPool(Arc<Semaphore>);

impl Default for BlockingPool {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))))
    }
}

impl BlockingPool {
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
