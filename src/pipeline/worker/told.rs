//! What a shard tells the forwards, which pass on traces by what was judged of them.

use super::Worker;
use crate::assemble::Handle;
use crate::emit::forward::JudgedTrace;
use crate::model::Evaluation;
use crate::model::evaluation::Label;

impl Worker {
    /// Tells that a trace was judged, with the evaluations of it.
    pub(super) fn tell_forwards(&self, handle: Handle, evaluations: &[Evaluation]) {
        if !self.forwards.wants_judgements() {
            return;
        }
        let Some(trace_id) = self.shard.trace(handle).map(|trace| trace.trace_id) else { return };
        let has_fail = evaluations.iter().any(|one| one.label() == Some(Label::Fail));
        self.forwards.judged(JudgedTrace { trace_id, is_agent: true, has_fail });
    }

    /// Tells of the traces that are given up without anything of an agent.
    pub(super) fn tell_ignored(&mut self) {
        for trace_id in self.shard.take_ignored() {
            self.forwards.judged(JudgedTrace { trace_id, is_agent: false, has_fail: false });
        }
    }
}
