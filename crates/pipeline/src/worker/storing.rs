//! Hand-over of a judged run to the store.

use super::{Worker, unix_ns};
use std::time::SystemTime;

use spanscore_assemble::Due;
use spanscore_base::model::{Evaluation, GivenVerdict, TraceSpans, Trajectory};
use spanscore_store::{Judgement, TrajectoryRecord};

impl Worker {
    /// Stores a judged run, before its evaluations leave. `done` are those that exist by now, and
    /// true if no judge is asked for more.
    pub(super) fn store(
        &self,
        due: &Due,
        trace: &TraceSpans,
        trajectory: &Trajectory<'_>,
        done: (&[Evaluation], bool),
    ) {
        let Some(store) = self.context.store.as_ref().filter(|_| !due.is_silent) else { return };
        let (evaluations, is_all) = done;
        let is_passing = is_all && evaluations.iter().all(|it| it.verdict() == GivenVerdict::Pass);
        let with_content = store.has_content() && !trajectory.effort.is_trace_spent();
        let Some(with_content) = store.admit(is_passing, with_content) else { return };
        let judgement = Judgement {
            completion: due.completion,
            is_partial: due.is_partial,
            revision: due.revision,
            spans: trace.spans.len(),
            now_ns: unix_ns(SystemTime::now()),
            is_passing,
        };
        store.trajectory(TrajectoryRecord::new(trajectory, judgement, with_content));
    }
}
