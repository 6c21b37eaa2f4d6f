//! Tasks that wait for an external evaluator survive the end of the process.

use super::fixture;
use crate::judges::refund;
use crate::support::collector::Event;
use crate::support::fake_backend::FakeBackend;
use crate::support::program::Program;
use crate::support::spans::request;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_answered_at_the_end_is_asked_by_the_next_process_and_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = FakeBackend::grpc().await;
    let config = |mode: &str, mark: &str| {
        let (script, data, address) =
            (fixture("evaluator.py"), folder.path().join("data"), backend.address);
        format!(
            "evaluators:
  agentevals/check: {{command: [python3, {script:?}], config: {{mode: {mode}}}, timeout: 60s,
    redact: none, env: {{SPANSCORE_MARK: {mark:?}}}, spares: 1}}
data_dir: {data:?}
durability: os
shutdown_timeout: 2s
traces: {{quiet_period: 50ms, idle_timeout: 1s}}
exporters:
  otlp_grpc/backend:
    endpoint: http://{address}
    forms: [event]
    sending_queue: {{batch: {{flush_timeout: 20ms}}}}
"
        )
    };
    for (round, signal) in ["-TERM", "-KILL"].into_iter().enumerate() {
        let mark = format!("crash-{round}-{}", std::process::id());
        let program = Program::start(folder.path(), &config("hung", &mark));
        program.client().await.export(request(refund(round as u8 + 1))).await.expect("taken");
        program.page_when(|page| page.0.contains("spanscore_external_wait_seconds_count")).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        program.signal(signal);
        let (code, _) = tokio::task::spawn_blocking(|| program.end()).await.expect("it ends");
        assert!(backend.log_count() == round, "nothing is told of what hung");
        if signal == "-TERM" {
            assert_eq!(code, Some(0));
            super::process::nothing_left(&mark).await;
        }
        let next = Program::start(folder.path(), &config("good", &mark));
        backend.until(|backend| backend.log_count() > round).await;
        next.signal("-TERM");
        tokio::task::spawn_blocking(|| next.end()).await.expect("it ends");
    }
    let events: Vec<_> = backend.log_records().into_iter().map(Event).collect();
    let told: Vec<_> = events.iter().map(|event| (event.trace(), event.score())).collect();
    assert_eq!(told, [(1, Some(0.75)), (2, Some(0.75))]);
}
