//! Eviction of sessions.

use std::sync::Arc;

use super::{DueSession, Removal, Sessions, session_bytes};
use crate::shares::Measure;
use spanscore_base::model::{Completion, SessionKey};

impl Sessions {
    /// Ends a judgement: its session is remembered, or removed if so marked.
    pub fn done(&mut self, due: &DueSession) {
        let known = self.by_key.get_mut(&due.key);
        let Some(session) = known.filter(|session| session.number == due.number) else { return };
        session.unfinished = session.unfinished.saturating_sub(1);
        self.shares.put(session.slot, session.class());
        if session.unfinished == 0 && session.removal.is_some() {
            self.forget(&due.key);
        }
    }

    /// Returns the bytes of evicted sessions with unfinished judgements, held beyond the limit.
    pub fn evicted_bytes(&self) -> usize {
        self.evicted.1
    }

    /// Cancels the removal of a session.
    pub(super) fn cancel_removal(&mut self, key: &Arc<SessionKey>) {
        let Some(session) = self.by_key.get_mut(key) else { return };
        if session.removal.take() == Some(Removal::Evicted) {
            self.evicted.0 -= 1;
            self.evicted.1 -= session_bytes(key, session);
        }
    }

    /// Forgets a session, once its judgements are done.
    pub(super) fn remove(&mut self, key: &Arc<SessionKey>, why: Removal) {
        let Some(session) = self.by_key.get_mut(key) else { return };
        if session.unfinished == 0 {
            return self.forget(key);
        }
        // It no longer counts toward the limits, whatever its age.
        if session.removal == Some(Removal::Evicted) {
            return;
        }
        session.removal = Some(why);
        self.shares.put(session.slot, session.class());
        if why == Removal::Evicted {
            self.evicted.0 += 1;
            self.evicted.1 += session_bytes(key, session);
        }
    }

    pub(super) fn forget(&mut self, key: &Arc<SessionKey>) {
        self.cancel_removal(key);
        if let Some(session) = self.by_key.remove(key) {
            for (trace, _) in &session.traces {
                self.by_trace.remove(&trace.trace_id);
            }
            self.bytes -= session_bytes(key, &session);
            self.open_count -= usize::from(session.is_open);
            self.shares.leave(session.slot);
            self.slots[session.slot as usize] = None;
            self.free.push(session.slot);
        }
    }

    /// Forgets and judges sessions of the largest holders until the limits hold.
    pub(super) fn make_room(&mut self, due: &mut Vec<DueSession>) {
        let kept = self.settings.kept_bytes();
        // The allocator rounds sizes up.
        let bytes_max = kept - kept / 9;
        loop {
            let (evicted_count, evicted_bytes) = self.evicted;
            let over_bytes = self.bytes().saturating_sub(evicted_bytes) > bytes_max;
            let count = self.by_key.len().saturating_sub(evicted_count);
            if !over_bytes && count <= self.settings.open_sessions_max as usize {
                return;
            }
            let open = if over_bytes { Measure::OpenBytes } else { Measure::OpenTraces };
            let Some(key) = self.next_to_go(open) else { return };
            self.counts.evicted += 1;
            due.extend(self.judge(&key, Completion::Evicted));
            self.remove(&key, Removal::Evicted);
        }
    }

    fn next_to_go(&self, open: Measure) -> Option<Arc<SessionKey>> {
        let next = |measure| self.shares.next(measure);
        let slot = next(Measure::RememberedBytes).or_else(|| next(open))?;
        self.slots.get(slot as usize)?.clone()
    }
}
