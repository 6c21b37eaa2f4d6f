//! One evaluator as the lane knows it: what waits for it, and whether it can be asked.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::external::transport::{Description, ExternalFault};
use spanscore_evaluate::external::{ExternalPlan, ExternalTransport};

/// The first wait before an evaluator is looked for again; each further one is twice as long.
const LOOK_MS: u64 = 500;
/// The longest such wait.
const LOOK_MAX_MS: u64 = 10_000;
/// Time before an evaluator that refused our settings is asked again, milliseconds.
const REFUSED_MS: u64 = 60_000;

/// One evaluator.
#[derive(Debug)]
pub(super) struct Channel {
    /// Its name in the config.
    pub(super) name: String,
    pub(super) plan: Arc<ExternalPlan>,
    /// Tasks that may be sent.
    pub(super) queue: VecDeque<u64>,
    pub(super) in_flight: u32,
    pub(super) state: ChannelState,
    /// Times in a row that it could not be reached.
    pub(super) failures: u32,
    /// It was there once.
    pub(super) was_ready: bool,
}

/// Readiness of an evaluator.
#[derive(Debug)]
pub(super) enum ChannelState {
    /// It has not said what it evaluates; it is asked for that at a time.
    Unknown { next_ms: u64, why: String },
    /// It is being asked for that.
    Asked,
    /// It has said.
    Ready(Arc<Description>),
    /// It cannot do what the config wants; it is asked again at a time.
    Refused { next_ms: u64, error_type: &'static str, error: String },
}

impl Channel {
    /// An evaluator of which nothing is known. A process needs not be looked for.
    pub(super) fn new(name: String, plan: Arc<ExternalPlan>) -> Self {
        let is_process = matches!(plan.transport, ExternalTransport::Process(_));
        let state = if is_process {
            ChannelState::Ready(Arc::default())
        } else {
            ChannelState::Unknown { next_ms: 0, why: "it was not asked yet".to_owned() }
        };
        let queue = VecDeque::new();
        Self { name, plan, queue, in_flight: 0, state, failures: 0, was_ready: is_process }
    }

    /// Returns true if it is due to be asked for its description; then it counts as asked.
    pub(super) fn begin_describing(&mut self, now_ms: u64, is_wanted: bool) -> bool {
        let is_due = match &self.state {
            ChannelState::Unknown { next_ms, .. } => *next_ms <= now_ms,
            ChannelState::Refused { next_ms, .. } => *next_ms <= now_ms && is_wanted,
            ChannelState::Asked | ChannelState::Ready(_) => false,
        };
        if is_due {
            self.state = ChannelState::Asked;
        }
        is_due
    }

    /// Takes its description, or the fault of asking for it.
    pub(super) fn described(&mut self, now_ms: u64, said: Result<Description, ExternalFault>) {
        match said {
            Ok(description) => {
                self.state = ChannelState::Ready(Arc::new(description));
                self.was_ready = true;
            }
            Err(
                ExternalFault::Final { error_type, error }
                | ExternalFault::Unfit { error_type, error, .. },
            ) => {
                let next_ms = now_ms.saturating_add(REFUSED_MS);
                self.state = ChannelState::Refused { next_ms, error_type, error };
            }
            Err(fault) => self.lost(now_ms, fault.told().1.to_owned()),
        }
    }

    /// It could not be reached.
    pub(super) fn lost(&mut self, now_ms: u64, why: String) {
        let wait = (LOOK_MS << self.failures.min(10)).min(LOOK_MAX_MS);
        self.failures += 1;
        self.state = ChannelState::Unknown { next_ms: now_ms.saturating_add(wait), why };
    }

    /// Returns the reason why nothing is sent.
    pub(super) fn why(&self) -> &str {
        match &self.state {
            ChannelState::Unknown { why, .. } => why,
            ChannelState::Refused { error, .. } => error,
            ChannelState::Asked | ChannelState::Ready(_) => "it has not answered yet",
        }
    }

    /// Returns the time of the next attempt to reach it.
    pub(super) fn next_ms(&self) -> Option<u64> {
        match &self.state {
            ChannelState::Unknown { next_ms, .. } => Some(*next_ms),
            _ => None,
        }
    }

    /// Tasks of one request at most.
    pub(super) fn batch(&self) -> u32 {
        let asked = match &self.plan.transport {
            ExternalTransport::Process(_) => 1,
            ExternalTransport::Grpc(remote) | ExternalTransport::Http(remote) => remote.batch,
        };
        let ChannelState::Ready(description) = &self.state else { return asked };
        asked.min(description.batch_max.unwrap_or(u32::MAX)).max(1)
    }
}
