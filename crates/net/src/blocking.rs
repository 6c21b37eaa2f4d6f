//! Pool of threads for blocking work.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::JoinError;

use spanscore_base::panics::Panicked;

/// Thread pool for blocking work, apart from the network's threads: one job per core. Cheap to
/// clone.
#[derive(Clone)]
pub struct BlockingPool(Arc<Semaphore>);

impl Default for BlockingPool {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))))
    }
}

impl BlockingPool {
    /// Runs a job once a thread is free. A started job completes even if its caller stops waiting.
    ///
    /// # Errors
    /// The job panicked; the panic hook has the message.
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
