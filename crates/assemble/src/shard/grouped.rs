//! Sent ids of traces of groups: what one group holds under an id never gives another its
//! evaluations' ids.

use hashbrown::HashMap;

use super::super::trace::OpenTrace;
use spanscore_base::model::{TraceId, TraceSpans};

/// Bytes of an id: an entry of a table at 7 of 16 to 7 of 8 slots.
const ID_BYTES: usize = 48;

/// Number of traces at hand by the id that was sent; those of everybody are not among them.
#[derive(Default)]
pub(super) struct GroupedIds(HashMap<TraceId, u32>);

impl GroupedIds {
    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * ID_BYTES
    }

    /// Adds a trace; returns true if its id is that of another group's trace, too: evaluations of
    /// equal evidence must have other ids.
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
    /// Gives its evaluations other ids than those of equal evidence of another group have, unless
    /// some were given: other ids for the same evidence would revise them without a reason.
    pub(super) fn set_apart(&mut self) {
        if self.spans.grouped.is_some() && !self.is_apart && self.judged().is_none() {
            self.is_apart = true;
            self.digest = self.digest.wrapping_add(u128::from_be_bytes(self.spans.trace_id.0));
        }
    }
}
