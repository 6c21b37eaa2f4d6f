//! Sessions: the traces of one conversation, gathered by session id.
//!
//! A session has all traces with one session id, within one service by default ([`SessionKey`]). It
//! is complete after `session_idle_timeout` without a trace; a later trace reopens it while it is
//! remembered. Traces are held as records; a revised trace replaces its earlier version.
//!
//! Room is made as among traces ([`crate::shares`]), from the largest holder: first remembered
//! sessions are forgotten, then open ones judged, the longest quiet first. The sender of its first
//! trace holds a session. It stays while a judgement of it is not [`done`](Sessions::done).

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

use super::SessionsSettings;
use super::shares::{Shares, TraceClass};
use super::wheel::{TICK_MS, Wheel};
use spanscore_base::model::{Completion, Sender, SessionKey, TraceId, TraceSpans};

/// Session due for judgement.
#[derive(Clone, Debug)]
pub struct DueSession {
    /// Key of the session.
    pub key: Arc<SessionKey>,
    /// Number that distinguishes it from a later session with the same key.
    pub number: u64,
    /// Its traces in the order of their first judgement.
    pub traces: Vec<Arc<TraceSpans>>,
    /// Sender of the first of them.
    pub sender: Sender,
    /// Cause that completed it.
    pub completion: Completion,
    /// Number of its earlier judgements.
    pub revision: u32,
    /// Hash of the spans of all its traces.
    pub digest: [u8; 16],
    /// Digest of the previous judgement, if any.
    pub revised: Option<[u8; 16]>,
}

/// Counts of sessions since the last call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SessionCounts {
    /// Traces left out of full sessions.
    pub traces_over_limit: u64,
    /// Sessions judged because of the limits on their number or size.
    pub evicted: u64,
}

#[derive(Default)]
struct Session {
    /// Distinguishes it from an earlier session with the same key.
    number: u64,
    /// Its index among the holders of shares.
    slot: u32,
    /// Sender of its first trace.
    sender: Sender,
    traces: Vec<(Arc<TraceSpans>, u128)>,
    bytes: usize,
    last_ms: u64,
    first_ms: u64,
    is_open: bool,
    judged: Option<(u32, u128)>,
    /// Unfinished judgements.
    unfinished: u32,
    /// Set if it is removed after the last of them.
    removal: Option<Removal>,
}

/// Reason for the removal of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// Its age; it counts toward the limits until then.
    Aged,
    /// The limits, toward which it no longer counts.
    Evicted,
}

impl Session {
    fn class(&self) -> TraceClass {
        match (self.is_open, self.unfinished, self.removal) {
            (true, ..) => TraceClass::Complete,
            (false, 0, _) => TraceClass::Remembered,
            (false, _, Some(Removal::Evicted)) => TraceClass::BeingJudged,
            (false, ..) => TraceClass::Waiting,
        }
    }
}

/// Interval of checks of a due session that is held up.
const HELD_WAIT_MS: u64 = 200;

/// Bytes of a session without its traces, with its table entries.
const SESSION_BYTES: usize = size_of::<Session>() + 300;
/// Bytes of a trace without its records, with its table entries.
const TRACE_BYTES: usize = size_of::<TraceSpans>() + 150;

/// Returns the bytes that a trace takes in its session.
fn held_bytes(trace: &TraceSpans) -> usize {
    TRACE_BYTES + trace.bytes_with_resources()
}

/// Returns the bytes of a key and of the empty session that it begins.
fn key_bytes(key: &SessionKey) -> usize {
    let service = key.service_name.as_ref().map_or(0, |name| name.len());
    SESSION_BYTES + key.session_id.len() + service
}

impl Session {
    fn digest(&self) -> u128 {
        self.traces.iter().fold(0, |sum, (_, digest)| sum.wrapping_add(*digest))
    }

    /// Adds a trace, or replaces its earlier version; false if there are too many.
    fn add(&mut self, trace: Arc<TraceSpans>, digest: u128, traces_max: usize) -> bool {
        let place = self.traces.iter().position(|(old, _)| old.trace_id == trace.trace_id);
        let bytes = held_bytes(&trace);
        match place {
            Some(place) => {
                self.bytes -= held_bytes(&self.traces[place].0);
                self.traces[place] = (trace, digest);
            }
            None if self.traces.len() >= traces_max => return false,
            None => self.traces.push((trace, digest)),
        }
        self.bytes += bytes;
        true
    }

    /// Removes a trace; returns its bytes.
    fn remove(&mut self, trace_id: TraceId) -> usize {
        let place = self.traces.iter().position(|(trace, _)| trace.trace_id == trace_id);
        let bytes = place.map_or(0, |place| held_bytes(&self.traces.remove(place).0));
        self.bytes -= bytes;
        bytes
    }
}

/// Open and remembered sessions.
#[derive(Default)]
pub struct Sessions {
    settings: SessionsSettings,
    by_key: HashMap<Arc<SessionKey>, Session>,
    /// Session of each held trace.
    by_trace: HashMap<TraceId, Arc<SessionKey>>,
    /// Holders of the limits, for eviction; the longest quiet session of each is its oldest.
    shares: Shares,
    /// Keys of the sessions by their slots.
    slots: Vec<Option<Arc<SessionKey>>>,
    free: Vec<u32>,
    /// One timer for each session, with its number.
    wheel: Wheel<(Arc<SessionKey>, u64)>,
    /// Sessions whose timer has fired, to be checked.
    fired: VecDeque<(Arc<SessionKey>, u64)>,
    started_count: u64,
    open_count: usize,
    bytes: usize,
    /// Number and bytes of evicted sessions being judged.
    evicted: (usize, usize),
    counts: SessionCounts,
}

impl Sessions {
    /// Returns an empty set of sessions.
    pub fn new(settings: SessionsSettings, now_ms: u64) -> Self {
        Self { settings, wheel: Wheel::new(now_ms), ..Self::default() }
    }

    /// Removes all sessions. Numbers continue, so that judgements of removed sessions never apply
    /// to later ones.
    pub fn reset(&mut self, now_ms: u64) {
        let started_count = self.started_count;
        *self = Self { started_count, ..Self::new(self.settings, now_ms) };
    }

    /// Changes the limits. Armed deadlines of open sessions stay.
    pub fn limit(&mut self, settings: SessionsSettings) {
        self.settings = settings;
    }

    /// Rewrites the records of all its traces; a due session keeps the old ones.
    pub fn reform(&mut self, mut change: impl FnMut(&mut TraceSpans)) {
        let sessions = self.by_key.values_mut();
        let traces = sessions.flat_map(|session| &mut session.traces);
        traces.for_each(|(trace, _)| change(Arc::make_mut(trace)));
    }

    /// Adds a judged trace to its session; pushes sessions made due by a limit.
    pub fn add(
        &mut self,
        key: SessionKey,
        (trace, digest): (Arc<TraceSpans>, [u8; 16]),
        now_ms: u64,
        due: &mut Vec<DueSession>,
    ) {
        let key = match self.by_key.get_key_value(&key) {
            Some((key, _)) => Arc::clone(key),
            None => self.start(Arc::new(key), trace.sender, now_ms),
        };
        self.cancel_removal(&key);
        let traces_max = self.settings.traces_per_session_max as usize;
        if let Some(session) = self.by_key.get_mut(&key) {
            let before = session.bytes;
            let trace_id = trace.trace_id;
            let is_in = session.add(trace, u128::from_be_bytes(digest), traces_max);
            self.bytes = self.bytes + session.bytes - before;
            self.open_count += usize::from(!session.is_open);
            session.is_open = true;
            session.last_ms = now_ms;
            // A new link makes it the newest.
            self.shares.put(session.slot, TraceClass::BeingJudged);
            self.shares.set(session.slot, session.class(), session_bytes(&key, session));
            if is_in {
                self.moved(trace_id, key);
            } else {
                self.counts.traces_over_limit += 1;
            }
        }
        self.make_room(due);
    }

    /// Removes a trace from another session that held it: a late span, such as its root, can name
    /// another session or service. The other session is judged again.
    fn moved(&mut self, trace_id: TraceId, key: Arc<SessionKey>) {
        let Some(left) = self.by_trace.insert(trace_id, Arc::clone(&key)) else { return };
        if left == key {
            return;
        }
        self.cancel_removal(&left);
        let Some(session) = self.by_key.get_mut(&left) else { return };
        self.bytes -= session.remove(trace_id);
        self.open_count += usize::from(!session.is_open);
        session.is_open = true;
        self.shares.set(session.slot, session.class(), session_bytes(&left, session));
        if session.traces.is_empty() {
            self.forget(&left);
        }
    }

    fn start(&mut self, key: Arc<SessionKey>, sender: Sender, now_ms: u64) -> Arc<SessionKey> {
        self.started_count += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(Arc::clone(&key));
        self.shares.join(slot, sender, key.service_name.as_deref().unwrap_or_default());
        let session = Session {
            number: self.started_count,
            slot,
            sender,
            last_ms: now_ms,
            first_ms: now_ms,
            ..Session::default()
        };
        let wait_ms = self.settings.idle_timeout.min(self.settings.age_max).as_ms();
        self.wheel.arm(now_ms.saturating_add(wait_ms), (Arc::clone(&key), session.number));
        self.bytes += key_bytes(&key);
        self.by_key.insert(Arc::clone(&key), session);
        key
    }

    /// Pushes sessions due at `now`, and forgets those remembered for the full period.
    pub fn tick(&mut self, now_ms: u64, due: &mut Vec<DueSession>) {
        self.pass(now_ms);
        due.extend(std::iter::from_fn(|| self.next_due(now_ms, |_| false)));
    }

    /// Advances to a time: sessions whose timer fires wait for [`next_due`](Self::next_due).
    pub fn pass(&mut self, now_ms: u64) {
        let by_key = &self.by_key;
        let is_known = |(key, number): &(Arc<SessionKey>, u64)| {
            by_key.get(key).is_some_and(|session| session.number == *number)
        };
        let mut fired = Vec::new();
        self.wheel.due(now_ms, is_known, &mut fired);
        self.fired.extend(fired);
    }

    /// Returns the number of sessions that [`next_due`](Self::next_due) has yet to check.
    pub fn behind(&self) -> usize {
        self.fired.len()
    }

    /// Returns the next session due at `now`, and forgets those remembered for the full period. A
    /// session with a held-up sender or an unfinished judgement stays open for a while: each
    /// waiting judgement holds its own version of the traces.
    pub fn next_due(
        &mut self,
        now_ms: u64,
        is_held: impl Fn(Sender) -> bool,
    ) -> Option<DueSession> {
        let idle_ms = self.settings.idle_timeout.as_ms();
        let age_max_ms = self.settings.age_max.as_ms();
        while let Some((key, number)) = self.fired.pop_front() {
            let Some(session) = self.by_key.get(&key).filter(|found| found.number == number) else {
                continue;
            };
            let deadline = session.last_ms.saturating_add(idle_ms);
            let forgotten = deadline.saturating_add(idle_ms);
            let too_old = session.first_ms.saturating_add(age_max_ms);
            let is_due = session.is_open && deadline.min(too_old) <= now_ms;
            let is_judged = session.unfinished > 0;
            if is_due && (is_judged || is_held(session.sender)) {
                self.wheel.arm(now_ms.saturating_add(HELD_WAIT_MS), (key, number));
                continue;
            }
            let (due, next) = if !session.is_open {
                (None, forgotten)
            } else if deadline <= now_ms {
                (self.judge(&key, Completion::Idle), forgotten)
            } else if too_old <= now_ms {
                (self.judge(&key, Completion::AgeMax), now_ms)
            } else {
                (None, deadline)
            };
            if next <= now_ms {
                self.remove(&key, Removal::Aged);
            }
            if self.by_key.contains_key(&key) {
                // A late trace may reopen a remembered session before its age limit.
                let next = if too_old > now_ms { next.min(too_old) } else { next };
                self.wheel.arm(next.max(now_ms.saturating_add(TICK_MS)), (key, number));
            }
            if due.is_some() {
                return due;
            }
        }
        None
    }

    /// Makes every open session due, at the end of the input or process.
    pub fn drain(&mut self, completion: Completion, due: &mut Vec<DueSession>) {
        let mut open: Vec<_> = self
            .by_key
            .iter()
            .filter(|(_, s)| s.is_open)
            .map(|(key, s)| (s.number, Arc::clone(key)))
            .collect();
        open.sort_by_key(|(number, _)| *number);
        due.extend(open.into_iter().filter_map(|(_, key)| self.judge(&key, completion)));
    }

    /// Drops the traces of partitions owned by others, and sessions left without traces.
    pub fn drop_revoked(&mut self) {
        let keys: Vec<_> = self.by_key.keys().cloned().collect();
        for key in keys {
            let Some(session) = self.by_key.get_mut(&key) else { continue };
            let traces = session.traces.iter().map(|(trace, _)| trace);
            let revoked = traces.filter(|trace| trace.claims.are_retired());
            let revoked: Vec<TraceId> = revoked.map(|trace| trace.trace_id).collect();
            if revoked.is_empty() {
                continue;
            }
            for trace_id in &revoked {
                let bytes = session.remove(*trace_id);
                self.bytes -= bytes;
                self.evicted.1 -= if session.removal == Some(Removal::Evicted) { bytes } else { 0 };
                self.by_trace.remove(trace_id);
            }
            self.shares.set(session.slot, session.class(), session_bytes(&key, session));
            if session.traces.is_empty() {
                self.forget(&key);
            }
        }
    }

    /// Undoes a judgement without evaluations: the next one revises its predecessor, if any.
    pub fn undo_judgement(&mut self, due: &DueSession) {
        let known = self.by_key.get_mut(&due.key);
        if let Some(session) = known.filter(|session| session.number == due.number) {
            session.judged = due.revised.map(|digest| (due.revision, u128::from_be_bytes(digest)));
        }
    }

    /// Returns the number of open sessions.
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// Returns the number of open and remembered sessions.
    pub fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Returns each session with the log bytes that it claims.
    pub fn held(&self) -> impl Iterator<Item = (&SessionKey, u64)> {
        self.by_key.iter().map(|(key, session)| {
            let traces = session.traces.iter().map(|(trace, _)| trace.claims.record_bytes());
            (&**key, traces.sum())
        })
    }

    /// Returns the bytes held for all of them.
    pub fn bytes(&self) -> usize {
        self.bytes + self.shares.bytes()
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&mut self) -> SessionCounts {
        std::mem::take(&mut self.counts)
    }

    /// Completes a session; `None` if it was judged with the same traces before.
    fn judge(&mut self, key: &Arc<SessionKey>, completion: Completion) -> Option<DueSession> {
        let session = self.by_key.get_mut(key)?;
        self.open_count -= usize::from(session.is_open);
        session.is_open = false;
        let digest = session.digest();
        let judged = session.judged;
        let is_due = judged.is_none_or(|(_, last)| last != digest);
        session.unfinished += u32::from(is_due);
        self.shares.put(session.slot, session.class());
        if !is_due {
            return None;
        }
        session.judged = Some((judged.map_or(1, |(count, _)| count.saturating_add(1)), digest));
        Some(DueSession {
            key: Arc::clone(key),
            number: session.number,
            traces: session.traces.iter().map(|(trace, _)| Arc::clone(trace)).collect(),
            sender: session.sender,
            completion,
            revision: judged.map_or(0, |(count, _)| count),
            digest: digest.to_be_bytes(),
            revised: judged.map(|(_, digest)| digest.to_be_bytes()),
        })
    }
}

/// Returns the bytes of a session and its key.
fn session_bytes(key: &SessionKey, session: &Session) -> usize {
    session.bytes + key_bytes(key)
}

mod eviction;

#[cfg(test)]
mod tests;
