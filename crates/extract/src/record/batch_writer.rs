//! Writer of records into the batches of their shards, with counts.

use std::sync::Arc;

use super::counts::{Extracted, Rejection};
use super::resources::ResourceCache;
use spanscore_base::model::{Resource, SpanBatch, SpanRecord, TraceId, shard_of};
use spanscore_base::otlp::request::Broken;

pub(crate) struct BatchWriter<'s> {
    shards: &'s mut [SpanBatch],
    resources: &'s mut ResourceCache,
    resource: Arc<Resource>,
    pub(crate) extracted: Extracted,
}

impl<'s> BatchWriter<'s> {
    pub(crate) fn new(resources: &'s mut ResourceCache, shards: &'s mut [SpanBatch]) -> Self {
        let resource = Arc::default();
        Self { shards, resources, resource, extracted: Extracted::default() }
    }

    pub(crate) fn enter_resource(&mut self, encoded: &[u8]) {
        if self.resource.encoded != encoded {
            self.resource = self.resources.intern(encoded);
        }
    }

    /// Adds the record made by `write`, with its output in the arena as facts; without a record,
    /// the output is removed.
    #[inline]
    pub(crate) fn record(
        &mut self,
        trace_id: TraceId,
        write: impl FnOnce(&mut Vec<u8>, &mut Extracted) -> Result<Option<SpanRecord>, Rejection>,
    ) -> Result<(), Rejection> {
        let shard = shard_of(trace_id, self.shards.len());
        let batch = self.shards.get_mut(shard).ok_or(Rejection::BatchFull)?;
        let from = batch.arena.len();
        let made = write(&mut batch.arena, &mut self.extracted)
            .and_then(|record| push(batch, (trace_id, record), from, &self.resource));
        if made != Ok(true) {
            batch.arena.truncate(from);
        }
        self.extracted.records += u64::from(made?);
        Ok(())
    }

    /// Counts one item.
    #[inline]
    pub(crate) fn count(&mut self, outcome: Result<(), Rejection>) {
        match outcome {
            Ok(()) => self.extracted.accepted += 1,
            Err(reason) => self.extracted.reject(reason),
        }
    }

    /// Returns the counts, with items lost in a broken container counted as malformed; an error if
    /// there is nothing else.
    pub(crate) fn finish(mut self, walked: Result<(), Broken>) -> Result<Extracted, Broken> {
        if let Err(broken) = walked {
            if self.extracted == Extracted::default() {
                return Err(broken);
            }
            self.extracted.lose(broken);
        }
        Ok(self.extracted)
    }
}

#[inline]
fn push(
    batch: &mut SpanBatch,
    (trace_id, record): (TraceId, Option<SpanRecord>),
    from: usize,
    resource: &Arc<Resource>,
) -> Result<bool, Rejection> {
    let Some(mut record) = record else { return Ok(false) };
    let full = |_| Rejection::BatchFull;
    record.facts =
        u32::try_from(from).map_err(full)?..u32::try_from(batch.arena.len()).map_err(full)?;
    if batch.resources.last().is_none_or(|last| !Arc::ptr_eq(last, resource)) {
        batch.resources.push(Arc::clone(resource));
    }
    record.resource = u32::try_from(batch.resources.len() - 1).map_err(full)?;
    batch.push(trace_id, record);
    Ok(true)
}
