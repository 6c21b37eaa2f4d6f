//! Rate limits of one client: two token buckets, of requests and of bytes.

use std::time::Duration;

use tokio::time::Instant;

use super::settings::SenderLimits;

/// Shortest retry delay: HTTP counts in seconds.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// Longest retry delay: some SDKs give up a request at once that is to wait longer.
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Bucket that was empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimitMet {
    Requests,
    Bytes,
}

/// Token buckets of a client, each of one second's tokens.
#[derive(Debug)]
pub(super) struct SenderRate {
    limits: SenderLimits,
    requests: f64,
    bytes: f64,
    at: Instant,
}

impl SenderRate {
    /// Fills both buckets.
    pub(super) fn new(limits: SenderLimits, now: Instant) -> Self {
        let (requests, bytes) = per_second(limits);
        Self { limits, requests, bytes, at: now }
    }

    pub(super) fn limits(&self) -> SenderLimits {
        self.limits
    }

    /// Takes one request's token, or returns the empty bucket and the delay until it has one. Bytes
    /// are charged once they have come ([`charge`](Self::charge)), which may leave a debt: a client
    /// that has sent too many waits until it is paid.
    pub(super) fn take_request(&mut self, now: Instant) -> Result<(), (LimitMet, Duration)> {
        self.fill(now);
        let (requests, bytes) = per_second(self.limits);
        if self.limits.bytes_per_second.is_some() && self.bytes <= 0.0 {
            return Err((LimitMet::Bytes, delay(-self.bytes / bytes)));
        }
        if self.limits.requests_per_second.is_some() {
            if self.requests < 1.0 {
                return Err((LimitMet::Requests, delay((1.0 - self.requests) / requests)));
            }
            self.requests -= 1.0;
        }
        Ok(())
    }

    /// Charges the bytes of a request that has come.
    pub(super) fn charge(&mut self, bytes: usize) {
        if self.limits.bytes_per_second.is_some() {
            self.bytes -= bytes as f64;
        }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        let (requests, bytes) = per_second(self.limits);
        self.requests = (self.requests + passed * requests).min(requests.max(1.0));
        self.bytes = (self.bytes + passed * bytes).min(bytes);
    }
}

fn per_second(limits: SenderLimits) -> (f64, f64) {
    let requests = limits.requests_per_second.unwrap_or(0);
    (f64::from(requests), limits.bytes_per_second.unwrap_or(0) as f64)
}

fn delay(seconds: f64) -> Duration {
    let delay = Duration::try_from_secs_f64(seconds).unwrap_or(DELAY_MAX);
    delay.clamp(DELAY_MIN, DELAY_MAX)
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
