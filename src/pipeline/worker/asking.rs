//! What a shard hands to the lanes.

use super::Worker;
use crate::assemble::Due;
use crate::evaluate::AskedTarget;
use crate::model::Evaluation;

/// What came of a trace.
pub(super) struct TraceAnswer<'a> {
    /// What is known, behind that of other traces.
    pub(super) evaluations: &'a mut Vec<Evaluation>,
    /// What is to be asked.
    pub(super) asked: Vec<AskedTarget>,
}

impl Worker {
    /// Hands out what is known of a trace, and hands in what is to be asked. One receipt is for
    /// both: the trace is done with when the last of its evaluations has arrived.
    pub(super) fn hand_out_asking(
        &self,
        due: &Due,
        evaluations: Vec<Evaluation>,
        asked: Vec<AskedTarget>,
    ) {
        let notes = self.note_of(due).into_iter().collect();
        let claims = self.shard.claims(due.handle);
        let receipt = self.journal.as_ref().map(|journal| journal.receipt(claims, notes));
        self.lanes.ask(asked, receipt.as_ref());
        if !evaluations.is_empty() {
            self.metrics.evaluations(&evaluations);
            (self.outlet)(evaluations, receipt);
        }
    }
}
