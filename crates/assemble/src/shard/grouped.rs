//! Trace ids as sent by groups: one group's traces must never determine the evaluation ids of
//! another.

use hashbrown::HashMap;

use super::super::trace::OpenTrace;
use spanscore_base::model::{TraceId, TraceSpans};

/// Bytes of an id: a table entry at 7/16 to 7/8 occupancy.
const ID_BYTES: usize = 48;

/// Number of traces by id as sent, without those of the default group.
#[derive(Default)]
pub(super) struct GroupedIds(HashMap<TraceId, u32>);

impl GroupedIds {
    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * ID_BYTES
    }

    /// Adds a trace; returns true if another group has a trace with this id: evaluations of equal
    /// evidence then need distinct ids.
    pub(super) fn join(&mut self, trace: &TraceSpans, is_everybodys: bool) -> bool {
        if trace.grouped.is_none() {
            return false;
        }
        let count = self.0.entry(trace.sent_id()).or_default();
        *count += 1;
        *count > 1 || is_everybodys
    }

    /// Removes a trace.
    pub(super) fn leave(&mut self, trace: &TraceSpans) {
        if trace.grouped.is_none() {
            return;
        }
        let sent_id = trace.sent_id();
        let Some(count) = self.0.get_mut(&sent_id) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&sent_id);
        }
    }
}

impl OpenTrace {
    /// Makes its evaluation ids distinct from those of equal evidence in another group, unless some
    /// were already assigned: changed ids would revise them without a reason.
    pub(super) fn set_apart(&mut self) {
        if self.spans.grouped.is_some() && !self.is_apart && self.judged().is_none() {
            self.is_apart = true;
            self.digest = self.digest.wrapping_add(u128::from_be_bytes(self.spans.trace_id.0));
        }
    }
}
