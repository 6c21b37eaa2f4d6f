//! Memory accounting of a shard: its traces one by one, and each shared resource once.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{Handle, Shard, TRACE_BYTES, class_of};
use crate::trace::{CountedTrace, OpenTrace};
use spanscore_base::model::Resource;

/// Capacity in entries below which tables and queues are not shrunk.
const KEPT_ENTRIES: usize = 1024;

/// Resources that the traces of a shard name, by reference count. Most are those of many traces,
/// and counted once.
#[derive(Default)]
pub(super) struct HeldResources {
    /// Number of traces with the resource at an address: while there is one, no other resource has
    /// that address.
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

    /// Counts a resource of one more trace; returns the bytes that are new by it.
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

    /// Returns the bytes of those that only this trace has.
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
            + self.severed.bytes()
            + self.grouped.bytes()
    }

    /// Counts the memory that a trace holds now in place of what was counted before.
    pub(super) fn recount(&mut self, handle: Handle) {
        let Some(place) = self.places.get_mut(handle.index as usize) else { return };
        let trace = place.trace.as_deref_mut().filter(|_| place.generation == handle.generation);
        let Some(trace) = trace else { return };
        let resources = &trace.spans.resources;
        let new = resources.iter().skip(trace.counted.resources);
        let new_bytes: usize = new.map(|resource| self.resources.add(resource)).sum();
        let counted = CountedTrace { bytes: trace.bytes(), resources: resources.len() };
        self.bytes = self.bytes + counted.bytes - trace.counted.bytes;
        // Who brings a resource holds it.
        let held = self.shares.bytes_of(handle.index).max(TRACE_BYTES);
        let held = held + new_bytes + counted.bytes - trace.counted.bytes;
        trace.counted = counted;
        let class =
            if trace.is_open { class_of(trace) } else { self.shares.class_of(handle.index) };
        self.shares.set(handle.index, class, held);
    }

    /// Takes a trace out of the count.
    pub(super) fn uncount(&mut self, trace: &OpenTrace) {
        let counted = trace.spans.resources.iter().take(trace.counted.resources);
        counted.for_each(|resource| self.resources.remove(resource));
        self.bytes -= trace.counted.bytes;
    }

    /// Gives back the memory of tables and queues that a flood has left mostly empty.
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
