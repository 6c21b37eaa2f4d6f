//! Span records: facts of spans, retained from their arrival until their trace is complete.
//!
//! `extract` writes these records, `assemble` gathers them by trace without looking into their
//! facts, and `extract` reads them back into a [`Trajectory`](super::Trajectory) once the trace is
//! complete.

use std::ops::Range;
use std::sync::Arc;

use super::{Claim, Claims, ClientGroup, Sender, SpanId, TraceId};

/// Resource of spans, as it came.
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
    /// Another record with the same span id and other content gave way to this one.
    pub const CONFLICT: u16 = 1 << 7;
    /// The span's name speaks of a title: the name of a conversation is nobody's answer.
    pub const TITLE: u16 = 1 << 8;
    /// The span says that its run waits for somebody.
    pub const WAITING: u16 = 1 << 9;
    /// The span says that its run is over.
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

/// State of its run that a span tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunState {
    /// It waits for somebody: a person who approves, another agent.
    Waiting,
    /// It is over.
    Finished,
}

/// One span, reduced to the facts that the configured evaluators need: 56 bytes. It does not name
/// its trace, which the batch or trace that holds it knows.
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
    /// Hash of the span or log record as it came, with its scope: independent of the facts
    /// retained.
    pub content: u32,
    /// Number that identifies the other end of a call to another process; 0 if it calls none.
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

/// The records that one request brought for one shard, in arrival order.
#[derive(Default, Debug)]
pub struct SpanBatch {
    /// Arena: facts of all records, end to end.
    pub arena: Vec<u8>,
    /// The records; their `facts` point into `arena`.
    pub spans: Vec<SpanRecord>,
    /// The traces of the records, run by run.
    pub runs: Vec<TraceRun>,
    /// The resources that `spans` refer to.
    pub resources: Vec<Arc<Resource>>,
    /// Claims on the log positions of the records.
    pub claims: Claims,
    /// Claims on records of a topic, which have one trace each: they stand beside `claims`.
    pub claims_by_trace: Option<Arc<ClaimsByTrace>>,
    /// Sender of the request.
    pub sender: Sender,
}

/// Claims on records that have one trace each.
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
    /// The trace that they belong to.
    pub trace_id: TraceId,
    /// Index of the end; the run begins at the end of the one before.
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

    /// Returns the records run by run: a trace whose records do not stand together comes several
    /// times.
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

    /// Returns true if others read the records from now on.
    pub fn is_retired(&self) -> bool {
        let of_traces = self.claims_by_trace.iter().flat_map(|by_trace| &by_trace.0);
        let mut claims = of_traces.map(|(_, claims)| claims).peekable();
        match claims.peek() {
            Some(_) => claims.all(Claims::are_retired),
            None => self.claims.are_retired(),
        }
    }

    /// Empties it; its capacity stays.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.spans.clear();
        self.runs.clear();
        self.resources.clear();
        self.claims = Claims::default();
        self.claims_by_trace = None;
        self.sender = Sender::default();
    }

    /// Returns true if its records are spans, not log events: a request brings either.
    pub fn is_of_spans(&self) -> bool {
        self.spans.first().is_some_and(|record| !record.flags.has(SpanFlags::LOG))
    }
}

impl SpanRecord {
    /// Returns the sort key of records with one span id, of which the greatest counts: one that
    /// ended goes before one that did not, then the later end, then the hash of the content.
    pub fn precedence(&self) -> (bool, u64, u32) {
        (self.flags.has(SpanFlags::ENDED), self.end_ns, self.content)
    }
}

/// All records of one trace.
#[derive(Default, Debug, Clone)]
pub struct TraceSpans {
    /// The id under which it is held; see [`ClientGroup::key`].
    pub trace_id: TraceId,
    /// Group of its senders, and the id that they sent; `None` where that is everybody's.
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
    /// Returns a trace of a sender without a record.
    pub fn of(sender: Sender, sent_id: TraceId) -> Self {
        let group = sender.group;
        let grouped = (!group.is_everybody()).then(|| Box::new((group, sent_id)));
        Self { trace_id: group.key(sent_id), grouped, sender, ..Self::default() }
    }

    /// Returns the group of its senders.
    pub fn group(&self) -> ClientGroup {
        self.grouped.as_ref().map_or_else(ClientGroup::default, |grouped| grouped.0)
    }

    /// Returns the id that its senders gave it.
    pub fn sent_id(&self) -> TraceId {
        self.grouped.as_ref().map_or(self.trace_id, |grouped| grouped.1)
    }

    /// Counts the signs in its facts that tell how costly they are to read.
    pub fn signs(&self) -> SignCounts {
        let (blocks, rest) = self.arena.as_chunks::<COUNTED_AT_ONCE>();
        let mut all = SignCounts::default();
        blocks.iter().for_each(|block| all.add(block));
        all.add(rest);
        all
    }
}

impl SignCounts {
    /// Adds the signs of a few bytes, counted in bytes, so that sixteen and more are counted at
    /// once.
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

/// Counts of signs in facts that tell how costly they are to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignCounts {
    /// About the number of values, if all facts are JSON: their number makes values costly, and
    /// prose holds few of the signs that part them.
    pub values: usize,
    /// About the number of further signs, if all facts are Python literals: quotes and parentheses.
    pub literals: usize,
    /// About the number of fields, if all facts are what Python prints of objects (`name=value`).
    pub fields: usize,
}

/// Block size for counts that fit in a byte: as many vectors of sixteen as possible, since the rest
/// of a block is counted one by one.
const COUNTED_AT_ONCE: usize = 240;

/// Bytes of a cache line, on nearly all processors.
const LINE_BYTES: usize = 64;

/// Fetches bytes into the caches before they are walked. Fields are read one after the other, each
/// at the place that the length of the one before gives, so every missing line would be waited for
/// alone; touched in a row, they come together.
#[inline]
pub fn fetch(bytes: &[u8]) {
    std::hint::black_box(bytes.iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// Returns a fingerprint of bytes, in one pass that also fetches them ([`fetch`]). It tells apart
/// what differs by accident, not what somebody made to collide; the same on every machine.
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
    // The end is read with the bytes before it as a whole line, which is cheaper than byte by byte.
    match bytes.last_chunk() {
        Some(_) if rest.is_empty() => {}
        Some(last) => add(last),
        None => {
            let mut last = [0; LINE_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            add(&last);
        }
    }
    // Without this the compiler would sum the lanes one by one from the start.
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

/// Returns the shard of a trace. Strangers choose trace ids, but only the spread over shards
/// depends on this, never a hash table.
pub fn shard_of(trace_id: TraceId, shard_count: usize) -> usize {
    let mut low = [0; 8];
    low.copy_from_slice(&trace_id.0[8..]);
    let spread = u64::from_be_bytes(low).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    // Multiply and shift in place of a remainder, which takes a division.
    (spread.wrapping_mul(shard_count as u64) >> 32) as usize
}

impl SpanBatch {
    /// Returns the bytes held for it, with its resources, which others may share.
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

    /// Returns the state of the run by the span that ended last of those that tell one.
    pub fn run_state(&self) -> Option<RunState> {
        let told = |span: &SpanRecord| {
            let waits = span.flags.has(SpanFlags::WAITING).then_some(RunState::Waiting);
            waits.or(span.flags.has(SpanFlags::FINISHED).then_some(RunState::Finished))
        };
        let tells = self.spans.iter().filter_map(|span| Some((span.end_ns, told(span)?)));
        tells.max_by_key(|(end_ns, _)| *end_ns).map(|(_, state)| state)
    }

    /// Reserves room for more records and facts: as much as they need, or a fifth of what there is
    /// if that is more, since most traces come in few parts and then wait.
    pub fn reserve(&mut self, spans: usize, bytes: usize) {
        if self.spans.capacity() - self.spans.len() < spans {
            self.spans.reserve_exact(spans.max(self.spans.len() / 5));
        }
        if self.arena.capacity() - self.arena.len() < bytes {
            self.arena.reserve_exact(bytes.max(self.arena.len() / 5));
        }
    }

    /// Returns the bytes held for this trace alone.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.spans.capacity() * size_of::<SpanRecord>()
            + self.resources.capacity() * size_of::<Arc<Resource>>()
            + self.claims.bytes()
    }

    /// Returns the bytes held for this trace, with its resources, which others may share.
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
