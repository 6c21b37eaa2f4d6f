//! Traces chosen by what was judged of them: those that hold an agent, or those with a `fail`.
//!
//! A request is held until all of its traces are decided. Those that are chosen before leave in
//! requests of their own, together with others of the second, a few times at most. So holding costs
//! no more than walking each request a few times, however many traces it holds. What comes later
//! for a decided trace follows its decision for as long as that is remembered.
//!
//! One task for each such forward keeps what is held ([`holding`]) and is told over a channel what
//! came and what was judged.

mod decisions;
mod holding;
mod split;
mod task;

use std::sync::Arc;

use spanscore_base::model::{ClientGroup, TraceId};

pub(super) use split::only;
pub(super) use task::Chooser;
pub use task::JudgedTrace;

/// The traces that are sent of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WantedTraces {
    group: ClientGroup,
    keys: Arc<[TraceId]>,
}

impl WantedTraces {
    /// Returns these traces, by their keys in a group.
    fn new(group: ClientGroup, mut keys: Vec<TraceId>) -> Self {
        keys.sort_unstable();
        Self { group, keys: keys.into() }
    }

    fn has(&self, trace: TraceId) -> bool {
        self.keys.binary_search(&self.group.key(trace)).is_ok()
    }
}
