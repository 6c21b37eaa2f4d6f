//! Hand-over of inquiries from a shard to the dispatchers.

use super::{JudgedTraces, Worker};
use spanscore_assemble::Due;
use spanscore_base::model::{Claims, Evaluation, Sender};
use spanscore_evaluate::AskedTarget;

/// Results of a trace.
pub(super) struct TraceAnswer<'a> {
    /// Complete evaluations, appended to those of other traces.
    pub(super) evaluations: &'a mut Vec<Evaluation>,
    /// Inquiries to the dispatchers.
    pub(super) asked: Vec<AskedTarget>,
}

impl Worker {
    /// Passes on the complete evaluations of a trace, and its inquiries. They share one receipt:
    /// the trace is finished when the last of its evaluations is delivered.
    pub(super) fn hand_out_asking(
        &mut self,
        due: &Due,
        evaluations: Vec<Evaluation>,
        asked: Vec<AskedTarget>,
    ) {
        let notes = self.note_of(due).into_iter().collect();
        let claims = self.shard.claims(due.handle);
        let sender = self.shard.sender(due.handle).unwrap_or_default();
        self.hand_out_with(sender, evaluations, asked, (claims, notes));
    }

    /// Passes on both with their claims and notes, for a sender.
    pub(super) fn hand_out_with(
        &self,
        sender: Sender,
        evaluations: Vec<Evaluation>,
        asked: Vec<AskedTarget>,
        (claims, notes): (Claims, JudgedTraces),
    ) {
        if asked.is_empty() {
            return self.hand_out(evaluations, claims, notes);
        }
        let receipt = self.context.receipt(claims, notes);
        self.context.dispatchers.ask(asked, receipt.as_ref(), sender);
        if !evaluations.is_empty() {
            self.context.metrics.evaluations(&evaluations);
            (self.context.outlet)(evaluations, receipt);
        }
    }
}
