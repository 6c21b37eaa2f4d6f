//! Tail sampling: passes on traces by verdict, those with an agent, or those with a `fail`.
//!
//! A request is held until all of its traces are decided. Traces chosen before are released in
//! partial requests, one per second together, a few times at most. So each request is parsed a few
//! times only, however many traces it has. Later requests of a decided trace follow its remembered
//! decision.
//!
//! Each such forward has one task that owns the held requests ([`holding`]) and receives requests
//! and verdicts over a channel.

mod decisions;
mod holding;
mod split;
mod task;

use std::sync::Arc;

use spanscore_base::model::{ClientGroup, TraceId};

pub(super) use split::only;
pub use task::JudgedTrace;
pub(super) use task::TraceSampler;

/// Traces of a request that are sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WantedTraces {
    group: ClientGroup,
    keys: Arc<[TraceId]>,
}

impl WantedTraces {
    /// Returns these traces, by their keys in a client group.
    fn new(group: ClientGroup, mut keys: Vec<TraceId>) -> Self {
        keys.sort_unstable();
        Self { group, keys: keys.into() }
    }

    fn has(&self, trace: TraceId) -> bool {
        self.keys.binary_search(&self.group.key(trace)).is_ok()
    }
}
