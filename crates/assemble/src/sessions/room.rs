//! Eviction of sessions.

use std::sync::Arc;

use super::{DueSession, Goes, Sessions, held_by};
use crate::shares::Measure;
use spanscore_base::model::{Completion, SessionKey};

impl Sessions {
    /// Ends a judgement: its session is remembered, or removed if so marked.
    pub fn done(&mut self, due: &DueSession) {
        let known = self.by_key.get_mut(&due.key);
        let Some(session) = known.filter(|session| session.number == due.number) else { return };
        session.going = session.going.saturating_sub(1);
        self.shares.put(session.slot, session.class());
        if session.going == 0 && session.goes.is_some() {
            self.forget(&due.key);
        }
    }

    /// Returns the bytes of evicted sessions with unfinished judgements beyond the limit.
    pub fn going_bytes(&self) -> usize {
        self.going.1
    }

    /// Cancels the removal of a session.
    pub(super) fn stay(&mut self, key: &Arc<SessionKey>) {
        let Some(session) = self.by_key.get_mut(key) else { return };
        if session.goes.take() == Some(Goes::Evicted) {
            self.going.0 -= 1;
            self.going.1 -= held_by(key, session);
        }
    }

    /// Forgets a session, once its judgements are done.
    pub(super) fn let_go(&mut self, key: &Arc<SessionKey>, why: Goes) {
        let Some(session) = self.by_key.get_mut(key) else { return };
        if session.going == 0 {
            return self.forget(key);
        }
        // It no longer counts toward the limits, whatever its age.
        if session.goes == Some(Goes::Evicted) {
            return;
        }
        session.goes = Some(why);
        self.shares.put(session.slot, session.class());
        if why == Goes::Evicted {
            self.going.0 += 1;
            self.going.1 += held_by(key, session);
        }
    }

    pub(super) fn forget(&mut self, key: &Arc<SessionKey>) {
        self.stay(key);
        if let Some(session) = self.by_key.remove(key) {
            for (trace, _) in &session.traces {
                self.by_trace.remove(&trace.trace_id);
            }
            self.bytes -= held_by(key, &session);
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
            let (going_count, going_bytes) = self.going;
            let over_bytes = self.bytes().saturating_sub(going_bytes) > bytes_max;
            let count = self.by_key.len().saturating_sub(going_count);
            if !over_bytes && count <= self.settings.open_sessions_max as usize {
                return;
            }
            let open = if over_bytes { Measure::OpenBytes } else { Measure::OpenTraces };
            let Some(key) = self.next_to_go(open) else { return };
            self.counts.evicted += 1;
            due.extend(self.judge(&key, Completion::Evicted));
            self.let_go(&key, Goes::Evicted);
        }
    }

    fn next_to_go(&self, open: Measure) -> Option<Arc<SessionKey>> {
        let next = |measure| self.shares.next(measure);
        let slot = next(Measure::RememberedBytes).or_else(|| next(open))?;
        self.slots.get(slot as usize)?.clone()
    }
}
