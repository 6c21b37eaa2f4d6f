//! Traces of partitions: dropped with the partition, and limited in holding back its position.
//!
//! The next owner of a partition reads it from the committed position, so its traces are dropped
//! here without a judgement. An open or remembered trace holds that position back. A trace without
//! end would do so for ever, so a judged trace beyond `age_max` claims nothing.

use std::sync::Arc;

use super::{Handle, Shard};
use spanscore_base::model::{Claims, Source, TraceId};

/// Trace that has claimed its records for longest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldestTrace {
    /// Id as its senders gave it.
    pub trace_id: TraceId,
    /// Time since its first record, milliseconds.
    pub age_ms: u64,
}

impl Shard {
    /// Drops the traces of partitions owned by others without judgement; returns their number.
    /// Earlier verdicts are remembered and revised if the traces return.
    pub fn drop_revoked(&mut self, now_ms: u64) -> usize {
        let revoked = self.handles(|claims| claims.are_retired());
        for handle in &revoked {
            let spans = self.get_mut(*handle).map_or(0, |trace| trace.tally.settle());
            self.open_spans -= spans as usize;
            self.counts.spans.revoked += u64::from(spans);
            // A trace being judged has no verdict yet.
            if self.get(*handle).is_some_and(|it| it.is_open || it.remembered_bytes > 0) {
                self.keep_judgement(*handle, now_ms);
            }
            self.forget(*handle);
        }
        revoked.len()
    }

    /// Releases the records of judged traces beyond `age_max`, except those of `log`; returns the
    /// oldest trace that still claims some.
    pub fn release_aged(&mut self, now_ms: u64, log: Option<&Arc<Source>>) -> Option<OldestTrace> {
        let age_max = self.traces.age_max.as_ms();
        let is_of_partition =
            |claims: &Claims| !claims.is_empty() && log.is_none_or(|log| !claims.are_of(log));
        let mut oldest: Option<OldestTrace> = None;
        for handle in self.handles(is_of_partition) {
            let Some(trace) = self.get_mut(handle) else { continue };
            let age_ms = now_ms.saturating_sub(trace.first_ms);
            if age_ms > age_max && trace.judged().is_some() {
                trace.spans.claims = Claims::default();
                self.recount(handle);
            } else if oldest.is_none_or(|it| it.age_ms < age_ms) {
                oldest = Some(OldestTrace { trace_id: trace.spans.sent_id(), age_ms });
            }
        }
        oldest
    }

    /// Returns the handles of traces whose claims match.
    fn handles(&self, is_such: impl Fn(&Claims) -> bool) -> Vec<Handle> {
        let places = self.places.iter().zip(0..);
        let such = places.filter(|(place, _)| {
            place.trace.as_ref().is_some_and(|trace| is_such(&trace.spans.claims))
        });
        such.map(|(place, index)| Handle { index, generation: place.generation }).collect()
    }
}
