//! Span records: facts of spans, retained from arrival until their trace is complete.
//!
//! `extract` writes these records and `assemble` gathers them by trace without reading their facts.
//! `extract` reads them into a [`Trajectory`](super::Trajectory) once the trace is complete.

use std::ops::Range;
use std::sync::Arc;

use super::{Claim, Claims, ClientGroup, Sender, SpanId, TraceId};

/// Resource of spans, as received.
#[derive(Debug, Default, PartialEq)]
pub struct Resource {
    /// The encoded `opentelemetry.proto.resource.v1.Resource`.
    pub encoded: Vec<u8>,
    /// `service.name`, empty when the resource has none.
    pub service_name: String,
}

impl Resource {
    /// Returns the bytes held for it.
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
    /// A dialect finds a tool call on this span.
    pub const TOOL: u16 = 1 << 2;
    /// The span belongs to an agent or a language model, so its trace is an agent's run.
    pub const AGENT: u16 = 1 << 3;
    /// The record holds a log event, not a span: it joins the trace but starts and ends nothing.
    pub const LOG: u16 = 1 << 4;
    /// The parent lives in another process.
    pub const REMOTE_PARENT: u16 = 1 << 5;
    /// Status code `ERROR`.
    pub const ERROR: u16 = 1 << 6;
    /// Another record with the same span id and other content gave way to this one.
    pub const CONFLICT: u16 = 1 << 7;
    /// The span's name refers to a title: the name of a conversation is no answer to a user.
    pub const TITLE: u16 = 1 << 8;
    /// The span says that its run is waiting.
    pub const WAITING: u16 = 1 << 9;
    /// The span says that its run has finished.
    pub const FINISHED: u16 = 1 << 10;

    /// Returns true if all bits of `mask` are set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask == mask
    }

    /// Sets the bits of `mask`.
    pub fn set(&mut self, mask: u16) {
        self.0 |= mask;
    }
}

/// Run state reported by a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunState {
    /// It waits for a person's approval or for another agent.
    Waiting,
    /// It has finished.
    Finished,
}

/// One span, reduced to the facts that the configured evaluators need: 56 bytes. It does not name
/// its trace; the batch or trace that holds it does.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The span's id.
    pub span_id: SpanId,
    /// The parent's id; [`SpanId::is_none`] for a root.
    pub parent_id: SpanId,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds; 0 while the span has not ended.
    pub end_ns: u64,
    /// Hash of the received span or log record with its scope, independent of the retained facts.
    pub content: u32,
    /// Identifies the other end of a call to another process; 0 without one.
    pub peer: u32,
    /// Properties for `assemble`.
    pub flags: SpanFlags,
    /// Index into the `resources` of the batch or trace that holds this record.
    pub resource: u32,
    /// Range of the facts in the arena of the batch or trace that holds this record. Their format
    /// belongs to `extract`.
    pub facts: Range<u32>,
}

const _: () = assert!(size_of::<SpanRecord>() == 56, "an open trace holds many of them");

/// Records of one request for one shard, in arrival order.
#[derive(Default, Debug)]
pub struct SpanBatch {
    /// Arena: facts of all records, end to end.
    pub arena: Vec<u8>,
    /// The records; their `facts` are ranges of `arena`.
    pub spans: Vec<SpanRecord>,
    /// The traces of the records, as runs of adjacent records.
    pub runs: Vec<TraceRun>,
    /// The resources that `spans` refer to.
    pub resources: Vec<Arc<Resource>>,
    /// Claims on the log positions of the records.
    pub claims: Claims,
    /// Claims on topic records, each of one trace, in addition to `claims`.
    pub claims_by_trace: Option<Arc<ClaimsByTrace>>,
    /// Sender of the request.
    pub sender: Sender,
}

/// Claims on records of one trace each.
#[derive(Clone, Debug, Default)]
pub struct ClaimsByTrace(Vec<(TraceId, Claims)>);

impl ClaimsByTrace {
    /// Returns the claims of a trace.
    pub fn get(&self, trace_id: TraceId) -> Option<&Claims> {
        let at = self.0.binary_search_by_key(&trace_id, |(trace_id, _)| *trace_id).ok()?;
        self.0.get(at).map(|(_, claims)| claims)
    }
}

impl FromIterator<(TraceId, Claim)> for ClaimsByTrace {
    fn from_iter<I: IntoIterator<Item = (TraceId, Claim)>>(records: I) -> Self {
        let mut records: Vec<_> = records.into_iter().collect();
        records.sort_by_key(|(trace_id, _)| *trace_id);
        let same = records.chunk_by(|a, b| a.0 == b.0);
        let of_trace = same.filter_map(|same| {
            let claims = same.iter().map(|(_, claim)| Claims::from(claim.clone()));
            same.first().map(|(trace_id, _)| (*trace_id, claims.collect()))
        });
        Self(of_trace.collect())
    }
}

/// Run of records of one trace in a batch.
#[derive(Clone, Copy, Debug)]
pub struct TraceRun {
    /// Their trace.
    pub trace_id: TraceId,
    /// End index; the run begins at the end of the one before.
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

    /// Returns the records by run: a trace whose records are not adjacent appears several times.
    pub fn by_trace(&self) -> impl Iterator<Item = (TraceId, &[SpanRecord])> {
        let mut start = 0;
        self.runs.iter().map(move |run| {
            let end = run.end as usize;
            let records = self.spans.get(start..end).unwrap_or_default();
            start = end;
            (run.trace_id, records)
        })
    }

    /// Returns the claims that the records of a trace need.
    pub fn claims_of(&self, trace_id: TraceId) -> &Claims {
        let by_trace = self.claims_by_trace.as_ref().and_then(|by_trace| by_trace.get(trace_id));
        by_trace.unwrap_or(&self.claims)
    }

    /// Returns true if another process now reads the records.
    pub fn is_retired(&self) -> bool {
        let of_traces = self.claims_by_trace.iter().flat_map(|by_trace| &by_trace.0);
        let mut claims = of_traces.map(|(_, claims)| claims).peekable();
        match claims.peek() {
            Some(_) => claims.all(Claims::are_retired),
            None => self.claims.are_retired(),
        }
    }

    /// Removes all records; the capacity stays.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.spans.clear();
        self.runs.clear();
        self.resources.clear();
        self.claims = Claims::default();
        self.claims_by_trace = None;
        self.sender = Sender::default();
    }

    /// Returns true if its records are spans rather than log events: a request holds only one kind.
    pub fn is_of_spans(&self) -> bool {
        self.spans.first().is_some_and(|record| !record.flags.has(SpanFlags::LOG))
    }
}

impl SpanRecord {
    /// Returns the sort key of records with one span id; the greatest wins. An ended record
    /// precedes an open one; then the later end counts, then the hash of the content.
    pub fn precedence(&self) -> (bool, u64, u32) {
        (self.flags.has(SpanFlags::ENDED), self.end_ns, self.content)
    }
}

/// All records of one trace.
#[derive(Default, Debug, Clone)]
pub struct TraceSpans {
    /// Its internal id; see [`ClientGroup::key`].
    pub trace_id: TraceId,
    /// Group of its senders, and the id as sent; `None` for the default group.
    pub grouped: Option<Box<(ClientGroup, TraceId)>>,
    /// Sender of its first record.
    pub sender: Sender,
    /// Facts of all records, end to end.
    pub arena: Vec<u8>,
    /// The records in arrival order; their `facts` point into `arena`.
    pub spans: Vec<SpanRecord>,
    /// The resources that `spans` refer to.
    pub resources: Vec<Arc<Resource>>,
    /// Claims on the log positions of the records.
    pub claims: Claims,
}

impl TraceSpans {
    /// Returns an empty trace of a sender.
    pub fn of(sender: Sender, sent_id: TraceId) -> Self {
        let group = sender.group;
        let grouped = (!group.is_everybody()).then(|| Box::new((group, sent_id)));
        Self { trace_id: group.key(sent_id), grouped, sender, ..Self::default() }
    }

    /// Returns the group of its senders.
    pub fn group(&self) -> ClientGroup {
        self.grouped.as_ref().map_or_else(ClientGroup::default, |grouped| grouped.0)
    }

    /// Returns the id as sent.
    pub fn sent_id(&self) -> TraceId {
        self.grouped.as_ref().map_or(self.trace_id, |grouped| grouped.1)
    }

    /// Counts the characters in its facts that predict their decoding cost.
    pub fn signs(&self) -> SignCounts {
        let (blocks, rest) = self.arena.as_chunks::<COUNTED_AT_ONCE>();
        let mut all = SignCounts::default();
        blocks.iter().for_each(|block| all.add(block));
        all.add(rest);
        all
    }
}

impl SignCounts {
    /// Adds the counts of at most 255 bytes, kept in bytes so that the compiler vectorises the
    /// loop.
    #[inline(always)]
    fn add(&mut self, few: &[u8]) {
        let count = |is_sign: fn(u8) -> bool| {
            usize::from(few.iter().map(|byte| u8::from(is_sign(*byte))).fold(0, u8::wrapping_add))
        };
        // `[` and `{` differ in one bit; `'` and `(` are adjacent.
        self.values += count(|byte| (byte == b',') | (byte | 0x20 == b'{'));
        self.literals += count(|byte| byte.wrapping_sub(b'\'') < 2);
        self.fields += count(|byte| byte == b'=');
    }
}

/// Character counts in facts that predict their decoding cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignCounts {
    /// Approximate number of values if all facts are JSON. Values determine the cost, and prose
    /// holds few separators.
    pub values: usize,
    /// Approximate number of further characters if all facts are Python literals: quotes and
    /// parentheses.
    pub literals: usize,
    /// Approximate number of fields if all facts are printed Python objects (`name=value`).
    pub fields: usize,
}

/// Block size for counts that fit in a byte: a multiple of sixteen-byte vectors, since a remainder
/// is counted byte by byte.
const COUNTED_AT_ONCE: usize = 240;

/// Bytes of a cache line on nearly all processors.
const LINE_BYTES: usize = 64;

/// Prefetches bytes that will be walked. Each field's length gives the place of the next, so a walk
/// would wait for every missing line in turn; touched in a row, they load together.
#[inline]
pub fn fetch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// Returns a fingerprint of bytes in one pass that also prefetches them ([`fetch`]). It detects
/// accidental differences, not crafted collisions, and is the same on every machine.
///
/// Two sums for each eight bytes of a line: of the words, and of the running sums, so that the
/// order of lines counts. Only additions, since the compiler vectorises them.
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
    // The end is read as a whole line that overlaps the bytes before it: cheaper than byte by byte.
    match bytes.last_chunk() {
        Some(_) if rest.is_empty() => {}
        Some(last) => add(last),
        None => {
            let mut last = [0; LINE_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            add(&last);
        }
    }
    // Without this the compiler sums the lanes one by one from the start.
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

/// Returns the shard of a trace. Senders choose trace ids, but these determine only the spread over
/// shards, never a hash table.
pub fn shard_of(trace_id: TraceId, shard_count: usize) -> usize {
    let mut low = [0; 8];
    low.copy_from_slice(&trace_id.0[8..]);
    let spread = u64::from_be_bytes(low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    // Multiply and shift instead of a remainder, which needs a division.
    (spread.wrapping_mul(shard_count as u64) >> 32) as usize
}

impl SpanBatch {
    /// Returns the bytes held, including resources that others may share.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.spans.capacity() * size_of::<SpanRecord>()
            + self.runs.capacity() * size_of::<TraceRun>()
            + self.resources.iter().map(|resource| resource.bytes()).sum::<usize>()
    }
}

impl TraceSpans {
    /// Returns the facts of one record.
    pub fn facts(&self, span: &SpanRecord) -> &[u8] {
        self.arena.get(span.facts.start as usize..span.facts.end as usize).unwrap_or(&[])
    }

    /// Returns the run state from the last span to end that reports one.
    pub fn run_state(&self) -> Option<RunState> {
        let told = |span: &SpanRecord| {
            let waits = span.flags.has(SpanFlags::WAITING).then_some(RunState::Waiting);
            waits.or(span.flags.has(SpanFlags::FINISHED).then_some(RunState::Finished))
        };
        let tells = self.spans.iter().filter_map(|span| Some((span.end_ns, told(span)?)));
        tells.max_by_key(|(end_ns, _)| *end_ns).map(|(_, state)| state)
    }

    /// Reserves the needed room for records and facts, or a fifth of the present size if larger,
    /// since most traces arrive in few parts.
    pub fn reserve(&mut self, spans: usize, bytes: usize) {
        if self.spans.capacity() - self.spans.len() < spans {
            self.spans.reserve_exact(spans.max(self.spans.len() / 5));
        }
        if self.arena.capacity() - self.arena.len() < bytes {
            self.arena.reserve_exact(bytes.max(self.arena.len() / 5));
        }
    }

    /// Returns the bytes held for this trace, without shared resources.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.spans.capacity() * size_of::<SpanRecord>()
            + self.resources.capacity() * size_of::<Arc<Resource>>()
            + self.claims.bytes()
    }

    /// Returns the bytes held for this trace, including resources that others may share.
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
