//! What is kept of a span between its arrival and the end of its trace.
//!
//! `extract` writes these records, `assemble` gathers them by trace without looking into their
//! facts, and `extract` reads them back into a [`Trajectory`](super::Trajectory) once the trace is
//! complete.

use std::ops::Range;
use std::sync::Arc;

use super::{Claims, SpanId, TraceId};

/// The resource of some spans, kept as it came.
#[derive(Debug, Default, PartialEq)]
pub struct Resource {
    /// The encoded `opentelemetry.proto.resource.v1.Resource`.
    pub encoded: Vec<u8>,
    /// `service.name`, empty when the resource has none.
    pub service_name: String,
}

impl Resource {
    /// Bytes held for it.
    pub fn bytes(&self) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        COUNTS + size_of::<Self>() + self.encoded.capacity() + self.service_name.capacity()
    }
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
    /// Another record came with the same span id and other content, and gave way to this one.
    pub const CONFLICT: u16 = 1 << 7;

    /// Whether all bits of `mask` are set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask == mask
    }

    /// Sets the bits of `mask`.
    pub fn set(&mut self, mask: u16) {
        self.0 |= mask;
    }
}

/// One span, reduced to the facts that the configured evaluators need: 56 bytes. The trace that it
/// belongs to is known from where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The span's own id.
    pub span_id: SpanId,
    /// The parent's id; [`SpanId::is_none`] for a root.
    pub parent_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds; 0 while the span has not ended.
    pub end_ns: u64,
    /// Hash of the span or log record as it came, with its scope: the same whatever of it is kept.
    pub content: u32,
    /// A number for the other side of a call to another process; 0 where it calls none.
    pub peer: u32,
    /// What `assemble` needs to know.
    pub flags: SpanFlags,
    /// Index into the `resources` of the batch or trace that holds this record.
    pub resource: u32,
    /// Where the facts stand in the arena of the batch or trace that holds this record. Their form
    /// belongs to `extract`.
    pub facts: Range<u32>,
}

const _: () = assert!(size_of::<SpanRecord>() == 56, "an open trace holds many of them");

/// The records that one request brought for one shard, in arrival order.
#[derive(Default, Debug)]
pub struct SpanBatch {
    /// Facts of all records, end to end.
    pub arena: Vec<u8>,
    /// The records; their `facts` point into `arena`.
    pub spans: Vec<SpanRecord>,
    /// The traces of the records, run by run.
    pub runs: Vec<TraceRun>,
    /// The resources that `spans` refer to.
    pub resources: Vec<Arc<Resource>>,
    /// Where the records came from, for as long as they are needed.
    pub claims: Claims,
}

/// Records of one trace that stand together in a batch.
#[derive(Clone, Copy, Debug)]
pub struct TraceRun {
    /// The trace that they belong to.
    pub trace_id: TraceId,
    /// Where they end; they begin where those of the run before end.
    end: u32,
}

impl SpanBatch {
    /// Adds a record of a trace.
    #[inline]
    pub fn push(&mut self, trace_id: TraceId, record: SpanRecord) {
        self.spans.push(record);
        let end = self.spans.len() as u32;
        match self.runs.last_mut() {
            Some(run) if run.trace_id == trace_id => run.end = end,
            _ => self.runs.push(TraceRun { trace_id, end }),
        }
    }

    /// The records, together as far as those of one trace stand together.
    pub fn by_trace(&self) -> impl Iterator<Item = (TraceId, &[SpanRecord])> {
        let mut start = 0;
        self.runs.iter().map(move |run| {
            let end = run.end as usize;
            let records = self.spans.get(start..end).unwrap_or_default();
            start = end;
            (run.trace_id, records)
        })
    }

    /// Empties it; what it has room for stays.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.spans.clear();
        self.runs.clear();
        self.resources.clear();
        self.claims = Claims::default();
    }

    /// Whether its records are spans, not log events: a request brings either.
    pub fn is_of_spans(&self) -> bool {
        self.spans.first().is_some_and(|record| !record.flags.has(SpanFlags::LOG))
    }
}

impl SpanRecord {
    /// Of records with one span id the one with the greatest precedence counts: one that ended goes
    /// before one that did not, then the later end, then what the content decides.
    pub fn precedence(&self) -> (bool, u64, u32) {
        (self.flags.has(SpanFlags::ENDED), self.end_ns, self.content)
    }
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
    /// Where the records came from, for as long as they are needed.
    pub claims: Claims,
}

impl TraceSpans {
    /// The signs in its facts that tell how costly they are to read.
    pub fn signs(&self) -> SignCounts {
        let (blocks, rest) = self.arena.as_chunks::<COUNTED_AT_ONCE>();
        let mut all = SignCounts::default();
        blocks.iter().for_each(|block| all.add(block));
        all.add(rest);
        all
    }
}

impl SignCounts {
    /// Adds those of a few bytes, counted in bytes, so that sixteen and more are counted at once.
    #[inline(always)]
    fn add(&mut self, few: &[u8]) {
        let count = |is_sign: fn(u8) -> bool| {
            usize::from(few.iter().map(|byte| u8::from(is_sign(*byte))).fold(0, u8::wrapping_add))
        };
        // `[` and `{` differ in one bit, `'` and `(` follow each other.
        self.values += count(|byte| (byte == b',') | (byte | 0x20 == b'{'));
        self.literals += count(|byte| byte.wrapping_sub(b'\'') < 2);
        self.fields += count(|byte| byte == b'=');
    }
}

/// How many signs facts have that tell how costly they are to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignCounts {
    /// About how many values they hold, if all of them are JSON: what makes values costly is how
    /// many there are, and prose holds few of the signs that part them.
    pub values: usize,
    /// About how many more signs there are to read, if all of them are Python's literals: quotes
    /// and parentheses.
    pub literals: usize,
    /// About how many fields there are to read, if all of them are what Python prints of objects
    /// (`name=value`).
    pub fields: usize,
}

/// Bytes whose signs are counted in a byte: as many vectors of sixteen as fit, since what is left
/// over of them is counted one by one.
const COUNTED_AT_ONCE: usize = 240;

/// Memory comes to the caches in lines of so many bytes, on nearly all processors.
const LINE_BYTES: usize = 64;

/// Fetches bytes from memory that are about to be walked. Fields are read one after the other, each
/// where the length of the one before says, so every line that is not in the caches would be waited
/// for alone; touched in a row, they come together.
#[inline]
pub fn fetch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// Hash of some bytes, in one pass that also fetches them ([`fetch`]). It tells apart what differs
/// by accident, not what somebody made to collide; the same on every machine.
///
/// Two sums for each eight bytes of a line: of the words, and of the sums so far, so that the order
/// of the lines counts. Plain additions, since they are done for many lanes at once.
#[inline]
pub fn fingerprint(bytes: &[u8]) -> u32 {
    const LANES: usize = LINE_BYTES / 8;
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sums = [0_u64; LANES];
    let mut sums_of_sums = [0_u64; LANES];
    let mut add = |line: &[u8; LINE_BYTES]| {
        let mut words = [0; LANES];
        for (word, bytes) in words.iter_mut().zip(line.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(word);
        }
        for (sum, next) in sums_of_sums.iter_mut().zip(sums) {
            *sum = sum.wrapping_add(next);
        }
    };
    let (lines, rest) = bytes.as_chunks();
    lines.iter().for_each(&mut add);
    // The end is read with what stands before it, which is cheaper than byte by byte.
    match bytes.last_chunk() {
        Some(_) if rest.is_empty() => {}
        Some(last) => add(last),
        None => {
            let mut last = [0; LINE_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            add(&last);
        }
    }
    // Without this the lanes would be summed one by one from the start.
    let (sums, sums_of_sums) = std::hint::black_box((sums, sums_of_sums));
    let mut hash = (bytes.len() as u64).wrapping_mul(SPREAD);
    for (lane, (sum, other)) in (1..).zip(sums.into_iter().zip(sums_of_sums)) {
        let part =
            (sum ^ SPREAD.rotate_left(lane)).wrapping_mul(SPREAD ^ other.rotate_left(32) | 1);
        hash = hash.wrapping_add(part.rotate_left(7 * lane));
    }
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (hash >> 32) as u32
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

impl SpanBatch {
    /// Bytes held for it, with its resources, which others may have, too.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.spans.capacity() * size_of::<SpanRecord>()
            + self.runs.capacity() * size_of::<TraceRun>()
            + self.resources.iter().map(|resource| resource.bytes()).sum::<usize>()
    }
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

    /// Bytes held for this trace alone.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.spans.capacity() * size_of::<SpanRecord>()
            + self.resources.capacity() * size_of::<Arc<Resource>>()
    }

    /// Bytes held for this trace, with its resources, which others may have, too.
    pub fn bytes_with_resources(&self) -> usize {
        self.bytes() + self.resources.iter().map(|resource| resource.bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_differs_where_a_byte_the_order_or_the_length_does() {
        let bytes: Vec<u8> = (0..400).map(|at| (at * 7 % 251) as u8).collect();
        let whole = fingerprint(&bytes);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(fingerprint(&other), whole, "another byte at {at}");
            assert_ne!(fingerprint(&bytes[..at]), whole, "cut off at {at}");
        }
        for distance in [8, 64, 128] {
            let mut other = bytes.clone();
            (0..8).for_each(|at| other.swap(at, at + distance));
            assert_ne!(fingerprint(&other), whole, "a word moved by {distance}");
        }
        let lengths: hashbrown::HashSet<u32> =
            (0..200).map(|length| fingerprint(&vec![0; length])).collect();
        assert_eq!(lengths.len(), 200, "zeros of different lengths");
    }

    #[test]
    fn fingerprint_stays_as_it_is_because_ids_come_from_it() {
        assert_eq!(fingerprint(b"spanscore"), 772_220_758);
        assert_eq!(fingerprint(&[b'x'; 100]), 2_616_399_562);
    }
}
