//! Stable fraction of all traces or sessions.

use sha2::{Digest, Sha256};

use spanscore_base::model::{SessionKey, TraceId};

/// Sampling position of a trace or session, uniformly distributed. It is equal for all evaluators
/// and processes, so that these sample the same traces and sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Randomness(u64);

impl Randomness {
    /// Bits of the position.
    const BITS: u32 = 56;

    /// Returns the position of a trace: the last 7 bytes of its id, which are random in W3C trace
    /// contexts of level 2.
    pub fn of_trace(trace_id: TraceId) -> Self {
        Self::from_last(&trace_id.0)
    }

    /// Returns the position of a session, independent of the order of its traces.
    pub fn of_session(key: &SessionKey) -> Self {
        Self::from_last(&Sha256::digest(key.to_bytes()))
    }

    fn from_last(bytes: &[u8]) -> Self {
        let number = bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        Self(number & ((1 << Self::BITS) - 1))
    }

    /// Returns true if the position is in the lowest `share` (0 to 1).
    pub fn is_sampled(self, share: f64) -> bool {
        share >= 1.0 || (self.0 as f64) < share * (1u64 << Self::BITS) as f64
    }
}
