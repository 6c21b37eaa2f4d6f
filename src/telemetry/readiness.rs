//! Whether the process should get requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the pipeline sets and the health endpoint shows. Not ready at first.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says that requests are welcome, or no longer.
    pub fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Ordering::Release);
    }

    /// Whether requests are welcome.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
