//! Verdict notices to forwards, the input of tail sampling.

use super::Worker;
use spanscore_assemble::Due;
use spanscore_base::model::evaluation::Label;
use spanscore_base::model::{Evaluation, Sender, TraceId};
use spanscore_emit::forward::JudgedTrace;
use spanscore_evaluate::AskedTarget;

impl Worker {
    /// Reports the verdict on a trace, after all judges' answers if one may still fail it.
    pub(super) fn notify_forwards(
        &self,
        due: &Due,
        evaluations: &[Evaluation],
        asked: &[AskedTarget],
    ) {
        let trace = self.shard.trace(due.handle).map(|trace| (trace.trace_id, trace.sender));
        if let Some(trace) = trace {
            self.notify_forwards_of(trace, due, evaluations, asked);
        }
    }

    /// Reports the verdict on a sender's trace by id.
    pub(super) fn notify_forwards_of(
        &self,
        (trace_id, sender): (TraceId, Sender),
        due: &Due,
        evaluations: &[Evaluation],
        asked: &[AskedTarget],
    ) {
        if !self.context.forwards.wants_judgements() {
            return;
        }
        let has_fail = evaluations.iter().any(|one| one.label() == Some(Label::Fail));
        let waits = !has_fail && !due.is_silent && self.context.dispatchers.answers_any(asked);
        let pending = self.context.dispatchers.pending().filter(|_| waits);
        if pending.is_some_and(|pending| pending.expect(trace_id, asked)) {
            return;
        }
        let judged = JudgedTrace { trace_id, sender, is_agent: true, has_fail };
        self.context.forwards.judged(judged);
    }

    /// Reports traces dropped without an agent.
    pub(super) fn notify_ignored(&mut self) {
        for (trace_id, sender) in self.shard.take_ignored() {
            self.context.forwards.judged(JudgedTrace {
                trace_id,
                sender,
                is_agent: false,
                has_fail: false,
            });
        }
    }
}
