//! Rate limits of one client: two token buckets, of requests and of bytes.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::SenderLimits;
use spanscore_net::backoff::millis;
use spanscore_net::rate::TokenBucket;

/// Shortest retry delay: HTTP has whole seconds.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// Longest retry delay: some SDKs drop a request with a longer one.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Period of the buckets, milliseconds.
const SECOND_MS: u64 = 1_000;

/// The empty bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimitMet {
    Requests,
    Bytes,
}

/// Token buckets of a client, with a capacity of one second each.
#[derive(Debug)]
pub(super) struct SenderRate {
    limits: SenderLimits,
    born: Instant,
    requests: TokenBucket,
    bytes: TokenBucket,
}

impl SenderRate {
    /// Fills both buckets.
    pub(super) fn new(limits: SenderLimits, now: Instant) -> Self {
        let bucket = |per_second| TokenBucket::new(per_second, SECOND_MS, SECOND_MS);
        let requests = bucket(limits.requests_per_second.unwrap_or(0).into());
        let bytes = bucket(limits.bytes_per_second.unwrap_or(0));
        Self { limits, born: now, requests, bytes }
    }

    pub(super) fn limits(&self) -> SenderLimits {
        self.limits
    }

    /// Takes one request's token, or returns the empty bucket and the delay until it has one. Bytes
    /// are charged on arrival ([`charge`](Self::charge)), which may leave a debt that the client
    /// must wait for.
    pub(super) fn take_request(&mut self, now: Instant) -> Result<(), (LimitMet, Duration)> {
        let now_ms = millis(now.saturating_duration_since(self.born));
        if self.limits.bytes_per_second.is_some() {
            need_one(&mut self.bytes, now_ms).map_err(|delay| (LimitMet::Bytes, delay))?;
        }
        if self.limits.requests_per_second.is_some() {
            need_one(&mut self.requests, now_ms).map_err(|delay| (LimitMet::Requests, delay))?;
            self.requests.take(1);
        }
        Ok(())
    }

    /// Charges the bytes of a received request.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.bytes.take(bytes as u64);
    }
}

/// Returns the retry delay while a bucket is empty.
fn need_one(bucket: &mut TokenBucket, now_ms: u64) -> Result<(), Duration> {
    match bucket.free_at(now_ms, 1).saturating_sub(now_ms) {
        0 => Ok(()),
        wait_ms => Err(Duration::from_millis(wait_ms).clamp(DELAY_MIN, DELAY_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests: Option<u32>, bytes: Option<u64>) -> SenderLimits {
        SenderLimits { requests_per_second: requests, bytes_per_second: bytes }
    }

    #[test]
    fn requests_beyond_those_of_a_second_wait() {
        let start = Instant::now();
        let mut rate = SenderRate::new(limits(Some(2), None), start);
        assert_eq!(rate.take_request(start), Ok(()));
        assert_eq!(rate.take_request(start), Ok(()));
        assert_eq!(rate.take_request(start), Err((LimitMet::Requests, DELAY_MIN)));
        assert_eq!(rate.take_request(start + Duration::from_millis(500)), Ok(()));
        assert!(rate.take_request(start + Duration::from_millis(500)).is_err());
    }

    #[test]
    fn bytes_are_paid_before_the_next_request() {
        let start = Instant::now();
        let mut rate = SenderRate::new(limits(None, Some(1000)), start);
        assert_eq!(rate.take_request(start), Ok(()));
        rate.charge(11_000);
        assert_eq!(rate.take_request(start), Err((LimitMet::Bytes, DELAY_MAX)));
        let later = start + Duration::from_millis(9_500);
        assert_eq!(rate.take_request(later), Err((LimitMet::Bytes, DELAY_MIN)));
        assert_eq!(rate.take_request(start + Duration::from_millis(10_001)), Ok(()));
    }

    #[test]
    fn without_limits_nobody_waits() {
        let start = Instant::now();
        let mut rate = SenderRate::new(SenderLimits::default(), start);
        for _ in 0..1000 {
            assert_eq!(rate.take_request(start), Ok(()));
            rate.charge(1 << 30);
        }
    }
}
