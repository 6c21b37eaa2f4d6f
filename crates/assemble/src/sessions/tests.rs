use super::super::wheel::{TICK_MS, TURN_MS};
use super::*;
use spanscore_base::settings::HumanDuration;

fn sessions(change: impl FnOnce(&mut SessionsSettings)) -> Sessions {
    let mut settings =
        SessionsSettings { idle_timeout: HumanDuration::from_secs(10), ..Default::default() };
    change(&mut settings);
    Sessions::new(settings, 0)
}

/// Returns the single connection of a peer.
fn of(peer: u32) -> Sender {
    Sender { peer, ..Sender::default() }
}

fn add(sessions: &mut Sessions, now_ms: u64, id: &str, trace: u64, digest: u8) -> Vec<DueSession> {
    add_by(Sender::default(), sessions, now_ms, (id, trace, digest))
}

fn add_by(
    sender: Sender,
    sessions: &mut Sessions,
    now_ms: u64,
    (id, trace, digest): (&str, u64, u8),
) -> Vec<DueSession> {
    let mut due = Vec::new();
    let trace_id = TraceId(u128::from(trace).to_be_bytes());
    let spans = TraceSpans { trace_id, sender, ..TraceSpans::default() };
    let key = SessionKey { service_name: None, session_id: id.into(), group: Default::default() };
    sessions.add(key, (Arc::new(spans), [digest; 16]), now_ms, &mut due);
    due.iter().for_each(|due| sessions.done(due));
    due
}

fn tick(sessions: &mut Sessions, now_ms: u64) -> Vec<(String, Completion, u32, usize)> {
    let mut due = Vec::new();
    sessions.tick(now_ms, &mut due);
    due.iter().for_each(|due| sessions.done(due));
    let told =
        |d: &DueSession| (d.key.session_id.to_string(), d.completion, d.revision, d.traces.len());
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
fn active_session_is_judged_at_its_maximum_age() {
    // The age limit is reached between two checks of the idle time, the second time after a
    // revision.
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
    // Visiting all sessions for each removed one would take minutes.
    for n in 20_000..60_000 {
        let due = add(&mut sessions, n, &n.to_string(), n, 1);
        let ids = due.iter().map(|due| due.key.session_id.parse());
        assert_eq!(ids.collect::<Vec<_>>(), [Ok(n - 20_000)]);
    }
    assert_eq!((sessions.count(), sessions.slots.len()), (20_000, 20_001));
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

#[test]
fn flood_of_sessions_evicts_sessions_of_its_own_sender() {
    for shares_its in ["nothing", "address", "connection"] {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 40);
        let victim = match shares_its {
            "nothing" => of(2),
            "address" => Sender { connection: 1, ..of(1) },
            _ => of(1),
        };
        (0..10).for_each(|n| drop(add_by(victim, &mut sessions, n, (&format!("own {n}"), n, 1))));
        let mut evicted = Vec::new();
        for n in 100..1000 {
            let due = add_by(of(1), &mut sessions, n, (&n.to_string(), n, 1));
            evicted.extend(due.into_iter().map(|due| due.key.session_id.to_string()));
        }
        let own = evicted.iter().filter(|id| id.starts_with("own")).count();
        // Over its connection nothing distinguishes a victim from the flood.
        assert_eq!(own, if shares_its == "connection" { 10 } else { 0 }, "{shares_its}");
        assert_eq!((sessions.count(), evicted.len()), (40, 870));
    }
}

#[test]
fn evicted_session_stays_until_it_was_judged_and_can_be_reopened_until_then() {
    for is_reopened in [false, true] {
        let mut sessions = sessions(|settings| settings.open_sessions_max = 1);
        let put = |sessions: &mut Sessions, now_ms, id: &str, trace: u64| {
            let mut due = Vec::new();
            let trace_id = TraceId(u128::from(trace).to_be_bytes());
            let spans = Arc::new(TraceSpans { trace_id, ..TraceSpans::default() });
            let (service_name, group) = (None, Default::default());
            let key = SessionKey { service_name, session_id: id.into(), group };
            sessions.add(key, (spans, [trace as u8; 16]), now_ms, &mut due);
            due
        };
        put(&mut sessions, 0, "a", 1);
        let due = put(&mut sessions, 1, "b", 2);
        assert_eq!((&*due[0].key.session_id, sessions.count()), ("a", 2));
        assert!(sessions.evicted_bytes() > 0);
        let mut judged = Vec::new();
        if is_reopened {
            judged = put(&mut sessions, 2, "a", 3);
            assert_eq!(&*judged[0].key.session_id, "b", "the longest quiet by now");
        }
        due.iter().chain(&judged).for_each(|due| sessions.done(due));
        assert_eq!((sessions.count(), sessions.evicted_bytes()), (1, 0));
        let next = tick(&mut sessions, 20_000);
        let expected = if is_reopened { ("a".into(), 1, 2) } else { ("b".into(), 0, 1) };
        let told = next.into_iter().map(|(id, _, revision, traces)| (id, revision, traces));
        assert_eq!(told.collect::<Vec<_>>(), [expected]);
        tick(&mut sessions, 100_000);
        assert_eq!((sessions.count(), sessions.bytes), (0, 0));
    }
}

#[test]
fn sessions_of_a_held_sender_stay_open_and_those_of_others_do_not() {
    let mut sessions = sessions(|_| {});
    add_by(of(1), &mut sessions, 0, ("held", 1, 1));
    add_by(Sender { connection: 1, ..of(1) }, &mut sessions, 0, ("other", 2, 2));
    assert_eq!(ids(&due_unless(&mut sessions, 10_000, Some(of(1)))), ["other"]);
    assert_eq!(ids(&due_unless(&mut sessions, 11_000, None)), ["held"]);
}

#[test]
fn session_that_is_being_judged_is_due_again_only_afterwards() {
    let mut sessions = sessions(|_| {});
    add(&mut sessions, 0, "a", 1, 1);
    let first = due_unless(&mut sessions, 10_000, None);
    add(&mut sessions, 10_000, "a", 2, 2);
    assert!(due_unless(&mut sessions, 20_000, None).is_empty());
    assert_eq!(sessions.open_count(), 1);
    first.iter().for_each(|due| sessions.done(due));
    let next = due_unless(&mut sessions, 21_000, None);
    assert_eq!((next[0].revision, next[0].traces.len()), (1, 2));
}

#[test]
fn evicted_session_that_grows_old_while_it_is_judged_is_counted_no_more_afterwards() {
    let mut sessions = sessions(|settings| settings.open_sessions_max = 1);
    let mut evicted = Vec::new();
    for (trace, id) in [(1, "a"), (2, "b")] {
        put(&mut sessions, 0, (id, trace), &mut evicted);
    }
    assert_eq!((ids(&evicted), sessions.evicted.0), (vec!["a"], 1));
    let rest = due_unless(&mut sessions, 50_000, None);
    evicted.iter().chain(&rest).for_each(|due| sessions.done(due));
    assert_eq!((ids(&rest), sessions.evicted), (vec!["b"], (0, 0)));
}

#[test]
fn judgement_of_a_session_that_was_forgotten_is_of_no_later_one() {
    for panics in [false, true] {
        let mut sessions = sessions(|_| {});
        add(&mut sessions, 0, "a", 1, 1);
        let first = due_unless(&mut sessions, 10_000, None);
        if panics {
            sessions.reset(10_000);
        } else {
            // Its only trace moves.
            add(&mut sessions, 10_000, "b", 1, 1);
        }
        let mut second = Vec::new();
        put(&mut sessions, 10_000, ("a", 2), &mut second);
        sessions.drain(Completion::Shutdown, &mut second);
        second.retain(|due| &*due.key.session_id == "a");
        first.iter().for_each(|due| {
            sessions.undo_judgement(due);
            sessions.done(due);
        });
        let session = &sessions.by_key[&second[0].key];
        assert_eq!((session.unfinished, session.judged.is_some()), (1, true), "{panics}");
    }
}

/// Adds a trace; judgements that it makes due stay unfinished.
fn put(sessions: &mut Sessions, now_ms: u64, (id, trace): (&str, u8), due: &mut Vec<DueSession>) {
    let spans = TraceSpans { trace_id: TraceId([trace; 16]), ..TraceSpans::default() };
    let key = SessionKey { service_name: None, session_id: id.into(), group: Default::default() };
    sessions.add(key, (Arc::new(spans), [trace; 16]), now_ms, due);
}

/// Returns the due sessions, except those of a sender.
fn due_unless(sessions: &mut Sessions, now_ms: u64, held: Option<Sender>) -> Vec<DueSession> {
    sessions.pass(now_ms);
    std::iter::from_fn(|| sessions.next_due(now_ms, |sender| held == Some(sender))).collect()
}

fn ids(due: &[DueSession]) -> Vec<&str> {
    due.iter().map(|due| &*due.key.session_id).collect()
}
