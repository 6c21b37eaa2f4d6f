//! What is kept of a span between its arrival and the end of its trace.
//!
//! `extract` writes these records, `assemble` gathers them by trace without looking into their
//! facts, and `extract` reads them back into a [`Trajectory`](super::Trajectory) once the trace is
//! complete.

use std::ops::Range;
use std::sync::Arc;

use super::{SpanId, TraceId};

/// The resource of some spans, kept as it came.
#[derive(Debug, Default, PartialEq)]
pub struct Resource {
    /// The encoded `opentelemetry.proto.resource.v1.Resource`.
    pub encoded: Vec<u8>,
    /// `service.name`, empty when the resource has none.
    pub service_name: String,
}

/// Properties of a span record that `assemble` needs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpanFlags(pub u16);

impl SpanFlags {
    /// The span has no parent.
    pub const ROOT: u16 = 1;
    /// The span has ended: its end time is set.
    pub const ENDED: u16 = 1 << 1;
    /// A tool call of some dialect is on this span.
    pub const TOOL: u16 = 1 << 2;
    /// The span is one of an agent or a language model, so its trace is an agent's run.
    pub const AGENT: u16 = 1 << 3;
    /// The record holds a log event, not a span: it joins the trace but starts and ends nothing.
    pub const LOG: u16 = 1 << 4;
    /// The parent lives in another process.
    pub const REMOTE_PARENT: u16 = 1 << 5;
    /// Status code `ERROR`.
    pub const ERROR: u16 = 1 << 6;

    /// Whether all bits of `mask` are set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask == mask
    }

    /// Sets the bits of `mask`.
    pub fn set(&mut self, mask: u16) {
        self.0 |= mask;
    }
}

/// One span, reduced to the facts that the configured evaluators need: 64 bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The trace the span belongs to.
    pub trace_id: TraceId,
    /// The span's own id.
    pub span_id: SpanId,
    /// The parent's id; [`SpanId::is_none`] for a root.
    pub parent_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds; 0 while the span has not ended.
    pub end_ns: u64,
    /// What `assemble` needs to know.
    pub flags: SpanFlags,
    /// Index into the `resources` of the batch or trace that holds this record.
    pub resource: u32,
    /// Where the facts stand in the arena of the batch or trace that holds this record. Their form
    /// belongs to `extract`.
    pub facts: Range<u32>,
}

const _: () = assert!(size_of::<SpanRecord>() == 64, "an open trace holds many of them");

/// The records that one request brought for one shard, in arrival order.
#[derive(Default, Debug)]
pub struct SpanBatch {
    /// Facts of all records, end to end.
    pub arena: Vec<u8>,
    /// The records; their `facts` point into `arena`.
    pub spans: Vec<SpanRecord>,
    /// The resources that `spans` refer to.
    pub resources: Vec<Arc<Resource>>,
}

/// All records of one trace.
#[derive(Default, Debug, Clone)]
pub struct TraceSpans {
    /// The trace's id.
    pub trace_id: TraceId,
    /// Facts of all records, end to end.
    pub arena: Vec<u8>,
    /// The records in arrival order; their `facts` point into `arena`.
    pub spans: Vec<SpanRecord>,
    /// The resources that `spans` refer to.
    pub resources: Vec<Arc<Resource>>,
}

/// Memory comes to the caches in lines of so many bytes, on nearly all processors.
const LINE_BYTES: usize = 64;

/// Fetches bytes from memory that are about to be walked. Fields are read one after the other, each
/// where the length of the one before says, so every line that is not in the caches would be waited
/// for alone; touched in a row, they come together.
#[inline]
pub fn fetch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// The shard that owns a trace. Trace ids are chosen by strangers, but only the spread over shards
/// depends on this, never a hash table.
pub fn shard_of(trace_id: TraceId, shard_count: usize) -> usize {
    let mut low = [0; 8];
    low.copy_from_slice(&trace_id.0[8..]);
    let spread = u64::from_be_bytes(low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    // The part of the whole range that the number lies in: a remainder takes a division.
    (spread.wrapping_mul(shard_count as u64) >> 32) as usize
}

impl TraceSpans {
    /// The facts of one record.
    pub fn facts(&self, span: &SpanRecord) -> &[u8] {
        self.arena.get(span.facts.start as usize..span.facts.end as usize).unwrap_or(&[])
    }

    /// Makes room for more records and facts: as much as they need, or a fifth of what there is if
    /// that is more, since most traces come in few parts and then wait.
    pub fn reserve(&mut self, spans: usize, bytes: usize) {
        if self.spans.capacity() - self.spans.len() < spans {
            self.spans.reserve_exact(spans.max(self.spans.len() / 5));
        }
        if self.arena.capacity() - self.arena.len() < bytes {
            self.arena.reserve_exact(bytes.max(self.arena.len() / 5));
        }
    }

    /// Bytes held for this trace.
    pub fn bytes(&self) -> usize {
        self.arena.capacity() + self.spans.capacity() * size_of::<SpanRecord>()
    }
}
