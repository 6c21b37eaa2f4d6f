//! Exporters against an independent backend that fails, delays and hangs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::metrics::MeterProvider;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use spanscore_base::model::{Evaluation, Memory};
use spanscore_base::settings::Node;
use spanscore_base::value::json;
use spanscore_emit::{Exporters, Undelivered, settings};

use crate::support::evaluations::scored;
use crate::support::exporters::{Fixture, KINDS, backend, otlp};
use crate::support::fake_backend::{Behavior, FakeBackend, attribute, tls_path};
use crate::support::patience::PATIENCE;

#[tokio::test]
async fn each_score_arrives_as_event_span_and_metric() {
    for kind in KINDS {
        for compression in ["gzip", "zstd", "none"] {
            let backend = backend(kind).await;
            let more = format!(
                r#","compression": "{compression}", "headers": {{"Authorization": "Bearer x"}}"#
            );
            let fixture = Fixture::start(&otlp(&backend, kind, &more));
            fixture.offer([scored(1, 0.25), scored(2, 1.0)]);
            assert_eq!(fixture.shutdown().await, []);
            check_event(&backend);
            check_span(&backend);
            let mut names: Vec<_> = backend.metrics().into_iter().map(|m| m.name).collect();
            names.sort();
            assert_eq!(names, ["spanscore.evaluation.count", "spanscore.evaluation.score"]);
            let headers = backend.headers();
            assert!(headers.iter().all(|headers| headers["authorization"] == "Bearer x"));
            let encoding = if kind == "otlp_http" { "content-encoding" } else { "grpc-encoding" };
            let used = headers[0].get(encoding).map_or("none", |value| value.to_str().unwrap());
            assert_eq!(used, compression, "{kind}");
            assert_eq!(fixture.counter("sent", &format!(r#"exporter="{kind}""#)), 2);
        }
    }
}

fn check_event(backend: &FakeBackend) {
    let records = backend.log_records();
    assert_eq!(records.len(), 2);
    let record = &records[0];
    assert_eq!(record.event_name, "gen_ai.evaluation.result");
    assert_eq!(
        (record.trace_id.as_slice(), record.span_id.as_slice()),
        (&[0xaa; 16][..], &[0xbb; 8][..])
    );
    let get = |key| attribute(&record.attributes, key);
    let text = |value: &str| Some(ProtoValue::StringValue(value.to_owned()));
    assert_eq!(get("gen_ai.evaluation.name").cloned(), text("tool_call_count/frugal"));
    assert_eq!(get("gen_ai.evaluation.score.value"), Some(&ProtoValue::DoubleValue(0.25)));
    assert_eq!(get("gen_ai.evaluation.score.label").cloned(), text("fail"));
    assert_eq!(get("error.type"), None);
    let explanation = get("gen_ai.evaluation.explanation").cloned();
    assert_eq!(explanation, text("score 0.25, below the threshold 0.5"));
    let resources = backend.log_resources();
    assert_eq!(attribute(&resources[0], "service.name").cloned(), text("shop"));
}

fn check_span(backend: &FakeBackend) {
    let spans = backend.spans();
    assert_eq!(spans.len(), 2);
    let span = &spans[0];
    assert_eq!(span.name, "evaluate tool_call_count/frugal");
    assert_eq!((span.trace_id.as_slice(), span.span_id.as_slice()), (&[0xaa; 16][..], &[1; 8][..]));
    assert_eq!(span.parent_span_id, [0xbb; 8]);
}

#[tokio::test]
async fn a_replay_sends_the_same_ids() {
    let backend = FakeBackend::grpc().await;
    for _ in 0..2 {
        let more = r#","forms": ["span"], "placement": "linked""#;
        let fixture = Fixture::start(&otlp(&backend, "otlp_grpc", more));
        fixture.offer([scored(7, 1.0)]);
        fixture.shutdown().await;
    }
    let spans = backend.spans();
    assert_eq!((spans.len(), &spans[0]), (2, &spans[1]));
    assert_eq!(spans[0].links.len(), 1);
}

#[tokio::test]
async fn what_may_pass_is_tried_again_until_it_does() {
    for kind in KINDS {
        let backend = backend(kind).await;
        backend.next(&[Behavior::Unavailable, Behavior::Unavailable]);
        let fixture = Fixture::start(&otlp(&backend, kind, r#","forms": ["event"]"#));
        fixture.offer([scored(1, 1.0)]);
        assert_eq!(fixture.shutdown().await, []);
        assert_eq!((backend.requests(), backend.log_count()), (3, 1), "{kind}");
        assert_eq!(fixture.counter("sent", &format!(r#"exporter="{kind}""#)), 1);
    }
}

#[tokio::test]
async fn what_is_refused_for_good_is_dropped_with_the_reason() {
    for kind in KINDS {
        let backend = backend(kind).await;
        backend.always(Behavior::Refuse);
        let fixture = Fixture::start(&otlp(&backend, kind, r#","forms": ["event"]"#));
        fixture.offer([scored(1, 1.0)]);
        assert_eq!(fixture.shutdown().await, []);
        assert_eq!(backend.requests(), 1, "{kind}");
        let labels = format!(r#"exporter="{kind}",reason="refused""#);
        assert_eq!(fixture.counter("send_failed", &labels), 1);
        assert_eq!(fixture.counter("sent", &format!(r#"exporter="{kind}""#)), 0);
    }
}

#[tokio::test]
async fn what_is_rejected_of_a_request_is_counted_and_not_sent_again() {
    for kind in KINDS {
        let backend = backend(kind).await;
        backend.always(Behavior::Reject(2));
        let fixture = Fixture::start(&otlp(&backend, kind, r#","forms": ["span"]"#));
        fixture.offer([scored(1, 1.0), scored(2, 1.0), scored(3, 1.0)]);
        assert_eq!(fixture.shutdown().await, []);
        assert_eq!(backend.requests(), 1, "{kind}");
        let labels = format!(r#"exporter="{kind}",reason="rejected_partly""#);
        assert_eq!(fixture.counter("send_failed", &labels), 2);
        assert_eq!(fixture.counter("sent", &format!(r#"exporter="{kind}""#)), 1);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_tried_again() {
    for kind in KINDS {
        let backend = backend(kind).await;
        backend.next(&[Behavior::Hang]);
        let more = r#","forms": ["event"], "timeout": "200ms""#;
        let fixture = Fixture::start(&otlp(&backend, kind, more));
        fixture.offer([scored(1, 1.0)]);
        assert_eq!(fixture.shutdown().await, []);
        assert_eq!((backend.requests(), backend.log_count()), (2, 1), "{kind}");
    }
}

#[tokio::test]
async fn a_dead_backend_never_slows_offers_and_its_queue_stays_bounded() {
    let backend = FakeBackend::dead();
    for kind in KINDS {
        let more = r#","sending_queue": {"queue_size": 10000}"#;
        let fixture = Fixture::start(&otlp(&backend, kind, more));
        let batch: Arc<[Evaluation]> = [scored(1, 1.0)].into();
        let started = Instant::now();
        for _ in 0..10_000 {
            fixture.offer(batch.clone());
        }
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
        let labels = format!(r#"exporter="{kind}",reason="queue_full""#);
        let dropped = fixture.counter("enqueue_failed", &labels);
        assert!((9_900..10_000).contains(&dropped), "{dropped}");
        let within = tokio::time::sleep(Duration::from_millis(300));
        let unsent = fixture.exporters.shutdown(within).await;
        assert!(started.elapsed() < PATIENCE);
        let left = Undelivered { name: kind.to_owned(), count: 10_000 - dropped };
        assert_eq!(unsent, [left]);
    }
}

#[tokio::test]
async fn a_slow_backend_still_gets_everything_before_the_shutdown_ends() {
    let backend = FakeBackend::grpc().await;
    backend.always(Behavior::Delay(Duration::from_millis(100)));
    let more = r#","forms": ["event"], "sending_queue": {"batch": {"max_size": 1}}"#;
    let fixture = Fixture::start(&otlp(&backend, "otlp_grpc", more));
    for n in 1..=20 {
        fixture.offer([scored(n, 1.0)]);
    }
    assert_eq!(fixture.shutdown().await, []);
    assert_eq!(backend.log_count(), 20);
    fixture.offer([scored(1, 1.0)]);
    let labels = r#"exporter="otlp_grpc",reason="shutting_down""#;
    assert_eq!(fixture.counter("enqueue_failed", labels), 1);
}

/// Settings of an exporter that speaks TLS; `files` are the keys of `tls:` with their files.
fn secure(backend: &FakeBackend, kind: &str, files: &[(&str, &str)]) -> String {
    let base = if kind == "otlp_http" { "/base" } else { "" };
    let port = backend.address.port();
    let files: Vec<_> =
        files.iter().map(|(key, file)| format!("{key:?}: {:?}", tls_path(file))).collect();
    let files = files.join(",");
    format!(
        r#"{{"{kind}": {{"endpoint": "https://localhost:{port}{base}", "forms": ["event"],
        "tls": {{{files}}}, "retry_on_failure": {{"enabled": false}}}}}}"#
    )
}

#[tokio::test]
async fn tls_is_spoken_to_backends_that_the_authority_vouches_for() {
    let files = [("ca_file", "ca.pem"), ("cert_file", "client.pem"), ("key_file", "client.key")];
    for kind in KINDS {
        let backend = FakeBackend::tls().await;
        let mutual = Fixture::start(&secure(&backend, kind, &files));
        mutual.offer([scored(1, 1.0)]);
        assert_eq!(mutual.shutdown().await, []);
        assert_eq!(backend.log_count(), 1, "{kind}");
        for refused in [&files[..1], &files[1..]] {
            let fixture = Fixture::start(&secure(&backend, kind, refused));
            fixture.offer([scored(1, 1.0)]);
            fixture.shutdown().await;
            let labels = format!(r#"exporter="{kind}",reason="retries_exhausted""#);
            assert_eq!(fixture.counter("send_failed", &labels), 1, "{kind}");
        }
        assert_eq!(backend.log_count(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_burst_leaves_in_requests_that_backends_take() {
    // The backend refuses messages over 4 MiB, as gRPC servers do by default.
    let backend = FakeBackend::grpc().await;
    let more = r#","placement": "linked", "include_content": true,
        "sending_queue": {"queue_size": 1000000000}"#;
    let fixture = Fixture::start(&otlp(&backend, "otlp_grpc", more));
    let trace: Arc<[Evaluation]> = (0..=255).map(|n| scored(n, 1.0)).collect();
    for _ in 0..20 {
        fixture.offer(trace.clone());
    }
    assert_eq!(fixture.shutdown().await, []);
    assert_eq!((backend.log_count(), backend.spans().len()), (5120, 5120));
    assert_eq!(fixture.counter("sent", r#"exporter="otlp_grpc""#), 5120);
}

#[tokio::test]
async fn evaluations_leave_after_the_flush_timeout_without_a_shutdown() {
    let backend = FakeBackend::http().await;
    let more = r#","metrics_interval": "50ms""#;
    let fixture = Fixture::start(&otlp(&backend, "otlp_http", more));
    fixture.offer([scored(1, 1.0)]);
    backend
        .until(|b| !b.log_records().is_empty() && !b.spans().is_empty() && !b.metrics().is_empty())
        .await;
}

#[tokio::test]
async fn explanations_leave_only_where_content_is_included() {
    for (include, leaves) in [("true", true), ("false", false)] {
        let backend = FakeBackend::http().await;
        let more = format!(r#","include_content": {include}"#);
        let fixture = Fixture::start(&otlp(&backend, "otlp_http", &more));
        assert_eq!(fixture.exporters.want().details, leaves);
        fixture.offer([scored(1, 1.0)]);
        fixture.shutdown().await;
        let sent = format!("{:?}{:?}", backend.log_records(), backend.spans());
        assert_eq!(sent.contains("secret"), leaves);
    }
}

#[tokio::test]
async fn the_file_holds_one_record_a_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("scores.jsonl");
    let settings = format!(r#"{{"file": {{"path": {:?}}}, "prometheus": null}}"#, path);
    let fixture = Fixture::start(&settings);
    fixture.offer([scored(1, 0.25), scored(2, 1.0)]);
    assert_eq!(fixture.shutdown().await, []);
    let text = std::fs::read_to_string(&path).expect("the file");
    let records: Vec<_> = text.lines().map(|line| json::parse(line).expect("JSON")).collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].get("label").and_then(|l| l.as_str()), Some("fail"));
    let metrics = TextEncoder::new().encode_to_string(&fixture.registry.gather()).expect("text");
    assert!(metrics.contains(r#"spanscore_evaluation_count_total{agent="refunds""#), "{metrics}");
}

#[tokio::test]
async fn ids_are_wanted_where_evaluations_are_shown_one_by_one() {
    for (settings, records) in [(r#"{"prometheus": null}"#, false), (r#"{"console": null}"#, true)]
    {
        assert_eq!(Fixture::start(settings).exporters.want().records, records, "{settings}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_fails_the_start_with_its_path() {
    let node = json::parse(r#"{"file/x": {"path": "/nowhere/scores.jsonl"}}"#).expect("JSON");
    let settings = settings::read(&Node::from_value(&node)).expect("settings");
    let meter = SdkMeterProvider::default().meter("test");
    let error =
        Exporters::start(&settings, &Memory::default(), &meter, &Registry::new(), None).err();
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(text.starts_with("exporter `file/x`: cannot open `/nowhere/scores.jsonl`"), "{text}");
}
