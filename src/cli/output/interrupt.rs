//! Ctrl-C or SIGTERM during a long command: the first prints the results so far, a second ends it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::cli::signals::StopSignals;
use crate::cli::{Exit, output, started};
use spanscore_engine::batch::BatchProgress;

/// Longest run of a batch after SIGTERM, which comes only once: input may never end.
const TERMINATED_TIME: Duration = Duration::from_secs(30);

/// Early stop of a command.
#[derive(Clone, Default)]
pub(in crate::cli) struct EarlyStop {
    pub(in crate::cli) token: CancellationToken,
    exit: Arc<OnceLock<Exit>>,
    /// Cancelled after the batch, when the rest takes its time.
    returned: CancellationToken,
}

impl EarlyStop {
    /// Returns the exit of the command, if stopped.
    pub(in crate::cli) fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }

    /// Notes the end of the batch: from now on only a second signal ends the command.
    pub(in crate::cli) fn batch_returned(&self) {
        self.returned.cancel();
    }
}

/// Watches signals until the batch ends. The first cancels the token and stops the batch. After its
/// work, `progress.stop` leaves the next signal to other listeners.
pub(in crate::cli) fn watch(progress: &Arc<BatchProgress>) -> anyhow::Result<EarlyStop> {
    let stop = EarlyStop::default();
    let told = stop.clone();
    let progress = Arc::clone(progress);
    let runtime = started(&mut Builder::new_current_thread())?;
    let mut signals = StopSignals::on(&runtime)?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let exit = signals.exit().await;
            if progress.stop.swap(true, Relaxed) {
                return;
            }
            let _ = told.exit.set(exit);
            told.token.cancel();
            let is_timed = exit == Exit::Terminated;
            let time = if is_timed { ", as do 30 s without an end of the work" } else { "" };
            output::note(format_args!(
                "spanscore: stopped; Ctrl-C again ends it without the scores so far{time}"
            ));
            tokio::select! {
                again = signals.exit() => end(again),
                () = tokio::time::sleep(TERMINATED_TIME), if is_timed => end(exit),
                () = told.returned.cancelled() => {}
            }
            end(signals.exit().await);
        });
    });
    Ok(stop)
}

/// Ends the process before `main` does: after a second signal, or a first one without effect.
#[expect(clippy::disallowed_methods, reason = "the work that was asked to stop does not")]
fn end(exit: Exit) -> ! {
    std::process::exit(exit.code().into())
}
