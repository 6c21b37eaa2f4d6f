//! Tells of traces that are too expensive to be judged, and of no more than one in a while: whoever
//! sends one may send many.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use crate::model::TraceId;

/// How long nothing is told after a line.
const SILENCE: Duration = Duration::from_secs(60);

/// When the last line was written, and how many traces since then had none.
#[derive(Default)]
pub(in crate::pipeline) struct Costly(Cell<(Option<Instant>, u64)>);

impl Costly {
    /// Tells of a trace, unless a line has just been written.
    pub(super) fn tell(&self, trace_id: TraceId, records: usize, bytes: usize) {
        let (last, untold) = self.0.get();
        if last.is_some_and(|last| last.elapsed() < SILENCE) {
            self.0.set((last, untold + 1));
            return;
        }
        self.0.set((Some(Instant::now()), 0));
        tracing::warn!(
            %trace_id, records, bytes, untold,
            "judging a trace would take more than limits.trace_steps; it is not evaluable in part"
        );
    }
}
