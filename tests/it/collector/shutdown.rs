//! End of the collector: open traces are judged and delivered, in the time that it has.

use std::time::Instant;

use spanscore_pipeline::Unjudged;
use tokio_util::sync::CancellationToken;

use crate::support::collector::{HELD, Running};
use crate::support::fake_backend::{Behavior, FakeBackend};
use crate::support::patience::PATIENCE;
use crate::support::spans::{request, searches};

#[tokio::test]
async fn dead_or_hanging_backend_delays_neither_senders_nor_shutdown() {
    let hanging = FakeBackend::grpc().await;
    hanging.always(Behavior::Hang);
    for backend in [FakeBackend::dead(), hanging] {
        let config = "shutdown_timeout: 400ms
exporters: {otlp_grpc/backend: {forms: [event, span, metric]}}
";
        let running = Running::between(backend, config, |_| {}).await;
        let started = Instant::now();
        for trace in 1..=50 {
            assert_eq!(running.send(request(searches(trace, &[2]))).await.0, 0);
        }
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
        let started = Instant::now();
        let (events, unsent) = running.stop().await;
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
        assert_eq!((events.len(), unsent), (0, 100));
    }
}

#[tokio::test]
async fn evaluations_given_up_during_shutdown_are_lost() {
    let config = format!(
        "{HELD}exporters: {{otlp_grpc/backend: {{retry_on_failure: {{enabled: false}}}}}}\n"
    );
    let running = Running::between(FakeBackend::dead(), &config, |_| {}).await;
    running.send(request(searches(7, &[2]))).await;
    assert_eq!(running.stop().await.1, 2);
}

#[tokio::test]
async fn traces_unjudged_at_the_shutdown_timeout_are_lost() {
    let running = Running::start(HELD).await;
    for trace in 1..=3 {
        running.send(request(searches(trace, &[2]))).await;
    }
    running.counted("spanscore_assemble_open_traces", 3).await;
    let hurry = CancellationToken::new();
    hurry.cancel();
    let lost = running.lost(&hurry).await;
    assert_eq!(lost.unjudged, Unjudged { traces: 3, ..Unjudged::default() });
    assert_eq!(lost.to_string(), "3 traces not judged");
}

#[tokio::test]
async fn http_senders_are_told_to_come_again_until_the_end() {
    let backend = FakeBackend::grpc().await;
    backend.always(Behavior::Hang);
    let running = Running::between(backend, "shutdown_timeout: 1s\n", |_| {}).await;
    running.send(request(searches(7, &[2]))).await;
    let url = format!("http://{}/v1/traces", running.http);
    let sending = async {
        let post = crate::support::web_client()
            .build()
            .unwrap()
            .post(url)
            .header("content-type", "application/json");
        post.body("{}").send().await.unwrap()
    };
    let ((_, unsent), response) = tokio::join!(running.stop(), sending);
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(unsent, 2);
}

#[tokio::test]
async fn requests_after_the_end_are_refused() {
    let running = Running::start(HELD).await;
    let mut client = running.connect().await;
    client.export(request(searches(7, &[2]))).await.unwrap();
    assert_eq!(running.judged().await.len(), 2);
    assert!(client.export(request(searches(8, &[2]))).await.is_err());
}
