//! Traces to sessions: the trajectories of one conversation.
//!
//! A session is what traces name by their session id, within one service unless the settings say
//! otherwise ([`SessionKey`]). It is complete when no trace of it came for
//! `session_idle_timeout`; a later trace reopens it while it is remembered. Traces are kept as
//! their records; a revised trace takes the place of its earlier form.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::SessionsSettings;
use super::wheel::Wheel;
use crate::model::{Completion, SessionKey, TraceId, TraceSpans};

/// A session that is due for judgement.
#[derive(Clone, Debug)]
pub struct DueSession {
    /// What tells it apart.
    pub key: Arc<SessionKey>,
    /// Its traces in the order of their first judgement.
    pub traces: Vec<Arc<TraceSpans>>,
    /// Why it is complete.
    pub completion: Completion,
    /// How often it was judged before.
    pub revision: u32,
    /// Hash of the spans of all its traces.
    pub digest: [u8; 16],
    /// The hash it was judged on before.
    pub revised: Option<[u8; 16]>,
}

/// What sessions have done, counted since the last look.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SessionCounts {
    /// Traces that were not kept because their session had too many.
    pub traces_over_limit: u64,
    /// Sessions judged because there were too many, or they held too much.
    pub evicted: u64,
}

struct Session {
    /// Sets it apart from an earlier session with the same key.
    number: u64,
    traces: Vec<(Arc<TraceSpans>, u128)>,
    bytes: usize,
    last_ms: u64,
    first_ms: u64,
    is_open: bool,
    judged: Option<(u32, u128)>,
}

impl Session {
    fn digest(&self) -> u128 {
        self.traces.iter().fold(0, |sum, (_, digest)| sum.wrapping_add(*digest))
    }

    /// Adds a trace, in the place of its earlier form if there is one; false when it has too many.
    fn add(&mut self, trace: Arc<TraceSpans>, digest: u128, traces_max: usize) -> bool {
        let place = self.traces.iter().position(|(old, _)| old.trace_id == trace.trace_id);
        let bytes = trace.bytes();
        match place {
            Some(place) => {
                self.bytes -= self.traces[place].0.bytes();
                self.traces[place] = (trace, digest);
            }
            None if self.traces.len() >= traces_max => return false,
            None => self.traces.push((trace, digest)),
        }
        self.bytes += bytes;
        true
    }

    /// Takes a trace out; gives back the bytes that it held.
    fn remove(&mut self, trace_id: TraceId) -> usize {
        let place = self.traces.iter().position(|(trace, _)| trace.trace_id == trace_id);
        let bytes = place.map_or(0, |place| self.traces.remove(place).0.bytes());
        self.bytes -= bytes;
        bytes
    }
}

/// When something came last for a session, and its number.
type Quiet = (u64, u64);

/// The open and remembered sessions.
pub struct Sessions {
    settings: SessionsSettings,
    by_key: HashMap<Arc<SessionKey>, Session>,
    /// The session that each kept trace is in.
    by_trace: HashMap<TraceId, Arc<SessionKey>>,
    /// All sessions, the longest quiet first.
    quiet: BTreeMap<Quiet, Arc<SessionKey>>,
    /// Each session once, with its number.
    wheel: Wheel<(Arc<SessionKey>, u64)>,
    started_count: u64,
    open_count: usize,
    bytes: usize,
    counts: SessionCounts,
}

impl Sessions {
    /// No sessions yet.
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
            let (before, trace_id) = (session.bytes, trace.trace_id);
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

    /// Takes a trace out of another session that it was in: a late span of it, such as its root,
    /// can name another session or service. What is left there is judged anew.
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
        self.by_key.insert(Arc::clone(&key), session);
        key
    }

    /// Pushes what is due at `now`, and forgets what was remembered as long again.
    pub fn tick(&mut self, now_ms: u64, due: &mut Vec<DueSession>) {
        let mut fired = Vec::new();
        let by_key = &self.by_key;
        let is_known = |(key, number): &(Arc<SessionKey>, u64)| {
            by_key.get(key).is_some_and(|session| session.number == *number)
        };
        self.wheel.due(now_ms, is_known, &mut fired);
        let (idle_ms, age_max_ms) =
            (self.settings.idle_timeout.as_ms(), self.settings.age_max.as_ms());
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

    /// Says that nobody saw an evaluation of a due session: the next one revises what was seen
    /// before, if anything was.
    pub fn not_judged(&mut self, due: &DueSession) {
        if let Some(session) = self.by_key.get_mut(&due.key) {
            session.judged = due.revised.map(|digest| (due.revision, u128::from_be_bytes(digest)));
        }
    }

    /// Sessions that are open.
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// Sessions that are open or remembered.
    pub fn count(&self) -> usize {
        self.by_key.len()
    }

    /// What was counted since the last look.
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
            self.bytes -= session.bytes;
            self.open_count -= usize::from(session.is_open);
            self.quiet.remove(&(session.last_ms, session.number));
        }
    }

    /// Judges and forgets sessions, the longest quiet first, until the limits hold.
    fn make_room(&mut self, due: &mut Vec<DueSession>) {
        let bytes_max = (self.settings.memory_mib as usize) << 20;
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
mod tests {
    use super::super::wheel::{TICK_MS, TURN_MS};
    use super::*;
    use crate::settings::HumanDuration;

    fn sessions(change: impl FnOnce(&mut SessionsSettings)) -> Sessions {
        let mut settings =
            SessionsSettings { idle_timeout: HumanDuration::from_secs(10), ..Default::default() };
        change(&mut settings);
        Sessions::new(settings, 0)
    }

    fn add(
        sessions: &mut Sessions,
        now_ms: u64,
        id: &str,
        trace: u64,
        digest: u8,
    ) -> Vec<DueSession> {
        let mut due = Vec::new();
        let trace_id = TraceId(u128::from(trace).to_be_bytes());
        let spans = TraceSpans { trace_id, ..TraceSpans::default() };
        let key = SessionKey { service_name: None, session_id: id.into() };
        sessions.add(key, Arc::new(spans), [digest; 16], now_ms, &mut due);
        due
    }

    fn tick(sessions: &mut Sessions, now_ms: u64) -> Vec<(String, Completion, u32, usize)> {
        let mut due = Vec::new();
        sessions.tick(now_ms, &mut due);
        let told = |d: &DueSession| {
            (d.key.session_id.to_string(), d.completion, d.revision, d.traces.len())
        };
        due.iter().map(told).collect()
    }

    #[test]
    fn session_is_complete_when_none_of_its_traces_came_for_its_idle_time() {
        let mut sessions = sessions(|_| {});
        add(&mut sessions, 0, "a", 1, 1);
        add(&mut sessions, 8_000, "a", 2, 2);
        add(&mut sessions, 9_000, "b", 3, 3);
        assert_eq!(tick(&mut sessions, 17_900), []);
        assert_eq!(tick(&mut sessions, 18_000), [("a".into(), Completion::Idle, 0, 2)]);
        assert_eq!(tick(&mut sessions, 19_000), [("b".into(), Completion::Idle, 0, 1)]);
    }

    #[test]
    fn session_that_never_rests_is_judged_at_its_maximum_age() {
        // The age ends between two looks at the idle time, the second time after a revision.
        for rests in [false, true] {
            let mut sessions = sessions(|settings| settings.age_max = HumanDuration::from_secs(35));
            let mut judged = Vec::new();
            for now_ms in (0..40_000).step_by(1_000) {
                if !rests || !(2_000..14_000).contains(&now_ms) {
                    add(&mut sessions, now_ms, "a", now_ms / 1_000, 1);
                }
                let due = tick(&mut sessions, now_ms);
                judged.extend(due.into_iter().map(|(_, why, revision, _)| (now_ms, why, revision)));
            }
            let at_last = (35_000, Completion::AgeMax, u32::from(rests));
            let expected = [(11_000, Completion::Idle, 0), at_last];
            assert_eq!(judged, expected[usize::from(!rests)..]);
        }
    }

    #[test]
    fn long_idle_timeout_of_a_session_is_kept_to_the_tick() {
        for wait_ms in [TURN_MS - TICK_MS, TURN_MS, TURN_MS + TICK_MS, 600_000, 3_600_000] {
            let mut sessions = sessions(|settings| {
                settings.idle_timeout = HumanDuration::from_millis(wait_ms);
            });
            add(&mut sessions, 0, "a", 1, 1);
            add(&mut sessions, 5_000, "a", 2, 2);
            let mut ticks = (0..7_200_000).step_by(TICK_MS as usize);
            let judged = ticks.find(|now_ms| !tick(&mut sessions, *now_ms).is_empty());
            assert_eq!(judged, Some(5_000 + wait_ms));
        }
    }

    #[test]
    fn late_trace_revises_a_remembered_session() {
        let mut sessions = sessions(|_| {});
        add(&mut sessions, 0, "a", 1, 1);
        tick(&mut sessions, 10_000);
        add(&mut sessions, 15_000, "a", 2, 2);
        assert_eq!(tick(&mut sessions, 25_000), [("a".into(), Completion::Idle, 1, 2)]);
        tick(&mut sessions, 36_000);
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn same_trace_twice_is_no_new_evidence() {
        let mut sessions = sessions(|_| {});
        add(&mut sessions, 0, "a", 1, 1);
        tick(&mut sessions, 10_000);
        add(&mut sessions, 11_000, "a", 1, 1);
        assert_eq!(tick(&mut sessions, 21_000), []);
    }

    #[test]
    fn limits_judge_the_longest_quiet_session() {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 2);
        add(&mut sessions, 0, "a", 1, 1);
        add(&mut sessions, 1, "b", 2, 2);
        add(&mut sessions, 2, "a", 3, 3);
        let due = add(&mut sessions, 3, "c", 4, 4);
        assert_eq!((&*due[0].key.session_id, due[0].completion), ("b", Completion::Evicted));
        assert_eq!(sessions.take_counts().evicted, 1);
    }

    #[test]
    fn many_sessions_make_room_one_by_one_the_longest_quiet_first() {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 20_000);
        (0..20_000).for_each(|n| drop(add(&mut sessions, n, &n.to_string(), n, 1)));
        // Looking at every session for each one that goes would take minutes.
        for n in 20_000..60_000 {
            let due = add(&mut sessions, n, &n.to_string(), n, 1);
            let ids = due.iter().map(|due| due.key.session_id.parse());
            assert_eq!(ids.collect::<Vec<_>>(), [Ok(n - 20_000)]);
        }
        assert_eq!((sessions.count(), sessions.quiet.len()), (20_000, 20_000));
    }

    #[test]
    fn session_that_is_reopened_or_starts_anew_has_one_deadline() {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 1);
        for round in 0..50 {
            let now_ms = round * 15_000;
            add(&mut sessions, now_ms, "a", round, round as u8);
            add(&mut sessions, now_ms, "b", 1_000, 1);
            add(&mut sessions, now_ms + 1, "a", round, round as u8);
            assert_eq!(tick(&mut sessions, now_ms + 10_050).len(), 1, "{round}");
        }
        tick(&mut sessions, 1_000_000);
        let due = tick(&mut sessions, 2_000_000);
        assert_eq!((due.len(), sessions.count(), sessions.bytes), (0, 0, 0));
    }

    #[test]
    fn trace_that_moves_to_another_session_leaves_the_first_which_is_judged_anew() {
        let mut sessions = sessions(|_| {});
        add(&mut sessions, 0, "a", 1, 1);
        add(&mut sessions, 0, "a", 2, 2);
        add(&mut sessions, 0, "c", 3, 3);
        assert_eq!(tick(&mut sessions, 10_000).len(), 2);
        add(&mut sessions, 12_000, "b", 2, 4);
        add(&mut sessions, 12_000, "b", 3, 5);
        let mut judged = tick(&mut sessions, 22_000);
        judged.sort();
        let told = |id: &str, revision, count| (id.into(), Completion::Idle, revision, count);
        assert_eq!(judged, [told("a", 1, 1), told("b", 0, 2)]);
        tick(&mut sessions, 100_000);
        assert_eq!((sessions.count(), sessions.bytes, sessions.by_trace.len()), (0, 0, 0));
    }

    #[test]
    fn session_keeps_no_more_traces_than_its_limit() {
        let mut sessions = sessions(|settings| settings.traces_per_session_max = 2);
        (1..=3).for_each(|n| drop(add(&mut sessions, 0, "a", n, n as u8)));
        assert_eq!(tick(&mut sessions, 10_000), [("a".into(), Completion::Idle, 0, 2)]);
        assert_eq!(sessions.take_counts().traces_over_limit, 1);
    }
}
