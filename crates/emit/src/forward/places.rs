//! Requests that are in the log alone: a few bytes for each.
//!
//! A backend that is away for an hour leaves more requests than there is room for in memory. Of
//! those only the place in the log is kept, in chunks that share one claim: on all from the lowest
//! position among them on.

use hashbrown::HashMap;
use parking_lot::Mutex;

use spanscore_base::model::Claim;
use spanscore_base::otlp::Signal;

/// Requests that share a claim.
const CHUNK_LEN: u32 = 32;
/// A request in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedRequest {
    pub(super) position: u64,
    pub(super) items: u64,
    /// Of its body.
    pub(super) bytes: u32,
    /// Its chunk.
    pub(super) chunk: u32,
    pub(super) signal: Signal,
}

struct ChunkClaim {
    claim: Claim,
    /// Requests that came.
    came: u32,
    /// Those of them that wait.
    waiting: u32,
}

/// Claims on the requests that are in the log alone.
#[derive(Default)]
pub(super) struct ChunkClaims(Mutex<Chunks>);

#[derive(Default)]
struct Chunks {
    open: u32,
    all: HashMap<u32, ChunkClaim>,
}

impl ChunkClaims {
    /// Claims one more request; returns its chunk.
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

    /// Returns the claim that covers a request of a chunk, which waits no more.
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
