//! Traces to sessions: the trajectories of one conversation.
//!
//! A session is what traces name by their session id. It is complete when no trace of it came for
//! `session_idle_timeout`; a later trace reopens it while it is remembered. Traces are kept as
//! their records; a revised trace takes the place of its earlier form.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::SessionsSettings;
use super::wheel::Wheel;
use crate::model::{Completion, TraceSpans};

/// A session that is due for judgement.
#[derive(Clone, Debug)]
pub struct DueSession {
    /// The session's id.
    pub id: Arc<str>,
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
    /// Sets it apart from an earlier session with the same id.
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
}

/// When something came last for a session, and its number.
type Quiet = (u64, u64);

/// The open and remembered sessions.
pub struct Sessions {
    settings: SessionsSettings,
    by_id: HashMap<Arc<str>, Session>,
    /// All sessions, the longest quiet first.
    quiet: BTreeMap<Quiet, Arc<str>>,
    /// Each session once, with its number.
    wheel: Wheel<(Arc<str>, u64)>,
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
            by_id: HashMap::new(),
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
        id: &str,
        trace: Arc<TraceSpans>,
        digest: [u8; 16],
        now_ms: u64,
        due: &mut Vec<DueSession>,
    ) {
        let id = match self.by_id.get_key_value(id) {
            Some((id, _)) => Arc::clone(id),
            None => self.start(id.into(), now_ms),
        };
        let traces_max = self.settings.traces_per_session_max as usize;
        if let Some(session) = self.by_id.get_mut(&id) {
            let before = session.bytes;
            if !session.add(trace, u128::from_be_bytes(digest), traces_max) {
                self.counts.traces_over_limit += 1;
            }
            self.bytes = self.bytes + session.bytes - before;
            self.open_count += usize::from(!session.is_open);
            session.is_open = true;
            self.quiet.remove(&(session.last_ms, session.number));
            session.last_ms = now_ms;
            self.quiet.insert((now_ms, session.number), id);
        }
        self.make_room(due);
    }

    fn start(&mut self, id: Arc<str>, now_ms: u64) -> Arc<str> {
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
        self.wheel.arm(now_ms.saturating_add(self.idle_ms()), (Arc::clone(&id), session.number));
        self.by_id.insert(Arc::clone(&id), session);
        id
    }

    fn idle_ms(&self) -> u64 {
        self.settings.idle_timeout.0.as_millis() as u64
    }

    /// Pushes what is due at `now`, and forgets what was remembered as long again.
    pub fn tick(&mut self, now_ms: u64, due: &mut Vec<DueSession>) {
        let mut fired = Vec::new();
        self.wheel.due(now_ms, &mut fired);
        let idle_ms = self.idle_ms();
        let age_max_ms = self.settings.age_max.0.as_millis() as u64;
        for (id, number) in fired {
            let Some(session) = self.by_id.get(&id).filter(|found| found.number == number) else {
                continue;
            };
            let deadline = session.last_ms.saturating_add(idle_ms);
            let forgotten = deadline.saturating_add(idle_ms);
            let next = if !session.is_open {
                forgotten
            } else if deadline <= now_ms {
                self.judge(&id, Completion::Idle, due);
                forgotten
            } else if now_ms.saturating_sub(session.first_ms) >= age_max_ms {
                self.judge(&id, Completion::AgeMax, due);
                now_ms
            } else {
                deadline
            };
            if next <= now_ms {
                self.forget(&id);
            } else {
                self.wheel.arm(next, (id, number));
            }
        }
    }

    /// Makes every open session due: the end of the input or of the process.
    pub fn drain(&mut self, completion: Completion, due: &mut Vec<DueSession>) {
        let mut open: Vec<_> = self
            .by_id
            .iter()
            .filter(|(_, s)| s.is_open)
            .map(|(id, s)| (s.number, id.clone()))
            .collect();
        open.sort();
        for (_, id) in open {
            self.judge(&id, completion, due);
        }
    }

    /// Sessions that are open.
    pub fn open_count(&self) -> usize {
        self.open_count
    }

    /// Sessions that are open or remembered.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// What was counted since the last look.
    pub fn take_counts(&mut self) -> SessionCounts {
        std::mem::take(&mut self.counts)
    }

    fn judge(&mut self, id: &Arc<str>, completion: Completion, due: &mut Vec<DueSession>) {
        let Some(session) = self.by_id.get_mut(id) else { return };
        self.open_count -= usize::from(session.is_open);
        session.is_open = false;
        let digest = session.digest();
        if session.judged.is_some_and(|(_, last)| last == digest) {
            return;
        }
        let judged = session.judged;
        session.judged = Some((judged.map_or(1, |(count, _)| count + 1), digest));
        due.push(DueSession {
            id: Arc::clone(id),
            traces: session.traces.iter().map(|(trace, _)| Arc::clone(trace)).collect(),
            completion,
            revision: judged.map_or(0, |(count, _)| count),
            digest: digest.to_be_bytes(),
            revised: judged.map(|(_, digest)| digest.to_be_bytes()),
        });
    }

    fn forget(&mut self, id: &Arc<str>) {
        if let Some(session) = self.by_id.remove(id) {
            self.bytes -= session.bytes;
            self.quiet.remove(&(session.last_ms, session.number));
        }
    }

    /// Judges and forgets sessions, the longest quiet first, until the limits hold.
    fn make_room(&mut self, due: &mut Vec<DueSession>) {
        let bytes_max = (self.settings.memory_mib as usize) << 20;
        while self.by_id.len() > self.settings.open_sessions_max as usize || self.bytes > bytes_max
        {
            let Some((_, id)) = self.quiet.pop_first() else { return };
            self.counts.evicted += 1;
            self.judge(&id, Completion::Evicted, due);
            self.forget(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceId;
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
        trace: u8,
        digest: u8,
    ) -> Vec<DueSession> {
        let mut due = Vec::new();
        let spans = TraceSpans { trace_id: TraceId([trace; 16]), ..TraceSpans::default() };
        sessions.add(id, Arc::new(spans), [digest; 16], now_ms, &mut due);
        due
    }

    fn tick(sessions: &mut Sessions, now_ms: u64) -> Vec<(String, Completion, u32, usize)> {
        let mut due = Vec::new();
        sessions.tick(now_ms, &mut due);
        due.iter().map(|d| (d.id.to_string(), d.completion, d.revision, d.traces.len())).collect()
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
        assert_eq!((&*due[0].id, due[0].completion), ("b", Completion::Evicted));
        assert_eq!(sessions.take_counts().evicted, 1);
    }

    #[test]
    fn many_sessions_make_room_one_by_one_the_longest_quiet_first() {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 20_000);
        (0..20_000).for_each(|n| drop(add(&mut sessions, n, &n.to_string(), 1, 1)));
        // Looking at every session for each one that goes would take minutes.
        for n in 20_000..60_000 {
            let due = add(&mut sessions, n, &n.to_string(), 1, 1);
            assert_eq!(due.iter().map(|due| due.id.parse()).collect::<Vec<_>>(), [Ok(n - 20_000)]);
        }
        assert_eq!((sessions.count(), sessions.quiet.len()), (20_000, 20_000));
    }

    #[test]
    fn session_that_is_reopened_or_starts_anew_has_one_deadline() {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 1);
        for round in 0..50 {
            let now_ms = round * 15_000;
            add(&mut sessions, now_ms, "a", round as u8, round as u8);
            add(&mut sessions, now_ms, "b", 1, 1);
            add(&mut sessions, now_ms + 1, "a", round as u8, round as u8);
            assert_eq!(tick(&mut sessions, now_ms + 10_050).len(), 1, "{round}");
        }
        tick(&mut sessions, 1_000_000);
        let due = tick(&mut sessions, 2_000_000);
        assert_eq!((due.len(), sessions.count(), sessions.bytes), (0, 0, 0));
    }

    #[test]
    fn session_keeps_no_more_traces_than_its_limit() {
        let mut sessions = sessions(|settings| settings.traces_per_session_max = 2);
        (1..=3).for_each(|n| drop(add(&mut sessions, 0, "a", n, n)));
        assert_eq!(tick(&mut sessions, 10_000), [("a".into(), Completion::Idle, 0, 2)]);
        assert_eq!(sessions.take_counts().traces_over_limit, 1);
    }
}
