//! Token bucket for HTTP/2 frames without data: pings, settings, window updates and others.
//!
//! Each costs work here, and honest senders need few.

use std::time::Duration;

use tokio::time::Instant;

/// Capacity of the bucket: frames allowed at once.
const BURST: u32 = 1_000;
/// Frames added per second.
const PER_SECOND: u64 = 100;
/// Frames added by each request.
const PER_REQUEST: u32 = 8;

/// Frame bucket of one connection.
#[derive(Debug)]
pub(super) struct FrameBudget {
    left: u32,
    filled: Instant,
}

impl FrameBudget {
    pub(super) fn new() -> Self {
        Self { left: BURST, filled: Instant::now() }
    }

    /// Adds the frames of a request.
    pub(super) fn request(&mut self) {
        self.left = self.left.saturating_add(PER_REQUEST).min(BURST);
    }

    /// Charges a frame without data; false if the bucket is empty.
    pub(super) fn control(&mut self) -> bool {
        // Filled only when empty, so that most frames do not read the clock.
        if self.left == 0 {
            self.fill();
        }
        let is_within = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_within
    }

    fn fill(&mut self) {
        let passed = self.filled.elapsed();
        let frames = passed.as_millis() as u64 * PER_SECOND / 1000;
        if frames > 0 {
            self.left = u32::try_from(frames).unwrap_or(BURST).min(BURST);
            self.filled += Duration::from_millis(frames * 1000 / PER_SECOND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn flood_is_more_than_a_burst_and_a_rate() {
        let mut budget = FrameBudget::new();
        let flood = |budget: &mut FrameBudget| (0..).take_while(|_| budget.control()).count();
        assert_eq!(flood(&mut budget), BURST as usize);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(flood(&mut budget), 2 * PER_SECOND as usize);
        budget.request();
        assert_eq!(flood(&mut budget), PER_REQUEST as usize);
        for _ in 0..100_000 {
            budget.request();
            assert!((0..4).all(|_| budget.control()), "some with each request");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ping_each_second_is_allowed() {
        let mut budget = FrameBudget::new();
        for _ in 0..100_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(budget.control());
        }
    }
}
