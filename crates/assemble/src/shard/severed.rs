//! Traces that went to make room before their time was over: later parts of them are revisions.

use std::collections::VecDeque;

use hashbrown::HashMap;

use spanscore_base::model::TraceId;

/// Part of the limit on traces that may be known so.
const SHARE: usize = 8;
/// As many may be known so under any limit.
const COUNT_MIN: usize = 64;
/// Bytes of one: an entry of a table at 7 of 16 to 7 of 8 slots, and one of a queue.
const SEVERED_BYTES: usize = 112;

/// Number of judgements and digest of the last, by trace; the oldest are dropped.
pub(super) struct SeveredTraces {
    judged: HashMap<TraceId, (u32, u128)>,
    order: VecDeque<TraceId>,
    count_max: usize,
}

impl SeveredTraces {
    /// Returns a memory beside so many traces.
    pub(super) fn new(trace_count_max: usize) -> Self {
        let count_max = (trace_count_max / SHARE).max(COUNT_MIN);
        Self { judged: HashMap::new(), order: VecDeque::new(), count_max }
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.order.len() * SEVERED_BYTES
    }

    /// Remembers the judgements of a trace.
    pub(super) fn add(&mut self, trace_id: TraceId, judged: (u32, u128)) {
        self.judged.insert(trace_id, judged);
        self.order.push_back(trace_id);
        if self.order.len() > self.count_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.judged.remove(&oldest);
        }
    }

    /// Returns the judgements of a trace of which a later part came, once.
    pub(super) fn take(&mut self, trace_id: TraceId) -> Option<(u32, u128)> {
        if self.judged.is_empty() { None } else { self.judged.remove(&trace_id) }
    }
}
