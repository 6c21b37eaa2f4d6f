//! Log positions of requests without a body in memory: a few bytes each.
//!
//! A backend that is away for an hour leaves more requests than fit in memory. Only their log
//! positions are kept, in chunks that share one claim on all records from their lowest position.

use hashbrown::HashMap;
use parking_lot::Mutex;

use spanscore_base::model::Claim;
use spanscore_base::otlp::Signal;

/// Requests per shared claim.
const CHUNK_LEN: u32 = 32;
/// Request of which only the log has the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedRequest {
    pub(super) position: u64,
    pub(super) items: u64,
    /// Size of its body.
    pub(super) bytes: u32,
    /// Number of its chunk.
    pub(super) chunk: u32,
    pub(super) signal: Signal,
}

struct ChunkClaim {
    claim: Claim,
    /// Requests added.
    came: u32,
    /// Requests that still wait.
    waiting: u32,
}

/// Claims on requests that are only in the log.
#[derive(Default)]
pub(super) struct ChunkClaims(Mutex<Chunks>);

#[derive(Default)]
struct Chunks {
    open: u32,
    all: HashMap<u32, ChunkClaim>,
}

impl ChunkClaims {
    /// Claims another request; returns its chunk.
    pub(super) fn add(&self, claim: &Claim) -> u32 {
        let mut chunks = self.0.lock();
        let number = chunks.open;
        if let Some(open) = chunks.all.get_mut(&number).filter(|open| open.came < CHUNK_LEN) {
            if claim.position() < open.claim.position() {
                open.claim = claim.onwards();
            }
            open.came += 1;
            open.waiting += 1;
            return number;
        }
        chunks.open = number.wrapping_add(1);
        let number = chunks.open;
        chunks.all.insert(number, ChunkClaim { claim: claim.onwards(), came: 1, waiting: 1 });
        number
    }

    /// Removes a request from a chunk; returns the claim that covers it.
    pub(super) fn remove(&self, number: u32) -> Option<Claim> {
        let mut chunks = self.0.lock();
        let chunk = chunks.all.get_mut(&number)?;
        chunk.waiting -= 1;
        let claim = chunk.claim.clone();
        if chunk.waiting == 0 {
            chunks.all.remove(&number);
        }
        Some(claim)
    }
}
