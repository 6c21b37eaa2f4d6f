//! Counters: requests that were refused, by reason.

use std::sync::atomic::{AtomicU64, Ordering};
use strum::{IntoStaticStr, VariantArray};

/// Reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum RequestRefusal {
    /// `Host` is not one of this listener.
    Host,
    /// Another site's page asks.
    Origin,
    /// No token, or a wrong one.
    Token,
    /// A one-time code that is none, expired or used.
    Code,
    /// Write by a token that only reads.
    ReadOnly,
    /// Too many wait.
    Busy,
    /// The query took too long.
    TooLong,
    /// The body is too large, or the answer would be.
    TooLarge,
    /// The body came too slowly.
    TooSlow,
    /// Bodies take all the room there is, or its sender's part.
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
