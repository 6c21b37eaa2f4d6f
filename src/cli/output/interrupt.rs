//! Ctrl-C or SIGTERM during a long command: it prints what is done; a second one ends it at once.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::cli::signals::StopSignals;
use crate::cli::{Exit, output, started};
use spanscore_engine::batch::BatchProgress;

/// Longest that a batch goes on after SIGTERM, which comes once: input may never end.
const TERMINATED_TIME: Duration = Duration::from_secs(30);

/// Stop of a command before its end.
#[derive(Clone, Default)]
pub(in crate::cli) struct EarlyStop {
    pub(in crate::cli) token: CancellationToken,
    exit: Arc<OnceLock<Exit>>,
    /// Cancelled once the batch has returned, and what is left takes its time.
    returned: CancellationToken,
}

impl EarlyStop {
    /// Returns the exit of the command, if it was stopped.
    pub(in crate::cli) fn exit(&self) -> Option<Exit> {
        self.exit.get().copied()
    }

    /// Takes note that the batch has returned: only a second signal still ends the command.
    pub(in crate::cli) fn batch_returned(&self) {
        self.returned.cancel();
    }
}

/// Watches signals until the batch is stopped; the token is cancelled, and the batch stopped, by
/// the first. Once its work is done, `progress.stop` hands the next to other listeners.
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

/// Ends the process though `main` has not come to its end: somebody asked twice, or once in vain.
#[expect(clippy::disallowed_methods, reason = "the work that was asked to stop does not")]
fn end(exit: Exit) -> ! {
    std::process::exit(exit.code().into())
}
