//! Counters of refused requests, by reason.

use std::sync::atomic::{AtomicU64, Ordering};
use strum::{IntoStaticStr, VariantArray};

/// Reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RequestRefusal {
    /// `Host` is not one of this listener.
    Host,
    /// Cross-site request.
    Origin,
    /// A missing or wrong token.
    Token,
    /// An invalid, expired or used one-time code.
    Code,
    /// Write access with a read-only token.
    ReadOnly,
    /// Too many requests are waiting.
    Busy,
    /// The query took too long.
    TooLong,
    /// The body or the answer is too large.
    TooLarge,
    /// The body was too slow.
    TooSlow,
    /// Bodies use all the room, or their sender's share.
    BytesFull,
}

impl RequestRefusal {
    /// All reasons, in the order of declaration.
    pub const ALL: &'static [Self] = Self::VARIANTS;
}

/// All counters of an API.
#[derive(Debug, Default)]
pub struct ApiCounters([AtomicU64; RequestRefusal::ALL.len()]);

impl ApiCounters {
    /// Returns a count.
    pub fn get(&self, refusal: RequestRefusal) -> u64 {
        self.0[refusal as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, refusal: RequestRefusal) {
        self.0[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }
}
