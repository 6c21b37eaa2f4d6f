//! Index over the spool: the records of each trace by request, so that a trace can be assembled
//! alone, however its spans are spread over the input.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::spool::{Spool, SpoolPlace};
use spanscore_base::model::{Resource, SpanBatch, SpanFlags, SpanId, SpanRecord, TraceId};

/// Records of all traces, by trace.
pub(super) struct TracePieces {
    spool: Spool,
    /// Traces in the order of first records.
    traces: Vec<PiecesOfTrace>,
    by_id: HashMap<TraceId, usize>,
    resources: Vec<Arc<Resource>>,
    /// Index of resources by encoded form; most inputs have few.
    by_resource: HashMap<Vec<u8>, u32>,
}

/// Positions of one trace's records, one for each request.
struct PiecesOfTrace {
    id: TraceId,
    places: SmallVec<[SpoolPlace; 1]>,
    bytes: u64,
}

/// Encoded records of one request, by trace.
type Pieces = HashMap<TraceId, Vec<u8>>;

impl TracePieces {
    pub(super) fn new(memory_max: usize) -> Self {
        Self {
            spool: Spool::new(memory_max),
            traces: Vec::new(),
            by_id: HashMap::new(),
            resources: Vec::new(),
            by_resource: HashMap::new(),
        }
    }

    /// Returns the number of traces.
    pub(super) fn len(&self) -> usize {
        self.traces.len()
    }

    /// Returns the id of a trace.
    pub(super) fn id(&self, trace: usize) -> TraceId {
        self.traces[trace].id
    }

    /// Returns the bytes of a trace's records.
    pub(super) fn bytes(&self, trace: usize) -> u64 {
        self.traces[trace].bytes
    }

    /// Adds the records of one request.
    pub(super) fn add(&mut self, batch: &SpanBatch) -> io::Result<()> {
        let resources: Vec<u32> = batch.resources.iter().map(|it| self.intern(it)).collect();
        let mut pieces = Pieces::new();
        let mut order = Vec::new();
        let records = batch.by_trace().flat_map(|(id, run)| run.iter().map(move |span| (id, span)));
        for (trace_id, span) in records {
            let facts = batch.arena.get(span.facts.start as usize..span.facts.end as usize);
            let resource = resources.get(span.resource as usize).copied().unwrap_or(u32::MAX);
            let piece = pieces.entry(trace_id).or_insert_with(|| {
                order.push(trace_id);
                Vec::new()
            });
            write(span, resource, facts.unwrap_or_default(), piece);
        }
        for id in order {
            let piece = pieces.get(&id).map(Vec::as_slice).unwrap_or_default();
            let place = self.spool.push(piece)?;
            let trace = *self.by_id.entry(id).or_insert_with(|| {
                self.traces.push(PiecesOfTrace { id, places: SmallVec::new(), bytes: 0 });
                self.traces.len() - 1
            });
            let trace = &mut self.traces[trace];
            trace.bytes += u64::from(place.len);
            trace.places.push(place);
        }
        Ok(())
    }

    /// Ends the first pass: flushes the spool and frees the lookup tables.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.by_id = HashMap::new();
        self.by_resource = HashMap::new();
        self.spool.finish()
    }

    /// Visits the batches of a trace, one for each request, in order.
    pub(super) fn read(&self, trace: usize, mut visit: impl FnMut(&SpanBatch)) -> io::Result<()> {
        let trace = &self.traces[trace];
        let mut bytes = Vec::new();
        for place in &trace.places {
            bytes.clear();
            self.spool.read(*place, &mut bytes)?;
            let batch = self.batch(trace.id, &bytes);
            visit(&batch.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?);
        }
        Ok(())
    }

    fn batch(&self, trace_id: TraceId, bytes: &[u8]) -> Option<SpanBatch> {
        let mut batch = SpanBatch::default();
        let mut own: HashMap<u32, u32> = HashMap::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (mut span, resource, facts) = read(&mut rest)?;
            let start = u32::try_from(batch.arena.len()).ok()?;
            batch.arena.extend_from_slice(facts);
            span.facts = start..u32::try_from(batch.arena.len()).ok()?;
            span.resource = match self.resources.get(resource as usize) {
                None => u32::MAX,
                Some(shared) => *own.entry(resource).or_insert_with(|| {
                    batch.resources.push(Arc::clone(shared));
                    batch.resources.len() as u32 - 1
                }),
            };
            batch.push(trace_id, span);
        }
        Some(batch)
    }

    fn intern(&mut self, resource: &Arc<Resource>) -> u32 {
        if let Some(known) = self.by_resource.get(&resource.encoded) {
            return *known;
        }
        let place = u32::try_from(self.resources.len()).unwrap_or(u32::MAX);
        self.by_resource.insert(resource.encoded.clone(), place);
        self.resources.push(Arc::clone(resource));
        place
    }
}

/// Encodes a record: numbers in little-endian, then its facts behind their length.
fn write(span: &SpanRecord, resource: u32, facts: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&span.span_id.0);
    out.extend_from_slice(&span.parent_id.0);
    out.extend_from_slice(&span.start_ns.to_le_bytes());
    out.extend_from_slice(&span.end_ns.to_le_bytes());
    for number in [span.content, span.peer, u32::from(span.flags.0), resource] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    // Lossless: the arena of a batch is addressed by 32 bits.
    out.extend_from_slice(&(facts.len() as u32).to_le_bytes());
    out.extend_from_slice(facts);
}

fn read<'b>(rest: &mut &'b [u8]) -> Option<(SpanRecord, u32, &'b [u8])> {
    let span_id = SpanId(take(rest)?);
    let parent_id = SpanId(take(rest)?);
    let start_ns = u64::from_le_bytes(take(rest)?);
    let end_ns = u64::from_le_bytes(take(rest)?);
    let mut number = || take(rest).map(u32::from_le_bytes);
    let content = number()?;
    let peer = number()?;
    let flags = number()?;
    let resource = number()?;
    let len = number()?;
    let (facts, left) = rest.split_at_checked(len as usize)?;
    *rest = left;
    let flags = SpanFlags(u16::try_from(flags).ok()?);
    let span = SpanRecord {
        span_id,
        parent_id,
        start_ns,
        end_ns,
        content,
        peer,
        flags,
        resource: 0,
        facts: 0..0,
    };
    Some((span, resource, facts))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: u8, facts: std::ops::Range<u32>, resource: u32) -> SpanRecord {
        SpanRecord {
            span_id: SpanId([id; 8]),
            parent_id: SpanId([id / 2; 8]),
            start_ns: u64::from(id) << 40,
            end_ns: u64::MAX - u64::from(id),
            content: 77 * u32::from(id),
            peer: 3,
            flags: SpanFlags(SpanFlags::TOOL | SpanFlags::CONFLICT),
            resource,
            facts,
        }
    }

    #[test]
    fn each_trace_comes_back_whole_in_its_order() {
        let resource = |name: &str| {
            Arc::new(Resource { encoded: name.as_bytes().to_vec(), service_name: name.to_owned() })
        };
        for memory_max in [usize::MAX, 0] {
            let mut pieces = TracePieces::new(memory_max);
            let batch = |arena: &[u8], spans: Vec<(u8, SpanRecord)>, resources: &[&str]| {
                let arena = arena.to_vec();
                let resources = resources.iter().map(|name| resource(name)).collect();
                let mut batch = SpanBatch { arena, resources, ..SpanBatch::default() };
                spans.into_iter().for_each(|(id, span)| batch.push(TraceId([id; 16]), span));
                batch
            };
            let spans = vec![(2, span(1, 0..3, 1)), (1, span(2, 3..6, 0)), (2, span(3, 6..6, 0))];
            let first = batch(b"abcdef", spans, &["a", "b"]);
            let second = batch(b"xyz", vec![(2, span(4, 0..3, 0))], &["a"]);
            pieces.add(&first).unwrap();
            pieces.add(&second).unwrap();
            pieces.finish().unwrap();
            assert_eq!((pieces.len(), pieces.id(0)), (2, TraceId([2; 16])));
            let mut seen = Vec::new();
            pieces
                .read(0, |batch| {
                    for span in &batch.spans {
                        let facts =
                            &batch.arena[span.facts.start as usize..span.facts.end as usize];
                        let name = batch.resources[span.resource as usize].service_name.clone();
                        seen.push((span.clone(), facts.to_vec(), name));
                    }
                })
                .unwrap();
            let plain: Vec<_> = seen
                .iter()
                .map(|(s, facts, name)| (s.span_id.0[0], &facts[..], &name[..]))
                .collect();
            let expected: [(u8, &[u8], &str); 3] =
                [(1, b"abc", "b"), (3, b"", "a"), (4, b"xyz", "a")];
            assert_eq!(plain, expected);
            let same =
                SpanRecord { facts: 0..3, resource: seen[0].0.resource, ..first.spans[0].clone() };
            assert_eq!(seen[0].0, same);
        }
    }
}
