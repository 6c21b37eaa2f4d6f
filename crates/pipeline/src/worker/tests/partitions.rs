//! Tests of partitions' traces on a shard: held until delivered, and dropped with their partition.

use super::*;
use spanscore_base::model::{ClaimsByTrace, Receipt, Source, TraceId};

/// Loads the sample as a record of a partition.
fn record(worker: &Worker, source: &Arc<Source>) -> Arc<SpanBatch> {
    let mut batch = sample(worker);
    let own = Arc::get_mut(&mut batch).unwrap();
    let traces: Vec<TraceId> = own.runs.iter().map(|run| run.trace_id).collect();
    let claims =
        traces.into_iter().zip(7..).map(|(trace, offset)| (trace, source.claim(offset, 0)));
    own.claims_by_trace = Some(Arc::new(claims.collect::<ClaimsByTrace>()));
    batch
}

fn take_in(worker: &mut Worker, batch: Arc<SpanBatch>) {
    let table = Arc::clone(worker.context.setup.resolver.table());
    worker.arrived((batch, table), None, &mut Vec::new());
}

#[tokio::test]
async fn trace_of_a_revoked_partition_is_never_judged_here() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    for is_open in [true, false] {
        let source = Arc::<Source>::default();
        let mut worker = worker(&telemetry, Vec::new());
        let batch = record(&worker, &source);
        // After it waits in the shard, and while it is still queued for it.
        if is_open {
            take_in(&mut worker, batch);
            source.retire();
        } else {
            source.retire();
            take_in(&mut worker, batch);
        }
        let mut due = Vec::new();
        // The next tick may come before the message.
        worker.judge_all(Completion::Idle, 0, &mut due);
        worker.drop_revoked(&mut due).await;
        assert_eq!((source.lowest(), worker.shard.trace_count()), (None, 0));
    }
    counted(&telemetry, "spanscore_assemble_judged_traces_total{completion=\"idle\"} 0");
}

#[test]
fn record_is_needed_until_its_evaluations_have_arrived() {
    let telemetry = Telemetry::without_endpoints().unwrap();
    let receipts: Arc<Mutex<Vec<Receipt>>> = Arc::default();
    let out = Arc::clone(&receipts);
    let evaluators = vec![configured("steady", Level::Trace, Brittle::default())];
    let (context, settings) = WorkerContext::of(&telemetry, evaluators);
    let outlet = move |_: Vec<Evaluation>, receipt: Option<Receipt>| {
        out.lock().unwrap().extend(receipt);
    };
    let context = WorkerContext { outlet: Arc::new(outlet), ..context };
    let mut worker = context.worker(&settings, 0, None);
    let source = Arc::<Source>::default();
    let batch = record(&worker, &source);
    take_in(&mut worker, batch);
    worker.judge_all(Completion::RootEnded, 0, &mut Vec::new());
    // The trace is forgotten, and a delivery is in flight.
    worker.shard.tick(u64::MAX / 2, &mut Vec::new());
    assert_eq!((worker.shard.trace_count(), source.lowest()), (0, Some(7)));
    receipts.lock().unwrap().clear();
    assert_eq!(source.lowest(), None);
}
