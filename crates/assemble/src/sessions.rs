//! Sessions: the traces of one conversation, gathered by their session id.
//!
//! A session is all traces with one session id, within one service unless the settings say
//! otherwise ([`SessionKey`]). It is complete when no trace of it came for `session_idle_timeout`;
//! a later trace reopens it while it is remembered. Traces are held as their records; a revised
//! trace takes the place of its earlier form.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::SessionsSettings;
use super::wheel::Wheel;
use spanscore_base::model::{Completion, SessionKey, TraceId, TraceSpans};

/// Session that is due for judgement.
#[derive(Clone, Debug)]
pub struct DueSession {
    /// Key of the session.
    pub key: Arc<SessionKey>,
    /// Its traces in the order of their first judgement.
    pub traces: Vec<Arc<TraceSpans>>,
    /// Cause that completed it.
    pub completion: Completion,
    /// Number of its earlier judgements.
    pub revision: u32,
    /// Hash of the spans of all its traces.
    pub digest: [u8; 16],
    /// Digest of the judgement before, if any.
    pub revised: Option<[u8; 16]>,
}

/// Counts of sessions since the last call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SessionCounts {
    /// Traces left out because their session had too many.
    pub traces_over_limit: u64,
    /// Sessions judged because there were too many, or they held too much.
    pub evicted: u64,
}

struct Session {
    /// Tells it apart from an earlier session with the same key.
    number: u64,
    traces: Vec<(Arc<TraceSpans>, u128)>,
    bytes: usize,
    last_ms: u64,
    first_ms: u64,
    is_open: bool,
    judged: Option<(u32, u128)>,
}

/// Bytes of a session beside its traces, with its entries in the tables.
const SESSION_BYTES: usize = size_of::<Session>() + 300;
/// Bytes of a trace beside its records, with its entries in the tables.
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

    /// Adds a trace, in the place of its earlier form if there is one; false if there are too many.
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

    /// Removes a trace; returns the bytes that it held.
    fn remove(&mut self, trace_id: TraceId) -> usize {
        let place = self.traces.iter().position(|(trace, _)| trace.trace_id == trace_id);
        let bytes = place.map_or(0, |place| held_bytes(&self.traces.remove(place).0));
        self.bytes -= bytes;
        bytes
    }
}

/// Last arrival of a session, milliseconds, and its number.
type Quiet = (u64, u64);

/// Open and remembered sessions.
pub struct Sessions {
    settings: SessionsSettings,
    by_key: HashMap<Arc<SessionKey>, Session>,
    /// Session of each trace that is held.
    by_trace: HashMap<TraceId, Arc<SessionKey>>,
    /// All sessions in the order of eviction, the longest quiet first.
    quiet: BTreeMap<Quiet, Arc<SessionKey>>,
    /// Timer of each session, once, with its number.
    wheel: Wheel<(Arc<SessionKey>, u64)>,
    started_count: u64,
    open_count: usize,
    bytes: usize,
    counts: SessionCounts,
}

impl Sessions {
    /// Returns an empty set of sessions.
    pub fn new(settings: SessionsSettings, now_ms: u64) -> Self {
        Self {
            settings,
            by_key: HashMap::new(),
            by_trace: HashMap::new(),
            quiet: BTreeMap::new(),
            started_count: 0,
            open_count: 0,
            wheel: Wheel::new(now_ms),
            bytes: 0,
            counts: SessionCounts::default(),
        }
    }

    /// Changes the limits. Deadlines of open sessions that are armed already stay.
    pub fn limit(&mut self, settings: SessionsSettings) {
        self.settings = settings;
    }

    /// Rewrites the records of all its traces.
    pub fn reform(&mut self, mut change: impl FnMut(&mut TraceSpans)) {
        let sessions = self.by_key.values_mut();
        sessions.flat_map(|session| &mut session.traces).for_each(|(trace, _)| {
            if let Some(trace) = Arc::get_mut(trace) {
                change(trace);
            }
        });
    }

    /// Adds a judged trace to its session; pushes sessions that a limit makes due.
    pub fn add(
        &mut self,
        key: SessionKey,
        trace: Arc<TraceSpans>,
        digest: [u8; 16],
        now_ms: u64,
        due: &mut Vec<DueSession>,
    ) {
        let key = match self.by_key.get_key_value(&key) {
            Some((key, _)) => Arc::clone(key),
            None => self.start(Arc::new(key), now_ms),
        };
        let traces_max = self.settings.traces_per_session_max as usize;
        if let Some(session) = self.by_key.get_mut(&key) {
            let before = session.bytes;
            let trace_id = trace.trace_id;
            let is_in = session.add(trace, u128::from_be_bytes(digest), traces_max);
            self.bytes = self.bytes + session.bytes - before;
            self.open_count += usize::from(!session.is_open);
            session.is_open = true;
            self.quiet.remove(&(session.last_ms, session.number));
            session.last_ms = now_ms;
            self.quiet.insert((now_ms, session.number), Arc::clone(&key));
            if is_in {
                self.moved(trace_id, key);
            } else {
                self.counts.traces_over_limit += 1;
            }
        }
        self.make_room(due);
    }

    /// Removes a trace from another session that held it: a late span of it, such as its root, can
    /// name another session or service. The other session is judged anew.
    fn moved(&mut self, trace_id: TraceId, key: Arc<SessionKey>) {
        let Some(left) = self.by_trace.insert(trace_id, Arc::clone(&key)) else { return };
        if left == key {
            return;
        }
        let Some(session) = self.by_key.get_mut(&left) else { return };
        self.bytes -= session.remove(trace_id);
        self.open_count += usize::from(!session.is_open);
        session.is_open = true;
        if session.traces.is_empty() {
            self.forget(&left);
        }
    }

    fn start(&mut self, key: Arc<SessionKey>, now_ms: u64) -> Arc<SessionKey> {
        self.started_count += 1;
        let session = Session {
            number: self.started_count,
            traces: Vec::new(),
            bytes: 0,
            last_ms: now_ms,
            first_ms: now_ms,
            is_open: false,
            judged: None,
        };
        let wait_ms = self.settings.idle_timeout.min(self.settings.age_max).as_ms();
        self.wheel.arm(now_ms.saturating_add(wait_ms), (Arc::clone(&key), session.number));
        self.bytes += key_bytes(&key);
        self.by_key.insert(Arc::clone(&key), session);
        key
    }

    /// Pushes sessions that are due at `now`, and forgets those remembered as long again.
    pub fn tick(&mut self, now_ms: u64, due: &mut Vec<DueSession>) {
        let mut fired = Vec::new();
        let by_key = &self.by_key;
        let is_known = |(key, number): &(Arc<SessionKey>, u64)| {
            by_key.get(key).is_some_and(|session| session.number == *number)
        };
        self.wheel.due(now_ms, is_known, &mut fired);
        let idle_ms = self.settings.idle_timeout.as_ms();
        let age_max_ms = self.settings.age_max.as_ms();
        for (key, number) in fired {
            let Some(session) = self.by_key.get(&key).filter(|found| found.number == number) else {
                continue;
            };
            let deadline = session.last_ms.saturating_add(idle_ms);
            let forgotten = deadline.saturating_add(idle_ms);
            let too_old = session.first_ms.saturating_add(age_max_ms);
            let next = if !session.is_open {
                forgotten
            } else if deadline <= now_ms {
                self.judge(&key, Completion::Idle, due);
                forgotten
            } else if too_old <= now_ms {
                self.judge(&key, Completion::AgeMax, due);
                now_ms
            } else {
                deadline
            };
            if next <= now_ms {
                self.forget(&key);
                continue;
            }
            // A late trace may open a remembered session again before it is too old.
            let next = if too_old > now_ms { next.min(too_old) } else { next };
            self.wheel.arm(next, (key, number));
        }
    }

    /// Makes every open session due: the end of the input or of the process.
    pub fn drain(&mut self, completion: Completion, due: &mut Vec<DueSession>) {
        let mut open: Vec<_> = self
            .by_key
            .iter()
            .filter(|(_, s)| s.is_open)
            .map(|(key, s)| (s.number, Arc::clone(key)))
            .collect();
        open.sort_by_key(|(number, _)| *number);
        for (_, key) in open {
            self.judge(&key, completion, due);
        }
    }

    /// Drops the traces of partitions that others own, and the sessions that had no others.
    pub fn drop_revoked(&mut self) {
        let keys: Vec<_> = self.by_key.keys().cloned().collect();
        for key in keys {
            let Some(session) = self.by_key.get_mut(&key) else { continue };
            let traces = session.traces.iter().map(|(trace, _)| trace);
            let revoked = traces.filter(|trace| trace.claims.are_retired());
            let revoked: Vec<TraceId> = revoked.map(|trace| trace.trace_id).collect();
            for trace_id in &revoked {
                self.bytes -= session.remove(*trace_id);
                self.by_trace.remove(trace_id);
            }
            if session.traces.is_empty() && !revoked.is_empty() {
                self.open_count -= usize::from(session.is_open);
                self.forget(&key);
            }
        }
    }

    /// Undoes a judgement of which no evaluation left: the next one revises the one before it, if
    /// any.
    pub fn not_judged(&mut self, due: &DueSession) {
        if let Some(session) = self.by_key.get_mut(&due.key) {
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

    /// Returns each session with the bytes of the log that it claims.
    pub fn held(&self) -> impl Iterator<Item = (&SessionKey, u64)> {
        self.by_key.iter().map(|(key, session)| {
            let traces = session.traces.iter().map(|(trace, _)| trace.claims.record_bytes());
            (&**key, traces.sum())
        })
    }

    /// Returns the bytes held for all of them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the counts since the last call.
    pub fn take_counts(&mut self) -> SessionCounts {
        std::mem::take(&mut self.counts)
    }

    fn judge(&mut self, key: &Arc<SessionKey>, completion: Completion, due: &mut Vec<DueSession>) {
        let Some(session) = self.by_key.get_mut(key) else { return };
        self.open_count -= usize::from(session.is_open);
        session.is_open = false;
        let digest = session.digest();
        if session.judged.is_some_and(|(_, last)| last == digest) {
            return;
        }
        let judged = session.judged;
        session.judged = Some((judged.map_or(1, |(count, _)| count.saturating_add(1)), digest));
        due.push(DueSession {
            key: Arc::clone(key),
            traces: session.traces.iter().map(|(trace, _)| Arc::clone(trace)).collect(),
            completion,
            revision: judged.map_or(0, |(count, _)| count),
            digest: digest.to_be_bytes(),
            revised: judged.map(|(_, digest)| digest.to_be_bytes()),
        });
    }

    fn forget(&mut self, key: &Arc<SessionKey>) {
        if let Some(session) = self.by_key.remove(key) {
            for (trace, _) in &session.traces {
                self.by_trace.remove(&trace.trace_id);
            }
            self.bytes -= session.bytes + key_bytes(key);
            self.open_count -= usize::from(session.is_open);
            self.quiet.remove(&(session.last_ms, session.number));
        }
    }

    /// Judges and forgets sessions, the longest quiet first, until the limits hold.
    fn make_room(&mut self, due: &mut Vec<DueSession>) {
        let kept = self.settings.kept_bytes();
        // The allocator rounds sizes up.
        let bytes_max = kept - kept / 9;
        while self.by_key.len() > self.settings.open_sessions_max as usize || self.bytes > bytes_max
        {
            let Some((_, key)) = self.quiet.pop_first() else { return };
            self.counts.evicted += 1;
            self.judge(&key, Completion::Evicted, due);
            self.forget(&key);
        }
    }
}

#[cfg(test)]
mod tests;
