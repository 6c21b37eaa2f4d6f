//! Dedicated threads for judging.
//!
//! Judging may take long. On the network's runtime it would delay receivers, probes and exporters;
//! with its own threads the system's scheduler divides the cores.

use std::future::Future;
use std::io;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

/// Threads of one pipeline, by name, with the signals of their ends.
#[derive(Default)]
pub(super) struct Threads(Vec<(String, oneshot::Receiver<()>)>);

impl Threads {
    /// Runs a future on a named thread, with a clock but no network.
    ///
    /// # Errors
    /// The system refused a thread or timer.
    pub(super) fn spawn(
        &mut self,
        name: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            runtime.block_on(work);
            // Fails only if the pipeline was dropped.
            let _ = ended.send(());
        })?;
        self.0.push((name, end));
        Ok(())
    }

    /// Waits for the end of all threads.
    pub(super) async fn join(self) {
        for (name, end) in self.0 {
            let ended: Result<(), RecvError> = end.await;
            if ended.is_err() {
                tracing::error!(thread = name, "a thread ended badly");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn blocking_work_delays_no_other_task() {
        let mut threads = Threads::default();
        let go_on = Arc::new(AtomicBool::new(false));
        let waited = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&go_on);
        let done = Arc::clone(&waited);
        let busy = async move {
            while !asked.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            done.store(true, Ordering::Release);
        };
        threads.spawn("busy".into(), busy).expect("a thread");
        // The runtime of this test has one thread: this one.
        tokio::task::yield_now().await;
        go_on.store(true, Ordering::Release);
        threads.join().await;
        assert!(waited.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn thread_that_panics_is_not_waited_for_forever() {
        let mut threads = Threads::default();
        threads.spawn("broken".into(), async { panic!("on purpose") }).expect("a thread");
        threads.join().await;
    }
}
