//! The tail of a queue that is in the log alone: a few bytes for each request, in order.
//!
//! A backend that is away for an hour leaves more requests than there is room for in memory. Of
//! those only the place in the log is kept, in chunks that share one claim: on all from the lowest
//! position among them on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::queue::{BodyRoom, ForwardMemory};
use spanscore_base::model::Claim;
use spanscore_base::otlp::Signal;

/// Requests that share a claim.
const CHUNK_LEN: usize = 32;
/// Bytes that each of them takes, with its line among the pending positions.
const ENTRY_BYTES: usize = size_of::<TailEntry>() + 24;

/// A request in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct TailEntry {
    pub(super) position: u64,
    pub(super) items: u64,
    /// Of its body.
    pub(super) bytes: u32,
    pub(super) signal: Signal,
}

struct TailChunk {
    claim: Claim,
    entries: VecDeque<TailEntry>,
    _room: Arc<BodyRoom>,
}

/// Requests that wait behind all that are in memory.
#[derive(Default)]
pub(super) struct Tail(Mutex<VecDeque<TailChunk>>);

impl Tail {
    fn chunks(&self) -> MutexGuard<'_, VecDeque<TailChunk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks().is_empty()
    }

    /// Adds a request, if there is room for its place.
    pub(super) fn push(
        &self,
        entry: TailEntry,
        claim: &Claim,
        memory: &Arc<ForwardMemory>,
    ) -> bool {
        let mut chunks = self.chunks();
        if let Some(last) = chunks.back_mut()
            && last.entries.len() < CHUNK_LEN
        {
            if claim.position() < last.claim.position() {
                last.claim = claim.onwards();
            }
            last.entries.push_back(entry);
            return true;
        }
        let Some(_room) = memory.room(CHUNK_LEN * ENTRY_BYTES) else { return false };
        let mut entries = VecDeque::with_capacity(CHUNK_LEN);
        entries.push_back(entry);
        chunks.push_back(TailChunk { claim: claim.onwards(), entries, _room });
        true
    }

    /// The first request, with a claim that covers it.
    pub(super) fn pop(&self) -> Option<(TailEntry, Claim)> {
        let mut chunks = self.chunks();
        let first = chunks.front_mut()?;
        let entry = first.entries.pop_front()?;
        let claim = first.claim.clone();
        // A full chunk that is empty again takes nothing more.
        if first.entries.is_empty() {
            chunks.pop_front();
        }
        Some((entry, claim))
    }
}
