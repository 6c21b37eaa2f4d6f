//! Tests of memory accounting: each trace in full, each resource once.

use super::*;
use spanscore_base::model::verdicts::VERDICTS_MAX;
use spanscore_base::model::{
    Evaluation, EvaluationId, EvaluatorInfo, GivenVerdicts, Level, Outcome, SpanId, Target,
};

/// Returns a batch of one span with a resource.
fn with_resource(trace: u8, resource: &Arc<Resource>) -> SpanBatch {
    SpanBatch { resources: vec![Arc::clone(resource)], ..batch(&[(trace, 1, TOOL)]) }
}

fn resource(bytes: usize) -> Arc<Resource> {
    Arc::new(Resource { encoded: vec![0; bytes], ..Resource::default() })
}

#[test]
fn resource_of_many_traces_is_counted_once_and_until_the_last_is_gone() {
    let mut shard = shard(|traces, _| traces.remember_period = HumanDuration::from_secs(1));
    let mut due = Vec::new();
    let shared = resource(100_000);
    for trace in 1..=5 {
        shard.add(&with_resource(trace, &shared), 0, &mut due);
    }
    let bytes = shard.bytes();
    assert!((100_000..120_000).contains(&bytes), "{bytes}");
    shard.add(&with_resource(6, &resource(100_000)), 0, &mut due);
    assert!(shard.bytes() > bytes + 100_000, "another one, even if it is equal");
    assert_eq!(tick(&mut shard, 20_000).len(), 6);
    tick(&mut shard, 40_000);
    assert_eq!((shard.trace_count(), held(&shard)), (0, 0));
}

#[test]
fn large_resources_evict_as_many_traces_as_they_must() {
    let mut shard = shard(|_, limits| limits.traces_mib = Some(1));
    let mut evicted = 0;
    for trace in 1..=50 {
        let mut due = Vec::new();
        shard.add(&with_resource(trace, &resource(200_000)), 0, &mut due);
        evicted += judged(&mut shard, due).len();
        assert!(shard.bytes() <= (1 << 20) + 200_000, "{}", shard.bytes());
    }
    assert!((45..50).contains(&evicted), "{evicted}");
    assert_eq!(shard.take_counts().evicted_by_memory, evicted as u64);
}

#[test]
fn trace_of_many_resources_is_closed_by_its_own_limit() {
    let mut shard = shard(|_, limits| limits.trace_mib_max = 1);
    let mut due = Vec::new();
    for span in 0..20 {
        let mut batch = batch(&[(1, span, TOOL)]);
        batch.resources = vec![resource(200_000)];
        shard.add(&batch, 0, &mut due);
    }
    assert_eq!((due.len(), shard.take_counts().evicted_by_size), (1, 1));
    assert!(shard.bytes() < 2 << 20, "{}", shard.bytes());
}

#[test]
fn verdicts_that_were_given_count_among_the_bytes_of_their_trace() {
    let mut shard = shard(|traces, _| traces.remember_period = HumanDuration::from_secs(1));
    let mut due = Vec::new();
    shard.add(&batch(&[(1, 1, TOOL)]), 0, &mut due);
    shard.tick(20_000, &mut due);
    let handle = due[0].handle;
    let before = shard.bytes();
    let evaluation = Evaluation {
        id: EvaluationId([1; 16]),
        evaluator: Arc::new(EvaluatorInfo {
            kind: "kind",
            name: "name".into(),
            threshold: 1.0,
            level: Level::Call,
            digest: [7; 16],
            case: None,
            own_version: None,
        }),
        target: Arc::new(Target {
            sender: Default::default(),
            trace_id: TraceId([1; 16]),
            session_id: None,
            resource: Arc::default(),
            agent_name: None,
            response: None,
            completion: Completion::Idle,
            is_partial: false,
            time_ns: 1,
            started_ns: 0,
            ended_ns: 0,
        }),
        span_id: SpanId([1; 8]),
        outcome: Outcome::Failed { error_type: "test", error: String::new() },
        revision: 0,
        revises: None,
        supersedes: None,
        judge: None,
    };
    let mut verdicts = GivenVerdicts::default();
    verdicts.supersede(&mut vec![evaluation; 2_000]);
    shard.keep_verdicts(handle, verdicts);
    let kept = shard.bytes() - before;
    assert!((16 * VERDICTS_MAX..16 * VERDICTS_MAX + 64).contains(&kept), "{kept}");
    shard.done(handle);
    shard.tick(40_000, &mut due);
    assert_eq!((shard.trace_count(), held(&shard)), (0, 0));
}

#[test]
fn copy_of_a_lent_trace_is_counted_at_a_config_update_until_it_comes_back() {
    let mut shard = shard(|_, _| {});
    let mut due = Vec::new();
    shard.add(&batch(&[(1, 1, TOOL), (1, 2, TOOL)]), 0, &mut due);
    shard.drain(Completion::Shutdown, 0, &mut due);
    let before = shard.bytes();
    let lent = shard.lend(due[0].handle).unwrap();
    shard.reform(false, |trace, _| trace.arena.push(0));
    assert!(shard.bytes() > before + 100, "{} after {before}", shard.bytes());
    let copied = lent.bytes();
    drop(lent);
    assert_eq!(shard.returned(due[0].handle), copied);
    assert!(shard.bytes() < before + 1000, "{} after {before}", shard.bytes());
}
