//! Watch over a shutdown: it ends within its time, whatever is stuck.
//!
//! The orderly shutdown gives up on what does not answer, but it needs threads that run. A write to
//! a pipe or a disk that never returns may hold those; this thread waits for the signal and for the
//! end of the time, and for nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, timeout_at};

use crate::cli::signals::StopSignals;
use crate::cli::{Exit, output, started};
use spanscore_telemetry::flush_stderr;

/// Shortest time until a shutdown counts as stuck; also that after a second signal.
const LEAST: Duration = Duration::from_secs(2);
/// Longest wait for the last line, which says that it was stuck.
const LAST_LINE_TIME: Duration = Duration::from_millis(50);

/// Thread that ends the process once its time to stop is over.
#[derive(Clone)]
pub(super) struct ShutdownWatch {
    timeout_ms: Arc<AtomicU64>,
}

impl ShutdownWatch {
    /// Starts to watch for signals.
    ///
    /// # Errors
    /// The system has no thread, timer or signal to give.
    pub(super) fn start(timeout: Duration) -> anyhow::Result<Self> {
        let watch = Self { timeout_ms: Arc::default() };
        watch.set(timeout);
        let runtime = started(&mut Builder::new_current_thread())?;
        let own = watch.clone();
        let signals = StopSignals::on(&runtime)?;
        std::thread::Builder::new().name("overdue".into()).spawn(move || {
            runtime.block_on(own.wait(signals));
            end();
        })?;
        Ok(watch)
    }

    /// Sets the longest shutdown from now on.
    pub(super) fn set(&self, timeout: Duration) {
        let timeout = u64::try_from(timeout.max(LEAST).as_millis()).unwrap_or(u64::MAX);
        self.timeout_ms.store(timeout, Ordering::Relaxed);
    }

    /// Returns once the process has been told to stop, and its time is over.
    async fn wait(&self, mut signals: StopSignals) {
        signals.stop().await;
        let timeout = Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed));
        // A time beyond the clock's is for ever.
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return std::future::pending().await;
        };
        if timeout_at(deadline, signals.stop()).await.is_ok() {
            tokio::time::sleep_until(deadline.min(Instant::now() + LEAST)).await;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "what is stuck would hold up destructors as well")]
fn end() {
    output::note(
        "stopped before all was judged and delivered: `shutdown_timeout` is over, and something \
         does not answer",
    );
    flush_stderr(LAST_LINE_TIME);
    std::process::exit(i32::from(Exit::Lost.code()));
}
