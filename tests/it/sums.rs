//! The counters of the stages add up: what came is somewhere, whatever became of it.

use std::path::Path;

use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::fake_backend::{Behavior, FakeBackend};
use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool, with};

fn config(backend: &FakeBackend, folder: &Path) -> String {
    let (address, data) = (backend.address, folder.join("data"));
    format!(
        "data_dir: {data:?}
traces: {{quiet_period: 100ms, idle_timeout: 1h, remember_period: 1h}}
limits: {{spans_per_trace_max: 4}}
evaluators: {{tool_error/each: {{level: call}}, tool_error: {{}}}}
exporters:
  otlp_grpc/backend:
    endpoint: http://{address}
    forms: [event]
    sending_queue: {{batch: {{flush_timeout: 20ms}}}}
    retry_on_failure: {{initial_interval: 20ms, max_interval: 50ms}}
"
    )
}

async fn send(program: &Program, requests: &[Vec<Span>]) {
    let mut client = program.client().await;
    for spans in requests {
        client.export(request(spans.clone())).await.unwrap();
    }
}

fn plain(trace: u8) -> Span {
    Span { attributes: Vec::new(), ..agent(trace) }
}

fn started(mut span: Span) -> Span {
    span.end_time_unix_nano = 0;
    span
}

#[tokio::test]
async fn every_span_that_came_is_judged_of_no_agent_dropped_or_open() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    let program = Program::start(folder.path(), &config(&backend, folder.path()));
    let requests = [
        searches(1, &[2, 3]),
        searches(1, &[2, 3]),
        vec![with(tool(1, 2, "search"), "more", "content")],
        vec![plain(2)],
        searches(3, &[2, 3, 4, 5, 6]),
        vec![started(tool(4, 2, "search"))],
        vec![tool(4, 2, "search")],
        vec![agent(4)],
        // Nothing ends this one.
        vec![tool(5, 2, "search")],
    ];
    send(&program, &requests).await;
    let page = program
        .page_when(|page| page.spans().1["assemble_judged_spans_total"] == 9 && page.is_sum())
        .await;
    assert_eq!(page.spans().0, requests.iter().map(|spans| spans.len() as u64).sum::<u64>());
    assert_eq!(page.sum("assemble_open_spans", ""), 1);
    assert_eq!(page.sum("assemble_ignored_spans_total", ""), 1);
    for (reason, count) in
        [("duplicate", 3), ("conflict", 1), ("replaced", 1), ("trace_over_limit", 2)]
    {
        let label = format!("reason=\"{reason}\"");
        assert_eq!(page.sum("assemble_dropped_spans_total", &label), count, "{reason}");
    }
    // Late spans count beside those that were judged before.
    send(&program, &[searches(1, &[2, 3, 4]), vec![tool(2, 3, "search")]]).await;
    let judged =
        |count| program.page_when(move |page| page.sum("assemble_judged_spans_total", "") == count);
    judged(11).await;
    program.page_when(|page| page.is_sum()).await;

    // The next process knows what the killed one had taken.
    program.signal("-KILL");
    drop(program);
    let program = Program::start(folder.path(), &config(&backend, folder.path()));
    send(&program, &[vec![agent(5)]]).await;
    let page =
        program.page_when(|page| page.sum("assemble_open_spans", "") == 0 && page.is_sum()).await;
    assert_eq!(page.sum("receiver_accepted_spans_total", ""), 1);
    assert!(page.sum("pipeline_recovered_spans_total", "") >= 1);
}

#[tokio::test]
async fn all_adds_up_under_a_full_log_and_a_dead_forward() {
    let folder = tempfile::tempdir().unwrap();
    let backend = FakeBackend::grpc().await;
    backend.always(Behavior::Unavailable);
    let config = format!(
        "{}log: {{size_max_mib: 1}}
forward: {{otlp_http/gone: {{endpoint: \"http://127.0.0.1:9\"}}}}
",
        config(&backend, folder.path())
    );
    let program = Program::start(folder.path(), &config);
    let (mut client, mut taken) = (program.client().await, 0);
    let content = "x".repeat(20_000);
    let refused = loop {
        let spans = vec![agent(7), with(tool(7, 2, "search"), "more", &content)];
        let spans = spans.into_iter().map(|mut span| {
            span.trace_id[..8].copy_from_slice(&u64::to_be_bytes(taken));
            span
        });
        match client.export(request(spans.collect::<Vec<_>>())).await {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
        assert!(taken < 1000, "the log is never full");
    };
    assert!(refused.message().contains("the log is full"), "{refused}");
    let page = program
        .page_when(|page| page.sum("assemble_judged_spans_total", "") == 2 * taken && page.is_sum())
        .await;
    let forward = |name: &str| page.sum(&format!("forward_{name}"), "");
    let known = ["sent_items_total", "failed_items_total", "dropped_items_total"];
    let known = known.map(forward).iter().sum::<u64>() + forward("queued_items");
    assert_eq!((forward("accepted_items_total"), known), (2 * taken, 2 * taken));
    let lost = page.sum("exporter_send_failed_evaluations_total", "")
        + page.sum("exporter_enqueue_failed_evaluations_total", "");
    assert_eq!(lost, 0, "{}", page.0);
}

#[tokio::test]
async fn every_evaluation_that_was_offered_is_delivered_lost_or_waits() {
    let behaviors: [&[Behavior]; 4] = [
        &[Behavior::Unavailable, Behavior::Unavailable, Behavior::Take],
        &[Behavior::Refuse, Behavior::Take, Behavior::Reject(1)],
        &[Behavior::Hang],
        &[Behavior::Take],
    ];
    for next in behaviors {
        let folder = tempfile::tempdir().unwrap();
        let backend = FakeBackend::grpc().await;
        backend.next(next);
        let program = Program::start(folder.path(), &config(&backend, folder.path()));
        let requests: Vec<_> = (1..30).map(|trace| searches(trace, &[2, 3])).collect();
        send(&program, &requests).await;
        let page = program
            .page_when(|page| page.sum("assemble_judged_spans_total", "") == 87 && page.is_sum())
            .await;
        assert_eq!(page.evaluations().0, 29 * 3, "{next:?}");
    }
}
