//! Tests of `quiet_period: auto`.

use super::*;
use crate::completion_policy::{PEERS_MAX, SERVICES_MAX};

/// Span as sent by one process.
#[derive(Clone, Copy)]
struct Sent {
    trace: u8,
    span: u16,
    parent: u16,
    flags: u16,
    peer: u32,
}

const REMOTE: u16 = SpanFlags::REMOTE_PARENT;

const fn sent(trace: u8, span: u16, parent: u16, flags: u16) -> Sent {
    Sent { trace, span, parent, flags: flags | SpanFlags::ENDED, peer: 0 }
}

fn id(number: u16) -> SpanId {
    let mut id = [0; 8];
    id[..2].copy_from_slice(&number.to_be_bytes());
    SpanId(id)
}

fn request(service: &str, spans: &[Sent]) -> SpanBatch {
    let resource = Resource { encoded: service.into(), service_name: service.into() };
    let record = |sent: &Sent| SpanRecord {
        span_id: id(sent.span),
        parent_id: id(sent.parent),
        start_ns: 5,
        end_ns: 9,
        content: sent.span.into(),
        peer: sent.peer,
        flags: SpanFlags(sent.flags),
        resource: 0,
        facts: 0..0,
    };
    let mut batch = SpanBatch { resources: vec![Arc::new(resource)], ..SpanBatch::default() };
    spans.iter().for_each(|sent| batch.push(TraceId([sent.trace; 16]), record(sent)));
    batch
}

fn auto() -> Shard {
    shard(|traces, _| {
        traces.quiet_period = QuietPeriod::Auto;
        traces.remember_period = HumanDuration::from_secs(60);
    })
}

/// Adds arrivals in order, ticking in between; returns the judgements with their times.
fn run(shard: &mut Shard, arrivals: &[(u64, &str, &[Sent])], until_ms: u64) -> Vec<(u64, Due)> {
    let mut out = Vec::new();
    let from_ms = arrivals.first().map_or(0, |(at, ..)| *at);
    let mut waiting = arrivals.iter().peekable();
    for now_ms in (from_ms..=until_ms).step_by(TICK_MS as usize) {
        let mut due = Vec::new();
        while let Some((_, service, spans)) = waiting.next_if(|(at, ..)| *at <= now_ms) {
            shard.add(&request(service, spans), now_ms, &mut due);
        }
        shard.tick(now_ms, &mut due);
        for due in due {
            shard.done(due.handle);
            out.push((now_ms - from_ms, due));
        }
    }
    out
}

/// Returns the time of the trace's first judgement, and true if it is partial.
fn first(shard: &mut Shard, arrivals: &[(u64, &str, &[Sent])]) -> (u64, bool) {
    let last_ms = arrivals.last().map_or(0, |(at, ..)| *at);
    let judged = run(shard, arrivals, last_ms + 40_000);
    let (at, due) = judged.first().expect("it is judged");
    (*at, due.is_partial)
}

const AGENT: u16 = ROOT;

#[test]
fn whole_trace_waits_a_second() {
    let spans = [sent(1, 1, 0, AGENT), sent(1, 2, 1, TOOL)];
    assert_eq!(first(&mut auto(), &[(0, "shop", &spans)]), (1_000, false));
}

#[test]
fn missing_parent_is_waited_for_until_it_comes() {
    let early = [sent(1, 1, 0, AGENT), sent(1, 3, 2, TOOL)];
    let late = [sent(1, 2, 1, PLAIN)];
    let arrivals: [(u64, &str, &[Sent]); 2] = [(0, "shop", &early), (4_000, "shop", &late)];
    assert_eq!(first(&mut auto(), &arrivals), (5_000, false));
    assert_eq!(first(&mut auto(), &arrivals[..1]), (10_000, true));
}

#[test]
fn run_that_says_it_waits_is_partial_until_it_says_it_is_over() {
    let with = |flags| [sent(1, 1, 0, AGENT), sent(1, 2, 1, flags)];
    let partial = |spans: &[Sent]| first(&mut auto(), &[(0, "shop", spans)]).1;
    assert!(partial(&with(SpanFlags::WAITING)));
    assert!(!partial(&with(SpanFlags::FINISHED)));
    assert!(partial(&[sent(1, 3, 2, TOOL | SpanFlags::WAITING)]), "its root is missing");
}

#[test]
fn remote_parent_is_not_waited_for() {
    let spans = [sent(1, 1, 0, AGENT), sent(1, 3, 2, TOOL | REMOTE)];
    assert_eq!(first(&mut auto(), &[(0, "shop", &spans)]), (1_000, false));
}

#[test]
fn parent_that_a_service_never_sends_is_not_waited_for_again() {
    let mut shard = auto();
    let mut waits = Vec::new();
    for trace in 1..6 {
        let spans = [sent(trace, 1, 0, AGENT), sent(trace, 3, 2, TOOL)];
        waits.push(first(&mut shard, &[(u64::from(trace) * 100_000, "shop", &spans)]).0);
    }
    assert_eq!(waits, [10_000, 10_000, 10_000, 1_000, 1_000]);
}

/// Judges traces of a service, each 100 s after its predecessor; returns true for partial ones.
fn partial(shard: &mut Shard, from: u8, traces: &[&[Sent]]) -> Vec<bool> {
    let each = |(trace, spans): (u8, &&[Sent])| {
        let own: Vec<Sent> = spans.iter().map(|span| Sent { trace, ..*span }).collect();
        first(shard, &[(u64::from(trace) * 100_000, "shop", &own)]).1
    };
    (from..).zip(traces).map(each).collect()
}

const WHOLE: [Sent; 3] = [sent(0, 1, 0, AGENT), sent(0, 2, 1, PLAIN), sent(0, 3, 2, TOOL)];
const ROOTLESS: [Sent; 2] = [sent(0, 3, 2, TOOL), sent(0, 4, 3, TOOL)];

#[test]
fn idle_trace_without_parents_that_usually_come_is_partial() {
    let mut shard = auto();
    assert_eq!(partial(&mut shard, 1, &[&ROOTLESS]), [false], "nothing is known of them");
    assert_eq!(partial(&mut shard, 2, &[&WHOLE, &ROOTLESS]), [false, true]);
    let remote = [sent(0, 3, 2, TOOL | REMOTE)];
    let rooted = [sent(0, 1, 0, AGENT), sent(0, 3, 1, TOOL)];
    assert_eq!(partial(&mut shard, 4, &[&remote, &rooted]), [false, false]);
    assert_eq!(partial(&mut shard, 6, &[&ROOTLESS[..]; 4]), [true, true, false, false], "in vain");
}

#[test]
fn runs_that_pause_and_end_later_stay_partial_while_they_pause() {
    let mut shard = auto();
    assert_eq!(partial(&mut shard, 1, &[&WHOLE]), [false]);
    for trace in 2..20 {
        let early = ROOTLESS.map(|span| Sent { trace, ..span });
        let rest = [sent(trace, 1, 0, AGENT), sent(trace, 2, 1, PLAIN)];
        let at = u64::from(trace) * 100_000;
        let arrivals: [(u64, &str, &[Sent]); 2] =
            [(at, "shop", &early), (at + 20_000, "shop", &rest)];
        let judged = run(&mut shard, &arrivals, at + 90_000);
        let told: Vec<_> = judged.iter().map(|(_, due)| (due.revision, due.is_partial)).collect();
        assert_eq!(told, [(0, true), (1, false)], "{trace}");
    }
}

#[test]
fn idle_trace_of_a_service_whose_parents_never_come_is_not_partial() {
    let mut shard = auto();
    let lacking = [sent(0, 1, 0, AGENT), sent(0, 3, 2, TOOL), sent(0, 4, 3, TOOL)];
    let traces: Vec<&[Sent]> = (0..8).map(|_| &lacking[..]).chain([&ROOTLESS[..]]).collect();
    assert_eq!(partial(&mut shard, 1, &traces)[8..], [false]);
}

#[test]
fn idle_trace_whose_parent_may_be_of_another_service_is_not_partial() {
    let mut shard = auto();
    assert_eq!(partial(&mut shard, 1, &[&WHOLE]), [false]);
    // A remote caller without the remote flag.
    let (caller, called) = ([sent(2, 1, 0, AGENT)], [sent(2, 3, 1, TOOL)]);
    let arrivals: [(u64, &str, &[Sent]); 2] =
        [(200_000, "desk", &caller), (200_000, "shop", &called)];
    assert!(!first(&mut shard, &arrivals).1);
    assert_eq!(partial(&mut shard, 3, &[&WHOLE, &ROOTLESS]), [false, false]);
    // Forgotten after this many without one.
    let traces: Vec<&[Sent]> = (0..64).map(|_| &WHOLE[..]).chain([&ROOTLESS[..]]).collect();
    assert_eq!(partial(&mut shard, 5, &traces)[64..], [true]);
}

#[test]
fn call_of_another_process_is_waited_for_only_where_it_sends() {
    let mut shard = auto();
    let call = |trace, peer| Sent { peer, ..sent(trace, 2, 1, PLAIN) };
    let of = |trace, peer| [sent(trace, 1, 0, AGENT), call(trace, peer), sent(trace, 9, 1, TOOL)];
    let mut waits = Vec::new();
    for trace in 1..6 {
        let spans = of(trace, 7);
        waits.push(first(&mut shard, &[(u64::from(trace) * 100_000, "shop", &spans)]).0);
    }
    assert_eq!(waits, [10_000, 10_000, 10_000, 1_000, 1_000]);
    // Another peer is independent.
    let here = of(6, 8);
    let there = [sent(6, 3, 2, TOOL | REMOTE)];
    let at = 600_000;
    let arrivals: [(u64, &str, &[Sent]); 2] = [(at, "shop", &here), (at + 4_000, "bank", &there)];
    assert_eq!(first(&mut shard, &arrivals), (5_000, false));
    // It is known to send, with a lateness of 4 s, a quarter more and a margin.
    let spans = of(7, 8);
    assert_eq!(first(&mut shard, &[(700_000, "shop", &spans)]), (5_500, true));
}

#[test]
fn call_below_a_model_is_not_waited_for() {
    let http = Sent { peer: 7, ..sent(1, 3, 2, PLAIN) };
    let spans = [sent(1, 1, 0, AGENT), sent(1, 2, 1, SpanFlags::AGENT), http];
    assert_eq!(first(&mut auto(), &[(0, "shop", &spans)]), (1_000, false));
}

#[test]
fn spans_of_others_that_followed_once_are_waited_for() {
    let mut shard = auto();
    let of = |trace| ([sent(trace, 1, 0, AGENT)], [sent(trace, 3, 1, TOOL | REMOTE)]);
    let mut waits = Vec::new();
    for trace in 1..4 {
        let (here, there) = of(trace);
        let at = u64::from(trace) * 100_000;
        let arrivals: [(u64, &str, &[Sent]); 2] =
            [(at, "shop", &here), (at + 3_000, "bank", &there)];
        waits.push(first(&mut shard, &arrivals));
    }
    // Unannounced spans are learnt from the first revision.
    assert_eq!(waits, [(1_000, false), (4_000, false), (4_000, false)]);
}

#[test]
fn what_was_learnt_is_bounded() {
    let mut shard = auto();
    for trace in 0..3 * PEERS_MAX as u32 {
        let id = (trace % 250) as u8;
        let call = Sent { peer: trace + 1, ..sent(id, 2, 1, PLAIN) };
        let service = format!("shop {trace}");
        let mut due = Vec::new();
        let at = u64::from(trace) * 100_000;
        shard.add(&request(&service, &[sent(id, 1, 0, AGENT), call]), at, &mut due);
        shard.tick(at + 1_000, &mut due);
        shard.tick(at + 20_000, &mut due);
        due.iter().for_each(|due| shard.done(due.handle));
        shard.tick(at + 99_000, &mut Vec::new());
    }
    assert!(shard.completion_policy.sizes() <= (SERVICES_MAX, PEERS_MAX));
    assert!(shard.completion_policy.sizes().1 > 0);
}

/// Runs two processes that export every 5 s, out of step: an agent and a tool that it calls.
/// Returns the delays from the end of the root to the first verdict, and the number of verdicts on
/// half the evidence without a mark as partial.
fn two_processes(is_announced: bool, runs: u8) -> (Vec<u64>, usize) {
    const EXPORT_MS: u64 = 5_000;
    let mut shard = auto();
    let mut delays = Vec::new();
    let mut unmarked = 0;
    let mut random = 0x9e37_79b9_u64;
    for trace in 1..=runs {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
        let agent_phase = (random >> 20) % EXPORT_MS;
        let tool_phase = (random >> 40) % EXPORT_MS;
        let from = u64::from(trace) * 200_000;
        let tool_end = from + 2_000;
        let root_end = from + 3_000;
        let export = |end: u64, phase: u64| {
            let waits = (phase + EXPORT_MS - end % EXPORT_MS) % EXPORT_MS;
            (end + waits).div_ceil(TICK_MS) * TICK_MS
        };
        let call = Sent { peer: u32::from(is_announced), ..sent(trace, 2, 1, TOOL) };
        let here = [sent(trace, 1, 0, AGENT), call];
        let there = [sent(trace, 3, 2, PLAIN | REMOTE)];
        let root_at = export(root_end, agent_phase);
        let tool_at = export(tool_end, tool_phase);
        let mut arrivals: Vec<(u64, &str, &[Sent])> =
            vec![(root_at, "agent", &here), (tool_at, "tool", &there)];
        arrivals.sort_by_key(|(at, ..)| *at);
        let started = arrivals[0].0;
        let judged = run(&mut shard, &arrivals, started + 60_000);
        let (at, due) = judged.first().expect("it is judged");
        let judged_at = started + at;
        let has_both = judged_at >= root_at.max(tool_at);
        unmarked += usize::from(!has_both && !due.is_partial);
        delays.push(judged_at - root_end);
    }
    delays.sort_unstable();
    (delays, unmarked)
}

#[test]
fn two_processes_with_five_second_batches_are_judged_whole() {
    let (delays, unmarked) = two_processes(true, 50);
    assert_eq!(unmarked, 0);
    let half = delays[25];
    let most = delays[49];
    println!("announced: p50 {half} ms, p99 {most} ms from the end of the root");
    assert!(half <= 6_000 && most <= 12_000, "{delays:?}");
    // Without an announcement the first late arrival teaches the policy.
    let (delays, unmarked) = two_processes(false, 50);
    assert!(unmarked <= 1, "{unmarked}");
    println!("learnt: p50 {} ms, p99 {} ms from the end of the root", delays[25], delays[49]);
}

proptest! {
    /// Checks for any arrivals: a trace whose root has ended is judged within the longest wait
    /// after its last record, never within a second of it, and with all its records.
    #[test]
    fn no_trace_waits_longer_than_the_longest(
        steps in prop::collection::vec(
            (0u64..4_000,
             prop::collection::vec((1u8..4, 1u16..12, 0u16..12, 0u32..3, 0u8..3), 1..5)),
            1..30)
    ) {
        let mut shard = shard(|traces, _| {
            traces.quiet_period = QuietPeriod::Auto;
            traces.remember_period = HumanDuration::from_secs(1_000_000);
            traces.revision_wait_max = HumanDuration::from_secs(1);
        });
        let mut now_ms = 0;
        let ticks = |shard: &mut Shard, from: u64, to: u64| {
            for now_ms in (from..to).step_by(TICK_MS as usize) {
                let mut due = Vec::new();
                shard.tick(now_ms, &mut due);
                for due in due {
                    if due.completion == Completion::RootEnded {
                        let waited = now_ms - shard.get(due.handle).unwrap().last_ms;
                        assert!((1_000..=10_000 + 2 * TICK_MS).contains(&waited), "{waited}");
                    }
                    shard.done(due.handle);
                }
            }
        };
        for (pause_ms, records) in steps {
            ticks(&mut shard, now_ms, now_ms + pause_ms);
            now_ms += pause_ms / TICK_MS * TICK_MS;
            for (trace, span, parent, peer, service) in records {
                let flags = if parent == 0 { AGENT } else { TOOL };
                let span = Sent { peer, ..sent(trace, span, parent, flags) };
                let service = format!("service {service}");
                shard.add(&request(&service, &[span]), now_ms, &mut Vec::new());
            }
        }
        ticks(&mut shard, now_ms, now_ms + 60_000);
        prop_assert_eq!(shard.open_count(), 0);
    }
}
