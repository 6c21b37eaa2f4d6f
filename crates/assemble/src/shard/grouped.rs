//! Sent ids of traces of groups: what one group holds under an id never gives another its
//! evaluations' ids.

use hashbrown::HashMap;

use spanscore_base::model::{SenderId, TraceId, TraceSpans};

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
    /// group's trace, too, evaluations of equal evidence must have other ids; of what came from a
    /// topic always, since that other trace may be at another process.
    pub(super) fn join(
        &mut self,
        trace: &TraceSpans,
        sender: SenderId,
        is_everybodys: bool,
    ) -> u128 {
        if trace.grouped.is_none() {
            return 0;
        }
        let count = self.0.entry(trace.sent_id()).or_default();
        *count += 1;
        let is_shared = *count > 1 || is_everybodys || sender.is_topic();
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

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::ClientGroup;

    #[test]
    fn ids_of_groups_are_apart_where_both_may_be_known_or_one_is_elsewhere() {
        let check = |connection: u16, expected: [bool; 2]| {
            let mut ids = GroupedIds::default();
            let begun = ["a", "b"].map(|name| {
                let group = ClientGroup::named(name);
                let sender = SenderId { connection, ..SenderId::of_group(group) };
                ids.join(&TraceSpans::of(group, TraceId([1; 16])), sender, false)
            });
            assert_eq!(begun.map(|digest| digest != 0), expected, "{connection}");
            assert_ne!(begun[0], begun[1]);
        };
        check(7, [false, true]);
        check(0, [true, true]);
    }
}
