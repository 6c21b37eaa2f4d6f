//! Memory accounting of a shard: each trace separately, and each shared resource once.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Handle, Shard, TRACE_BYTES, class_of};
use crate::trace::{CountedTrace, OpenTrace};
use spanscore_base::model::Resource;

/// Capacity in entries below which tables and queues are not shrunk.
const KEPT_ENTRIES: usize = 1024;

/// Resources of a shard's traces, by reference count. Most are shared and counted once.
#[derive(Default)]
pub(super) struct HeldResources {
    /// Number of traces by resource address: while there is one, the address stays unique.
    counts: HashMap<usize, u32>,
    bytes: usize,
}

fn address(resource: &Arc<Resource>) -> usize {
    Arc::as_ptr(resource).addr()
}

impl HeldResources {
    /// Returns the bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a resource of one more trace; returns the added bytes.
    fn add(&mut self, resource: &Arc<Resource>) -> usize {
        let count = self.counts.entry(address(resource)).or_default();
        *count += 1;
        if *count > 1 {
            return 0;
        }
        self.bytes += resource.bytes();
        resource.bytes()
    }

    fn remove(&mut self, resource: &Arc<Resource>) {
        let Some(count) = self.counts.get_mut(&address(resource)) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&address(resource));
            self.bytes -= resource.bytes();
        }
    }

    /// Returns the bytes of the resources that only this trace has.
    pub(super) fn alone(&self, trace: &OpenTrace) -> usize {
        let counted = trace.spans.resources.iter().take(trace.counted.resources);
        let alone = counted.filter(|resource| self.counts.get(&address(resource)) == Some(&1));
        alone.map(|resource| resource.bytes()).sum()
    }
}

impl Shard {
    /// Returns the bytes held for open and remembered traces.
    pub fn bytes(&self) -> usize {
        self.bytes
            + self.resources.bytes()
            + self.shares.bytes()
            + self.forgotten_traces.bytes()
            + self.grouped.bytes()
    }

    /// Updates the counted memory of a trace.
    pub(super) fn recount(&mut self, handle: Handle) {
        let Some(place) = self.places.get_mut(handle.index as usize) else { return };
        let trace = place.trace.as_deref_mut().filter(|_| place.generation == handle.generation);
        let Some(trace) = trace else { return };
        let resources = &trace.spans.resources;
        let new = resources.iter().skip(trace.counted.resources);
        let new_bytes: usize = new.map(|resource| self.resources.add(resource)).sum();
        let counted = CountedTrace { bytes: trace.bytes(), resources: resources.len() };
        self.bytes = self.bytes + counted.bytes - trace.counted.bytes;
        // The sender of a resource holds it.
        let held = self.shares.bytes_of(handle.index).max(TRACE_BYTES);
        let held = held + new_bytes + counted.bytes - trace.counted.bytes;
        trace.counted = counted;
        let class =
            if trace.is_open { class_of(trace) } else { self.shares.class_of(handle.index) };
        self.shares.set(handle.index, class, held);
    }

    /// Removes a trace from the count.
    pub(super) fn uncount(&mut self, trace: &OpenTrace) {
        let counted = trace.spans.resources.iter().take(trace.counted.resources);
        counted.for_each(|resource| self.resources.remove(resource));
        self.bytes -= trace.counted.bytes;
    }

    /// Shrinks tables and queues after a flood.
    pub(super) fn shrink(&mut self) {
        macro_rules! shrink {
            ($($of:expr),+) => {
                $(if $of.capacity() > KEPT_ENTRIES && $of.len() < $of.capacity() / 4 {
                    $of.shrink_to(2 * $of.len());
                })+
            };
        }
        shrink!(self.by_id, self.resources.counts, self.opened, self.fired, self.judged);
        self.shares.shrink();
    }
}
