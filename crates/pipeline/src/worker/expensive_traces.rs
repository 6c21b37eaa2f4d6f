//! Rate-limited log of traces that are too expensive to judge, since a sender may send many.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use spanscore_base::model::TraceId;

/// Shortest interval of lines.
const SILENCE: Duration = Duration::from_secs(60);

/// Time of the last line, and the number of traces since then that were not logged.
#[derive(Default)]
pub(crate) struct ExpensiveTraceLog(Cell<(Option<Instant>, u64)>);

impl ExpensiveTraceLog {
    /// Logs a trace, unless the last line is too recent.
    pub(super) fn tell(&self, trace_id: TraceId, records: usize, bytes: usize) {
        let (last, unlogged_traces) = self.0.get();
        if last.is_some_and(|last| last.elapsed() < SILENCE) {
            self.0.set((last, unlogged_traces + 1));
            return;
        }
        self.0.set((Some(Instant::now()), 0));
        tracing::warn!(
            %trace_id, records, bytes, unlogged_traces,
            "a trace exceeds limits.trace_steps: some of its evaluations are trace_too_expensive"
        );
    }
}
