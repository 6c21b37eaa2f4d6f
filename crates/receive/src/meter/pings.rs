//! Enforcement of the ping policy of a connection (`keepalive.enforcement_policy`).
//!
//! Rules: gRPC, "Client-side Keepalive" (proposal A8). A ping that comes too soon is a strike, the
//! third strike ends the connection, and headers or data from this side reset the count.

use std::time::Duration;

use tokio::time::Instant;

use super::frames::{FrameHead, kind};
use crate::settings::EnforcementPolicy;

/// Allowed number of early pings.
const STRIKES_MAX: u32 = 2;
/// Shortest interval of pings without a running call, if the policy does not permit them.
const IDLE_TIME: Duration = Duration::from_secs(2 * 60 * 60);

/// Ping state of one connection.
pub(super) struct PingPolicy {
    policy: EnforcementPolicy,
    last: Option<Instant>,
    strikes: u32,
    /// Running calls.
    calls: usize,
}

impl PingPolicy {
    pub(super) fn new(policy: EnforcementPolicy) -> Self {
        Self { policy, last: None, strikes: 0, calls: 0 }
    }

    /// Inspects a received frame; false for a ping too many.
    pub(super) fn received(&mut self, head: FrameHead) -> bool {
        match head.kind {
            kind::HEADERS => self.calls += 1,
            kind::RST_STREAM => self.calls = self.calls.saturating_sub(1),
            kind::PING if !head.has_first_flag() => return self.ping(Instant::now()),
            _ => {}
        }
        true
    }

    /// Inspects a sent frame.
    pub(super) fn sent(&mut self, head: FrameHead) {
        let ends = match head.kind {
            kind::HEADERS | kind::DATA => {
                (self.strikes, self.last) = (0, None);
                head.has_first_flag()
            }
            kind::RST_STREAM => true,
            _ => false,
        };
        self.calls = self.calls.saturating_sub(usize::from(ends));
    }

    fn ping(&mut self, now: Instant) -> bool {
        let is_idle = self.calls == 0 && !self.policy.permit_without_stream;
        let shortest = if is_idle { IDLE_TIME } else { self.policy.min_time.0 };
        let last = self.last.replace(now);
        if last.is_some_and(|last| now.saturating_duration_since(last) < shortest) {
            self.strikes += 1;
        }
        self.strikes <= STRIKES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::settings::HumanDuration;

    fn policy(permit_without_stream: bool) -> PingPolicy {
        let min_time = HumanDuration::from_secs(10);
        PingPolicy::new(EnforcementPolicy { min_time, permit_without_stream })
    }

    #[test]
    fn third_early_ping_ends_the_connection() {
        let mut pings = policy(true);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let taken: Vec<_> = [0, 1, 2, 3].map(|seconds| pings.ping(at(seconds))).into();
        assert_eq!(taken, [true, true, true, false]);
        let mut patient = policy(true);
        assert!((0..100).all(|turn| patient.ping(at(turn * 10))));
    }

    #[test]
    fn without_a_call_pings_are_seldom() {
        let mut pings = policy(false);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!([0, 10, 20].into_iter().all(|seconds| pings.ping(at(seconds))));
        assert!(!pings.ping(at(30)));
        let mut calling = policy(false);
        calling.calls = 1;
        assert!((0..100).all(|turn| calling.ping(at(turn * 10))));
    }
}
