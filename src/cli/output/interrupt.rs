//! Ctrl-C during a long command: it prints what is done; a second one ends it at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{Exit, output, started};
use spanscore_engine::batch::BatchProgress;

/// Watches SIGINT until the batch is stopped; the token is cancelled, and the batch stopped, by the
/// first. Once its work is done, `progress.stop` hands the next to other listeners.
pub(in crate::cli) fn watch(progress: &Arc<BatchProgress>) -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let told = stop.clone();
    let progress = Arc::clone(progress);
    let runtime = started(&mut Builder::new_current_thread())?;
    let mut interrupt = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt()).context("cannot take signals")?
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            interrupt.recv().await;
            if progress.stop.swap(true, Relaxed) {
                return;
            }
            told.cancel();
            output::note("spanscore: stopped; Ctrl-C again ends it without the scores so far");
            interrupt.recv().await;
            end();
        });
    });
    Ok(stop)
}

/// Ends the process though `main` has not come to its end: somebody asked twice.
#[expect(clippy::disallowed_methods, reason = "the work that was asked to stop does not")]
fn end() -> ! {
    std::process::exit(Exit::Interrupted.code().into())
}
