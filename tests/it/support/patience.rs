//! Waits that end when something comes: progress ends them, and the clock only those in vain.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Longest wait for what must come: a bound for a test that fails, and no measure of speed. A busy
/// machine takes ten times as long as an idle one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is what is waited for; a look in vain says what it saw.
pub(crate) async fn eventually<T, E: Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "waited in vain: {seen}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same on a thread that nothing else waits for.
pub(crate) fn eventually_blocking<T, E: Display>(mut look: impl FnMut() -> Result<T, E>) -> T {
    let started = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "waited in vain: {seen}"),
        }
        std::thread::sleep(PAUSE);
    }
}

/// A look that only has to find something so; `seen` says what else there is.
pub(crate) fn once<E>(is_so: bool, seen: impl FnOnce() -> E) -> Result<(), E> {
    is_so.then_some(()).ok_or_else(seen)
}
