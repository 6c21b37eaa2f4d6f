//! Sent ids of traces of groups: what one group holds under an id never gives another its
//! evaluations' ids.

use hashbrown::HashMap;

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

    /// Adds a trace; returns the digest that it begins with. Where the id is that of another
    /// group's trace, too, evaluations of equal evidence must have other ids.
    pub(super) fn join(&mut self, trace: &TraceSpans, is_everybodys: bool) -> u128 {
        if trace.grouped.is_none() {
            return 0;
        }
        let count = self.0.entry(trace.sent_id()).or_default();
        *count += 1;
        let is_shared = *count > 1 || is_everybodys;
        if is_shared { u128::from_be_bytes(trace.trace_id.0) } else { 0 }
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
