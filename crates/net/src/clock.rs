//! System clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since 1970; zero if the clock is before it.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the Unix time, nanoseconds.
pub fn now_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}
