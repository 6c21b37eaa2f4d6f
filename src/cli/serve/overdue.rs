//! Watchdog of a shutdown: enforces its time limit.
//!
//! The orderly shutdown gives up on unresponsive parts, but it needs running threads. A write to a
//! pipe or disk that never returns may block those; this thread only waits for the signal and the
//! end of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, timeout_at};

use crate::cli::signals::StopSignals;
use crate::cli::{Exit, output, started};
use spanscore_telemetry::flush_stderr;

/// Least time before a shutdown counts as stuck, also after a second signal.
const LEAST: Duration = Duration::from_secs(2);
/// Longest wait for the last line, which reports that it was stuck.
const LAST_LINE_TIME: Duration = Duration::from_millis(50);

/// Thread that ends the process at the end of the shutdown timeout.
#[derive(Clone)]
pub(super) struct ShutdownWatch {
    timeout_ms: Arc<AtomicU64>,
}

impl ShutdownWatch {
    /// Starts to watch for signals.
    ///
    /// # Errors
    /// A system without a free thread, timer or signal.
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

    /// Sets the shutdown timeout.
    pub(super) fn set(&self, timeout: Duration) {
        let timeout = u64::try_from(timeout.max(LEAST).as_millis()).unwrap_or(u64::MAX);
        self.timeout_ms.store(timeout, Ordering::Relaxed);
    }

    /// Returns at the end of the timeout after a stop signal.
    async fn wait(&self, mut signals: StopSignals) {
        signals.stop().await;
        let timeout = Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed));
        // A time beyond the clock's range means never.
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
