//! Waits that end when something comes: progress ends them, and the clock only those in vain.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Longest wait for what must come: a bound for a test that fails, and no measure of speed. A busy
/// machine takes ten times as long as an idle one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Longest one.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pause after a look that took so long: who waits takes a fourth of a core at most from what is
/// waited for.
fn pause(look: Duration) -> Duration {
    (look * 3).clamp(PAUSE, PAUSE_MAX)
}

/// Looks until there is what is waited for; a look in vain says what it saw.
pub(crate) async fn eventually<T, E: Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        let looks = Instant::now();
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "waited in vain: {seen}"),
        }
        tokio::time::sleep(pause(looks.elapsed())).await;
    }
}

/// The same on a thread that nothing else waits for.
pub(crate) fn eventually_blocking<T, E: Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        let looks = Instant::now();
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "waited in vain: {seen}"),
        }
        std::thread::sleep(pause(looks.elapsed()));
    }
}

/// A look that only has to find something so; `seen` says what else there is.
pub(crate) fn once<E>(is_so: bool, seen: impl FnOnce() -> E) -> Result<(), E> {
    is_so.then_some(()).ok_or_else(seen)
}
