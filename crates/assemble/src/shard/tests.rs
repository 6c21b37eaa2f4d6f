mod conflicts;
mod eviction;
mod grouped;
mod memory;
mod partitions;
mod restore;
mod ticking;
mod waiting;

use std::sync::Arc;

use proptest::prelude::*;

use super::super::wheel::TURN_MS;
use super::super::{QuietPeriod, TraceLimit};
use super::*;
use spanscore_base::model::{Resource, SpanFlags, SpanId};
use spanscore_base::settings::HumanDuration;

const ROOT: u16 = SpanFlags::ROOT | SpanFlags::ENDED | SpanFlags::AGENT;
const TOOL: u16 = SpanFlags::TOOL | SpanFlags::ENDED;
const PLAIN: u16 = SpanFlags::ENDED;
const LOG: u16 = SpanFlags::LOG;

fn shard(change: impl FnOnce(&mut TracesSettings, &mut LimitsSettings)) -> Shard {
    let mut traces = TracesSettings {
        quiet_period: QuietPeriod::Fixed(HumanDuration::from_secs(1)),
        idle_timeout: HumanDuration::from_secs(10),
        age_max: HumanDuration::from_secs(100),
        remember_period: HumanDuration::from_secs(20),
        ..TracesSettings::default()
    };
    let mut limits = LimitsSettings::default();
    change(&mut traces, &mut limits);
    Shard::new(traces, limits, 1, 0)
}

/// Returns a batch of `(trace, span, flags)`, each with three bytes of facts.
fn batch(records: &[(u8, u16, u16)]) -> SpanBatch {
    let mut batch =
        SpanBatch { resources: vec![Arc::new(Resource::default())], ..Default::default() };
    for &(trace, span, flags) in records {
        let start = batch.arena.len() as u32;
        batch.arena.extend([trace, span as u8, flags as u8]);
        let mut id = [1; 8];
        id[..2].copy_from_slice(&span.to_be_bytes());
        let record = SpanRecord {
            span_id: SpanId(id),
            parent_id: SpanId::default(),
            start_ns: 5,
            end_ns: if flags & SpanFlags::ENDED > 0 { 9 } else { 0 },
            content: flags.into(),
            peer: 0,
            flags: SpanFlags(flags),
            resource: 0,
            facts: start..start + 3,
        };
        batch.push(TraceId([trace; 16]), record);
    }
    batch
}

/// Traces due at a step: trace, reason, revision, number of spans.
type Judged = (u8, Completion, u32, usize);

fn judged(shard: &mut Shard, due: Vec<Due>) -> Vec<Judged> {
    let mut out = Vec::new();
    for due in due {
        let trace = shard.trace(due.handle).expect("a due trace is still there");
        out.push((trace.trace_id.0[0], due.completion, due.revision, trace.spans.len()));
        shard.done(due.handle);
    }
    out
}

fn add(shard: &mut Shard, now_ms: u64, records: &[(u8, u16, u16)]) -> Vec<Judged> {
    let mut due = Vec::new();
    shard.add(&batch(records), now_ms, &mut due);
    judged(shard, due)
}

fn tick(shard: &mut Shard, now_ms: u64) -> Vec<Judged> {
    let mut due = Vec::new();
    shard.tick(now_ms, &mut due);
    judged(shard, due)
}

const NONE: [Judged; 0] = [];

#[test]
fn trace_is_complete_a_quiet_period_after_its_root_ended() {
    let mut shard = shard(|_, _| {});
    assert_eq!(add(&mut shard, 0, &[(1, 1, ROOT), (1, 2, TOOL)]), NONE);
    assert_eq!(add(&mut shard, 500, &[(1, 3, TOOL)]), NONE);
    assert_eq!(tick(&mut shard, 1_400), NONE);
    assert_eq!(tick(&mut shard, 1_500), [(1, Completion::RootEnded, 0, 3)]);
    assert_eq!(tick(&mut shard, 9_000), NONE);
}

#[test]
fn trace_without_root_waits_for_the_idle_timeout() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 2, TOOL)]);
    add(&mut shard, 6_000, &[(1, 3, TOOL)]);
    assert_eq!(tick(&mut shard, 15_900), NONE);
    assert_eq!(tick(&mut shard, 16_000), [(1, Completion::Idle, 0, 2)]);
}

/// Ticks like a shard's driver until something is judged, for at most two hours.
fn judged_next(shard: &mut Shard, from_ms: u64) -> (u64, Vec<Judged>) {
    let mut ticks = (from_ms..from_ms + 7_200_000).step_by(TICK_MS as usize);
    let judged = ticks.find_map(|now_ms| {
        let judged = tick(shard, now_ms);
        (!judged.is_empty()).then_some((now_ms, judged))
    });
    judged.expect("something is judged")
}

/// Ten minutes, an hour, and a turn of the timer wheel minus and plus a tick.
const LONG_WAITS_MS: [u64; 5] = [600_000, 3_600_000, TURN_MS - TICK_MS, TURN_MS, TURN_MS + TICK_MS];

#[test]
fn long_quiet_period_is_kept_to_the_tick() {
    for wait_ms in LONG_WAITS_MS {
        let mut shard = shard(|traces, _| {
            traces.quiet_period = QuietPeriod::Fixed(HumanDuration::from_millis(wait_ms));
            traces.age_max = HumanDuration::from_secs(100_000);
            traces.remember_period = HumanDuration::from_secs(100_000);
        });
        add(&mut shard, 0, &[(1, 1, TOOL)]);
        add(&mut shard, 5_000, &[(1, 2, ROOT)]);
        let first = (5_000 + wait_ms, vec![(1, Completion::RootEnded, 0, 2)]);
        assert_eq!(judged_next(&mut shard, 5_000), first);
        add(&mut shard, 10_000 + wait_ms, &[(1, 3, TOOL)]);
        let second = (10_000 + 2 * wait_ms, vec![(1, Completion::RootEnded, 1, 3)]);
        assert_eq!(judged_next(&mut shard, 10_000 + wait_ms), second);
    }
}

#[test]
fn long_idle_timeout_is_kept_to_the_tick() {
    for wait_ms in LONG_WAITS_MS {
        let mut shard = shard(|traces, _| {
            traces.idle_timeout = HumanDuration::from_millis(wait_ms);
            traces.age_max = HumanDuration::from_secs(100_000);
        });
        add(&mut shard, 0, &[(1, 1, TOOL)]);
        add(&mut shard, 5_000, &[(1, 2, TOOL)]);
        let judged = (5_000 + wait_ms, vec![(1, Completion::Idle, 0, 2)]);
        assert_eq!(judged_next(&mut shard, 5_000), judged);
    }
}

#[test]
fn active_trace_is_judged_at_its_maximum_age() {
    let mut shard = shard(|_, _| {});
    for second in 0..100 {
        assert_eq!(add(&mut shard, second * 1_000, &[(1, second as u16, TOOL)]), NONE);
        assert_eq!(tick(&mut shard, second * 1_000), NONE);
    }
    assert_eq!(tick(&mut shard, 100_000), [(1, Completion::AgeMax, 0, 100)]);
    add(&mut shard, 100_100, &[(1, 200, TOOL)]);
    assert_eq!(tick(&mut shard, 110_150), [(1, Completion::Idle, 1, 101)]);
}

#[test]
fn late_span_reopens_completed_trace() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 1, ROOT)]);
    let mut due = Vec::new();
    shard.tick(1_000, &mut due);
    let first = due[0].digest;
    judged(&mut shard, due);
    add(&mut shard, 5_000, &[(1, 2, TOOL)]);
    let mut due = Vec::new();
    shard.tick(6_000, &mut due);
    assert_eq!((due[0].revision, due[0].revised), (1, Some(first)));
    assert_eq!(judged(&mut shard, due), [(1, Completion::RootEnded, 1, 2)]);
    assert_eq!(shard.take_counts().reopened, 1);
}

#[test]
fn trace_that_is_revised_again_and_again_keeps_no_other_remembered() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 0, ROOT)]);
    tick(&mut shard, 1_000);
    add(&mut shard, 1_000, &[(2, 0, ROOT)]);
    tick(&mut shard, 2_000);
    for revision in 1..5 {
        let now_ms = u64::from(revision) * 10_000;
        add(&mut shard, now_ms, &[(1, revision as u16, TOOL)]);
        let judged = tick(&mut shard, now_ms + 8_000);
        assert_eq!(judged, [(1, Completion::RootEnded, revision, revision as usize + 1)]);
    }
    assert_eq!((shard.trace_count(), shard.judged.len()), (1, 1));
    tick(&mut shard, 100_000);
    assert_eq!((shard.trace_count(), held(&shard), shard.remembered_bytes), (0, 0, 0));
}

#[test]
fn each_further_revision_of_a_trace_waits_twice_as_long() {
    let mut shard = shard(|traces, _| traces.revision_wait_max = HumanDuration::from_secs(5));
    add(&mut shard, 0, &[(1, 0, ROOT)]);
    assert_eq!(tick(&mut shard, 1_000).len(), 1);
    let mut now_ms = 1_000;
    for (revision, wait_ms) in (1..).zip([1_000, 2_000, 4_000, 5_000, 5_000]) {
        add(&mut shard, now_ms, &[(1, revision as u16, TOOL)]);
        assert_eq!(tick(&mut shard, now_ms + wait_ms - TICK_MS), []);
        now_ms += wait_ms;
        let judged = tick(&mut shard, now_ms);
        assert_eq!(judged, [(1, Completion::RootEnded, revision, revision as usize + 1)]);
    }
}

#[test]
fn what_comes_for_a_forgotten_trace_revises_its_verdict_for_hours() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 1, ROOT)]);
    tick(&mut shard, 1_000);
    tick(&mut shard, 21_000);
    assert_eq!(held(&shard), 0);
    add(&mut shard, 22_000, &[(1, 2, TOOL)]);
    let mut due = Vec::new();
    shard.tick(32_000, &mut due);
    let [late] = due[..] else { panic!("{due:?}") };
    assert_eq!((late.revision, late.is_partial), (1, true), "the first part is gone");
    assert!(late.revised.is_some());
    shard.done(late.handle);
    // A repeat of the judged request adds nothing.
    add(&mut shard, 60_000, &[(1, 2, TOOL)]);
    assert_eq!(tick(&mut shard, 80_000), NONE);
    let later = 7 * 60 * 60 * 1000;
    tick(&mut shard, later);
    add(&mut shard, later, &[(1, 3, TOOL)]);
    assert_eq!(tick(&mut shard, later + 10_000), [(1, Completion::Idle, 0, 1)]);
}

/// Held bytes without the memory of forgotten traces.
fn held(shard: &Shard) -> usize {
    shard.bytes() - shard.forgotten_traces.bytes()
}

#[test]
fn request_that_comes_twice_changes_nothing() {
    let mut shard = shard(|_, _| {});
    let records: Vec<_> = (1..100).map(|n| (1, n, if n == 1 { ROOT } else { TOOL })).collect();
    add(&mut shard, 0, &records);
    add(&mut shard, 10, &records);
    assert_eq!(tick(&mut shard, 1_010), [(1, Completion::RootEnded, 0, 99)]);
    add(&mut shard, 2_000, &records);
    assert_eq!(tick(&mut shard, 60_000), NONE);
    assert_eq!(shard.take_counts().spans.duplicate, 198);
}

#[test]
fn ended_span_replaces_its_start_snapshot() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 1, SpanFlags::ROOT | SpanFlags::AGENT)]);
    add(&mut shard, 10, &[(1, 1, ROOT)]);
    add(&mut shard, 20, &[(1, 1, SpanFlags::ROOT | SpanFlags::AGENT)]);
    assert_eq!(tick(&mut shard, 1_050), [(1, Completion::RootEnded, 0, 1)]);
}

#[test]
fn trace_of_no_agent_is_not_judged() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 1, SpanFlags::ROOT | PLAIN), (1, 2, PLAIN)]);
    assert_eq!(tick(&mut shard, 1_000), NONE);
    assert_eq!(shard.take_counts().without_agent, 1);
}

#[test]
fn log_events_wait_for_their_spans() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 2, LOG | SpanFlags::AGENT), (2, 2, LOG | SpanFlags::AGENT)]);
    add(&mut shard, 5_000, &[(1, 1, ROOT), (1, 2, PLAIN)]);
    assert_eq!(tick(&mut shard, 6_000), [(1, Completion::RootEnded, 0, 3)]);
    assert_eq!(tick(&mut shard, 10_000), NONE);
    assert_eq!(shard.take_counts().orphan_logs, 1);
}

#[test]
fn too_many_bytes_evict_until_the_limit_holds() {
    let mut shard = shard(|_, limits| limits.traces_mib = Some(1));
    let mut evicted = 0;
    for trace in 1..=200 {
        let records: Vec<_> = (0..200).map(|span| (trace, span, TOOL)).collect();
        evicted += add(&mut shard, u64::from(trace), &records).len();
    }
    assert!(evicted > 100, "{evicted}");
    tick(&mut shard, 300);
    add(&mut shard, 301, &[(201, 1, TOOL)]);
    assert!(shard.bytes() <= 1 << 20, "{}", shard.bytes());
}

#[test]
fn remembered_traces_are_forgotten_early_beyond_their_own_limit() {
    let mut shard = shard(|_, limits| limits.remembered_mib = Some(1));
    let mut batch = batch(&[(1, 1, ROOT)]);
    batch.arena = vec![0; 400 << 10];
    batch.spans[0].facts = 0..(400 << 10);
    for trace in 1..=4 {
        batch.runs[0].trace_id = TraceId([trace; 16]);
        let mut due = Vec::new();
        shard.add(&batch, u64::from(trace) * 2_000, &mut due);
        shard.tick(u64::from(trace) * 2_000 + 1_500, &mut due);
        assert_eq!(judged(&mut shard, due).len(), 1);
    }
    // Room is made at the next arrival: the first of three remembered traces is removed.
    assert_eq!((shard.trace_count(), shard.take_counts().forgotten_early), (3, 1));
}

#[test]
fn trace_beyond_its_span_limit_is_judged_with_what_it_has() {
    let mut shard = shard(|_, limits| limits.spans_per_trace_max = 3);
    let three = [(1, 1, TOOL), (1, 2, TOOL), (1, 3, TOOL)];
    assert_eq!(add(&mut shard, 0, &three), NONE);
    assert_eq!(add(&mut shard, 1, &[(1, 4, TOOL)]), [(1, Completion::Evicted, 0, 3)]);
    assert_eq!(add(&mut shard, 2, &[(1, 5, ROOT)]), NONE);
    assert_eq!(tick(&mut shard, 19_000), NONE);
    let counts = shard.take_counts();
    assert_eq!((counts.spans.over_limit, counts.evicted_by_size), (2, 1));
}

#[test]
fn trace_that_a_limit_makes_due_is_there_until_it_is_judged() {
    let mut shard = shard(|_, limits| {
        limits.spans_per_trace_max = 1;
        limits.open_traces_max = 1;
    });
    let judged = add(&mut shard, 0, &[(1, 1, TOOL), (1, 2, TOOL), (2, 1, TOOL)]);
    assert_eq!(judged, [(1, Completion::Evicted, 0, 1), (2, Completion::Evicted, 0, 1)]);
}

#[test]
fn trace_at_its_span_limit_takes_what_it_has_again() {
    let mut shard = shard(|_, limits| limits.spans_per_trace_max = 2);
    let started = SpanFlags::ROOT | SpanFlags::AGENT;
    add(&mut shard, 0, &[(1, 1, started), (1, 2, TOOL)]);
    assert_eq!(add(&mut shard, 10, &[(1, 2, TOOL), (1, 1, ROOT)]), NONE);
    assert_eq!(tick(&mut shard, 1_050), [(1, Completion::RootEnded, 0, 2)]);
    assert_eq!(shard.cut_traces().count(), 0);
    assert_eq!(add(&mut shard, 5_000, &[(1, 2, TOOL), (1, 3, TOOL), (1, 3, TOOL)]), NONE);
    let counts = shard.take_counts();
    assert_eq!((counts.spans.duplicate, counts.spans.over_limit), (2, 2));
    assert_eq!((counts.evicted_by_size, counts.reopened), (0, 0), "it was judged with as much");
    let cut =
        CutTrace { trace_id: TraceId([1; 16]), kept: 2, left_out: 2, limit: TraceLimit::Spans };
    assert_eq!(shard.cut_traces().collect::<Vec<_>>(), [cut]);
    tick(&mut shard, 25_000);
    assert_eq!((shard.trace_count(), held(&shard)), (0, 0));
}

#[test]
fn trace_beyond_its_bytes_names_that_limit() {
    let mut shard = shard(|_, limits| limits.trace_mib_max = 1);
    let mut batch = batch(&[(1, 1, TOOL), (1, 2, TOOL)]);
    batch.arena = vec![0; 2 << 20];
    (batch.spans[0].facts, batch.spans[1].facts) = (0..1 << 20, 1 << 20..(1 << 20) + 1);
    let mut due = Vec::new();
    shard.add(&batch, 0, &mut due);
    assert_eq!(judged(&mut shard, due), [(1, Completion::Evicted, 0, 1)]);
    let cut = shard.cut_traces().next().expect("a trace was cut");
    assert_eq!((cut.kept, cut.left_out, cut.limit), (1, 1, TraceLimit::Bytes));
    assert!(shard.bytes() < 3 << 19, "no room for what is left out: {}", shard.bytes());
}

#[test]
fn drain_judges_everything_that_is_open() {
    let mut shard = shard(|_, _| {});
    add(&mut shard, 0, &[(1, 1, TOOL), (2, 1, ROOT), (3, 1, PLAIN)]);
    let mut due = Vec::new();
    shard.drain(Completion::Shutdown, 1, &mut due);
    let out = judged(&mut shard, due);
    assert_eq!(out, [(1, Completion::Shutdown, 0, 1), (2, Completion::Shutdown, 0, 1)]);
    assert_eq!(shard.open_count(), 0);
}

proptest! {
    /// Adjacent records are taken at once where possible.
    #[test]
    fn records_that_come_together_are_kept_as_if_each_came_alone(
        batches in prop::collection::vec(
            prop::collection::vec((1u8..4, 0u16..30, 0usize..3), 0..30), 1..8),
    ) {
        let mut whole = shard(|_, _| {});
        let mut single = shard(|_, _| {});
        for records in batches {
            let flags = [TOOL, LOG, 0];
            let record = |(trace, span, kind): (u8, u16, usize)| (trace, span, flags[kind]);
            let records: Vec<_> = records.into_iter().map(record).collect();
            add(&mut whole, 0, &records);
            records.iter().for_each(|record| drop(add(&mut single, 0, &[*record])));
        }
        prop_assert_eq!(whole.take_counts(), single.take_counts());
        let traces = |shard: &mut Shard| {
            let mut due = Vec::new();
            shard.drain(Completion::Shutdown, 0, &mut due);
            let trace = |due: &Due| {
                let trace = shard.trace(due.handle).unwrap();
                let records = trace.spans.iter().map(|record| {
                    let own = SpanRecord { facts: 0..0, resource: 0, ..record.clone() };
                    (own, trace.facts(record).to_vec())
                });
                (trace.trace_id.0, due.digest, records.collect::<Vec<_>>())
            };
            let mut traces: Vec<_> = due.iter().map(trace).collect();
            traces.sort_by_key(|(id, ..)| *id);
            traces
        };
        prop_assert_eq!(traces(&mut whole), traces(&mut single));
    }

    /// For arrivals in any order, every agent's trace is judged with all its spans, its revisions
    /// count up, and nothing is left behind.
    #[test]
    fn every_trace_is_judged_on_all_its_spans(
        steps in prop::collection::vec(
            (0u64..3_000, prop::collection::vec((1u8..5, 0u16..60, any::<bool>()), 0..20)), 1..40)
    ) {
        let mut shard = shard(|traces, _| {
            traces.remember_period = HumanDuration::from_secs(1_000_000);
            traces.age_max = HumanDuration::from_secs(1_000_000);
        });
        let mut spans: HashMap<u8, hashbrown::HashSet<u16>> = HashMap::new();
        let mut last: HashMap<u8, (u32, usize)> = HashMap::new();
        let mut now_ms = 0;
        let mut note = |out: Vec<Judged>| {
            for (trace, _, revision, count) in out {
                let expected = last.get(&trace).map_or(0, |(revision, _)| revision + 1);
                assert_eq!(revision, expected);
                last.insert(trace, (revision, count));
            }
        };
        for (pause_ms, records) in steps {
            now_ms += pause_ms;
            let flags = |root| if root { ROOT } else { TOOL };
            let records: Vec<_> =
                records.iter().map(|&(t, s, root)| (t, s, flags(root))).collect();
            for &(trace, span, _) in &records {
                spans.entry(trace).or_default().insert(span);
            }
            note(add(&mut shard, now_ms, &records));
            note(tick(&mut shard, now_ms));
        }
        let longest_ms = TracesSettings::default().revision_wait_max.as_ms();
        note(tick(&mut shard, now_ms + longest_ms + 1_000));
        for (trace, spans) in spans {
            prop_assert_eq!(last[&trace].1, spans.len());
        }
        prop_assert_eq!(shard.open_count(), 0);
    }
}

#[test]
fn running_traces_are_shown_as_they_grow() {
    let running = |shard: &mut Shard, records: &[(u8, u16, u16)]| {
        let mut due = Vec::new();
        shard.add(&batch(records), 0, &mut due);
        let running = shard.take_running();
        let id = |running: RunningTrace| shard.trace(running.handle).unwrap().trace_id.0[0];
        running.into_iter().map(id).collect::<Vec<_>>()
    };
    let mut unwatched = shard(|_, _| {});
    assert!(running(&mut unwatched, &[(1, 1, TOOL)]).is_empty());
    let mut shard = shard(|_, _| {});
    shard.watch_running();
    assert_eq!(running(&mut shard, &[(1, 1, TOOL), (2, 1, PLAIN), (1, 2, TOOL)]), [1]);
    assert!(running(&mut shard, &[(1, 1, TOOL)]).is_empty(), "a duplicate");
    assert_eq!(running(&mut shard, &[(1, 3, TOOL), (3, 1, TOOL), (3, 2, ROOT)]), [1]);
    assert!(running(&mut shard, &[(1, 4, ROOT)]).is_empty(), "its root has ended");
    let many: Vec<_> = (0..1000).map(|span| (4, span, TOOL)).collect();
    assert_eq!(running(&mut shard, &many), [4]);
    assert!(running(&mut shard, &[(4, 1000, TOOL)]).is_empty(), "it has hardly grown");
}

#[test]
fn what_was_said_of_a_trace_is_kept_with_it() {
    let mut shard = shard(|_, _| {});
    shard.watch_running();
    let mut due = Vec::new();
    shard.add(&batch(&[(1, 1, TOOL)]), 0, &mut due);
    let handle = shard.take_running()[0].handle;
    let said = spanscore_base::model::Reported {
        evaluator: 3,
        id: spanscore_base::model::EvaluationId([1; 16]),
        revision: 0,
    };
    shard.keep_reported(handle, vec![said]);
    shard.drain(Completion::EndOfInput, 0, &mut due);
    assert_eq!(due[0].handle, handle);
    assert_eq!(shard.reported(handle), [said]);
}
