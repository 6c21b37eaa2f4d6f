//! Progress of a long run on standard error: a bar on a terminal, else lines.

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::cli::output;
use spanscore_engine::batch::BatchProgress;

/// Time before the first bar, so that short runs show none.
const FIRST: Duration = Duration::from_secs(1);
/// Interval between bars.
const EVERY: Duration = Duration::from_millis(200);
/// Cells of the bar.
const BAR_CELLS: usize = 20;

/// Interval between lines without a terminal, as in CI.
const EVERY_UNWATCHED: Duration = Duration::from_secs(10);

/// Progress display.
pub(in crate::cli) struct Progress {
    /// Bytes of all files; 0 if one has no size.
    total: u64,
    start: Instant,
}

impl Progress {
    /// Runs `work`, and shows its progress: in one line on a terminal, else in a line at intervals.
    pub(in crate::cli) fn show<T>(
        files: &[PathBuf],
        progress: &BatchProgress,
        work: impl FnOnce() -> T,
    ) -> T {
        let sizes = files
            .iter()
            .map(|path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|it| it.len()));
        let own = Self { total: sizes.sum::<Option<u64>>().unwrap_or(0), start: Instant::now() };
        let is_watched = std::io::stderr().is_terminal();
        std::thread::scope(|scope| {
            let (done, waiting) = channel::<()>();
            scope.spawn(move || {
                if is_watched {
                    own.on_terminal(progress, &waiting);
                } else {
                    own.in_lines(progress, &waiting);
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    fn on_terminal(&self, progress: &BatchProgress, done: &Receiver<()>) {
        let mut wait = FIRST;
        while done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            output::transient(&self.line(progress, self.start.elapsed()));
            wait = EVERY;
        }
        if wait == EVERY {
            output::transient("");
        }
    }

    fn in_lines(&self, progress: &BatchProgress, done: &Receiver<()>) {
        while done.recv_timeout(EVERY_UNWATCHED) == Err(RecvTimeoutError::Timeout) {
            let line = self.line(progress, self.start.elapsed());
            output::note(format_args!("spanscore: {line}"));
        }
    }

    fn line(&self, progress: &BatchProgress, elapsed: Duration) -> String {
        let judged = progress.judged.load(Relaxed);
        let traces = progress.traces.load(Relaxed);
        if traces > 0 {
            let share = judged as f64 / traces as f64;
            return format!("judging {} {judged} of {traces} traces", bar(share));
        }
        let read = progress.read.load(Relaxed);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let speed = mib(read) / elapsed.as_secs_f64().max(0.001);
        if self.total == 0 {
            return format!("reading {:.0} MiB, {speed:.0} MiB/s", mib(read));
        }
        let share = read as f64 / self.total as f64;
        format!(
            "reading {} {:.0} of {:.0} MiB, {speed:.0} MiB/s",
            bar(share),
            mib(read),
            mib(self.total)
        )
    }
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_CELLS as f64) as usize;
    format!("[{}{}]", "#".repeat(full), "-".repeat(BAR_CELLS - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_done_and_how_far_it_is() {
        let progress = BatchProgress::default();
        progress.read.store(50 << 20, Relaxed);
        let second = Duration::from_secs(2);
        let line = |total| Progress { total, start: Instant::now() }.line(&progress, second);
        assert_eq!(line(200 << 20), "reading [#####---------------] 50 of 200 MiB, 25 MiB/s");
        assert_eq!(line(0), "reading 50 MiB, 25 MiB/s");
        progress.traces.store(8, Relaxed);
        progress.judged.store(4, Relaxed);
        assert_eq!(line(0), "judging [##########----------] 4 of 8 traces");
    }
}
