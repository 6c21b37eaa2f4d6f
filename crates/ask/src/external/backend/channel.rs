//! Channel of an external evaluator: its description, and back-off while it is unreachable.

use std::sync::Arc;
use std::time::Duration;

use crate::external::transport::{Description, ExternalFault};
use spanscore_base::model::{Outcome, Reason};
use spanscore_evaluate::external::{ExternalPlan, ExternalTransport};
use spanscore_net::backoff::{Backoff, millis};

/// Back-off between queries of an evaluator's description.
const LOOKS: Backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(10));
/// Wait before an evaluator that refused our settings is queried again, milliseconds.
const REFUSED_MS: u64 = 60_000;

/// One evaluator, reached by one plan.
#[derive(Debug)]
pub(super) struct Channel {
    /// Name in the config; empty after its replacement.
    pub(super) name: String,
    pub(super) plan: Arc<ExternalPlan>,
    pub(super) in_flight: u32,
    pub(super) state: ChannelState,
    /// Consecutive failures to reach it.
    pub(super) failures: u32,
    /// True if it was reachable before.
    pub(super) was_ready: bool,
    /// Time before which none of its tasks has waited too long, milliseconds.
    pub(super) late_ms: u64,
}

/// Readiness of an evaluator.
#[derive(Debug)]
pub(super) enum ChannelState {
    /// Not described; it will be queried at a time.
    Unknown { next_ms: u64, why: String },
    /// Being queried for its description.
    Asked,
    /// Described.
    Ready(Arc<Description>),
    /// It does not support the config; it will be queried again at a time.
    Refused { next_ms: u64, error_type: &'static str, error: String },
}

impl Channel {
    /// Returns a channel. A process needs no description.
    pub(super) fn new(name: String, plan: Arc<ExternalPlan>) -> Self {
        let is_process = matches!(plan.transport, ExternalTransport::Process(_));
        let state = if is_process {
            ChannelState::Ready(Arc::default())
        } else {
            ChannelState::Unknown { next_ms: 0, why: "it was not asked yet".to_owned() }
        };
        Self { name, plan, in_flight: 0, state, failures: 0, was_ready: is_process, late_ms: 0 }
    }

    /// Returns true if it is due to be queried for its description; it then counts as queried.
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

    /// Takes its description, or the fault of the query.
    pub(super) fn described(&mut self, now_ms: u64, said: Result<Description, ExternalFault>) {
        match said {
            Ok(description) => {
                self.state = ChannelState::Ready(Arc::new(description));
                self.was_ready = true;
            }
            Err(
                ExternalFault::Final(error_type, error)
                | ExternalFault::Unfit { error_type, error, .. },
            ) => {
                let next_ms = now_ms.saturating_add(REFUSED_MS);
                self.state = ChannelState::Refused { next_ms, error_type, error };
            }
            Err(fault) => self.lost(now_ms, fault.told().1.to_owned()),
        }
    }

    /// Notes that it is unreachable.
    pub(super) fn lost(&mut self, now_ms: u64, why: String) {
        let wait = millis(LOOKS.wait(self.failures, 0.5));
        self.failures += 1;
        self.state = ChannelState::Unknown { next_ms: now_ms.saturating_add(wait), why };
    }

    /// Returns the reason that nothing is sent.
    pub(super) fn why(&self) -> &str {
        match &self.state {
            ChannelState::Unknown { why, .. } => why,
            ChannelState::Refused { error, .. } => error,
            ChannelState::Asked | ChannelState::Ready(_) => "it has not answered yet",
        }
    }

    /// Returns the outcome of a task whose evaluator is unavailable.
    pub(super) fn unavailable(&self) -> Outcome {
        let explanation = format!("the evaluator cannot be asked: {}", self.why());
        Outcome::NotEvaluable { reason: Reason::EvaluatorUnavailable, explanation }
    }

    /// Returns the time of the next query, milliseconds.
    pub(super) fn next_ms(&self) -> Option<u64> {
        match &self.state {
            ChannelState::Unknown { next_ms, .. } => Some(*next_ms),
            _ => None,
        }
    }

    /// Returns true if one more request may be in flight.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.plan.concurrency
    }

    /// Returns the limit on tasks in one request.
    pub(super) fn batch(&self) -> u32 {
        let asked = match &self.plan.transport {
            ExternalTransport::Process(_) => 1,
            ExternalTransport::Grpc(remote) | ExternalTransport::Http(remote) => remote.batch,
        };
        let ChannelState::Ready(description) = &self.state else { return asked };
        asked.min(description.batch_max.unwrap_or(u32::MAX)).max(1)
    }
}
