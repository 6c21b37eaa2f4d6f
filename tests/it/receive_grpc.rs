//! OTLP/gRPC as real clients meet it.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use spanscore_base::otlp::Signal;
use spanscore_receive::{Accepted, Lack, Refused};
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use crate::support::intake::{Harness, small_settings};
use crate::support::patience::PATIENCE;

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

async fn client(harness: &Harness) -> TraceServiceClient<Channel> {
    TraceServiceClient::connect(format!("http://{}", harness.grpc)).await.unwrap()
}

/// A request whose one span has a name of so many bytes.
fn request(name_bytes: usize) -> ExportTraceServiceRequest {
    let span = Span { name: "n".repeat(name_bytes), ..Span::default() };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}

#[tokio::test]
async fn requests_reach_the_intake_unchanged() {
    let harness = Harness::start().await;
    let plain = client(&harness).await;
    let gzip = plain.clone().send_compressed(CompressionEncoding::Gzip);
    let zstd = plain.clone().send_compressed(CompressionEncoding::Zstd);
    for mut client in [plain, gzip, zstd] {
        for size in [0, 10, 100_000, 900_000] {
            let response = client.export(request(size)).await.unwrap().into_inner();
            assert_eq!(response.partial_success, None);
            let expected = (Signal::Traces, request(size).encode_to_vec().into());
            assert_eq!(harness.intake.take(), [expected]);
        }
    }
    harness.assert_counted(
        "spanscore_receiver_accepted_spans_total{receiver=\"otlp\",transport=\"grpc\"} 12",
    );
}

#[tokio::test]
async fn each_service_names_its_signal() {
    let harness = Harness::start().await;
    let address = format!("http://{}", harness.grpc);
    let mut logs = LogsServiceClient::connect(address.clone()).await.unwrap();
    logs.export(ExportLogsServiceRequest::default()).await.unwrap();
    let mut metrics = MetricsServiceClient::connect(address).await.unwrap();
    metrics.export(ExportMetricsServiceRequest::default()).await.unwrap();
    let signals: Vec<_> = harness.intake.take().into_iter().map(|(signal, _)| signal).collect();
    assert_eq!(signals, [Signal::Logs, Signal::Metrics]);
}

#[tokio::test]
async fn rejected_items_are_told_as_partial_success() {
    let harness = Harness::start().await;
    let message = "1 span without a trace id".to_owned();
    harness.intake.answer(Ok(Accepted { accepted: 2, rejected: 1, message: message.clone() }));
    let response = client(&harness).await.export(request(1)).await.unwrap().into_inner();
    let partial = response.partial_success.unwrap();
    assert_eq!((partial.rejected_spans, partial.error_message), (1, message));
    harness.assert_counted(
        "spanscore_receiver_refused_spans_total\
         {reason=\"rejected\",receiver=\"otlp\",transport=\"grpc\"} 1",
    );
}

#[tokio::test]
async fn too_large_is_resource_exhausted_without_a_retry_hint() {
    let harness = Harness::start().await;
    let plain = client(&harness).await;
    let gzip = plain.clone().send_compressed(CompressionEncoding::Gzip);
    let zstd = plain.clone().send_compressed(CompressionEncoding::Zstd);
    for mut client in [plain, gzip, zstd] {
        let status = client.export(request(1 << 20)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("max_recv_msg_size_mib"), "{status}");
        assert!(status.details().is_empty());
    }
    assert_eq!(harness.intake.take(), []);
    harness.assert_counted(
        "spanscore_receiver_refused_requests_total\
         {reason=\"too_large\",receiver=\"otlp\",transport=\"grpc\"} 3",
    );
}

#[tokio::test]
async fn refusals_have_the_codes_of_otlp() {
    let harness = Harness::start().await;
    let mut client = client(&harness).await;
    harness.intake.answer(Err(Refused::Malformed("field 3 is cut".to_owned())));
    let status = client.export(request(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("field 3 is cut") && status.details().is_empty());

    let overloaded = Refused::Later { lack: Lack::Room, retry_after: Duration::from_millis(1500) };
    for refused in [overloaded, Refused::ShuttingDown] {
        harness.intake.answer(Err(refused));
        let status = client.export(request(1)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        let hint = status.metadata().get_bin("google.rpc.retryinfo-bin").unwrap();
        let hint = hint.to_bytes().unwrap();
        // RetryInfo holds a Duration of 1 s and something.
        assert_eq!(hint[2..4], [0x08, 0x01]);
        let details = status.details();
        assert!(details.windows(hint.len()).any(|part| part == &hint[..]), "{details:?}");
    }
    harness.assert_counted(
        "spanscore_receiver_refused_spans_total\
         {reason=\"overloaded\",receiver=\"otlp\",transport=\"grpc\"} 1",
    );
}

/// Posts a raw call; the status stands in the headers, since errors are Trailers-Only.
async fn raw(harness: &Harness, path: &str, encoding: &str, body: Vec<u8>) -> (String, String) {
    let client = crate::support::web_client().http2_prior_knowledge().build().unwrap();
    let response = client
        .post(format!("http://{}{path}", harness.grpc))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", encoding)
        .body(body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("content-length"));
    let text = |name: &str| {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
    };
    (text("grpc-status"), text("grpc-accept-encoding"))
}

#[tokio::test]
async fn bad_calls_are_answered_at_once() {
    let harness = Harness::start().await;
    let bomb = {
        let mut body = vec![1, 0, 0, 0, 0];
        body.extend(zstd::bulk::compress(&vec![0; 2 << 20], 1).unwrap());
        let len = u32::try_from(body.len() - 5).unwrap();
        body[1..5].copy_from_slice(&len.to_be_bytes());
        body
    };
    let (invalid, exhausted, unimplemented, internal) = ("3", "8", "12", "13");
    for (what, path, encoding, body, expected) in [
        ("nothing after the headers", EXPORT, "identity", vec![], internal),
        ("half a prefix", EXPORT, "identity", vec![0, 0, 0], internal),
        ("half a message", EXPORT, "identity", vec![0, 0, 0, 0, 9, 1, 2], internal),
        ("two messages", EXPORT, "identity", vec![0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0], internal),
        ("unknown flag", EXPORT, "identity", vec![2, 0, 0, 0, 0], internal),
        ("not gzip", EXPORT, "GZIP", vec![1, 0, 0, 0, 3, 1, 2, 3], invalid),
        ("a length over the limit", EXPORT, "identity", vec![0, 9, 0, 0, 0], exhausted),
        ("a bomb", EXPORT, "zstd", bomb, exhausted),
        ("unknown method", "/a.B/C", "identity", vec![0, 0, 0, 0, 0], unimplemented),
        ("compressed without saying how", EXPORT, "identity", vec![1, 0, 0, 0, 0], internal),
    ] {
        assert_eq!(raw(&harness, path, encoding, body).await.0, expected, "{what}");
    }
    let (status, known) = raw(&harness, EXPORT, "snappy", vec![1, 0, 0, 0, 0]).await;
    assert_eq!((status.as_str(), known.as_str()), (unimplemented, "identity,gzip,zstd,deflate"));
    assert_eq!(harness.intake.take(), []);
}

#[tokio::test]
async fn a_call_that_is_cut_hears_at_which_byte() {
    let harness = Harness::start().await;
    let client = crate::support::web_client().http2_prior_knowledge().build().unwrap();
    let call = client.post(format!("http://{}{EXPORT}", harness.grpc));
    let call = call.header("content-type", "application/grpc").body(vec![0, 0, 0, 0, 9, 1, 2]);
    let response = call.send().await.unwrap();
    let message = response.headers()["grpc-message"].to_str().unwrap().replace("%20", " ");
    assert!(message.contains("byte 2 of the 9"), "{message}");
}

#[tokio::test]
async fn one_call_past_the_limit_is_unavailable() {
    let settings = small_settings();
    let mut harness = Harness::with(spanscore_receive::settings::OtlpReceiverSettings {
        max_concurrent_requests: 1,
        ..settings
    })
    .await;
    harness.intake.gate.forget_permits(usize::MAX);
    let mut first = client(&harness).await;
    let mut second = first.clone();
    let first = tokio::spawn(async move { first.export(request(1)).await });
    while harness.intake.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let status = second.export(request(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.metadata().contains_key("google.rpc.retryinfo-bin"));
    harness.intake.gate.add_permits(1);
    assert!(first.await.unwrap().is_ok());
    assert!(harness.drain(PATIENCE).await);
}

#[tokio::test]
async fn running_calls_end_before_the_receivers_do() {
    let mut harness = Harness::start().await;
    harness.intake.gate.forget_permits(usize::MAX);
    let mut first = client(&harness).await;
    let call = tokio::spawn(async move { first.export(request(1)).await });
    while harness.intake.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    harness.receivers.as_ref().unwrap().stop_accepting();
    let address = harness.grpc;
    let intake = std::sync::Arc::clone(&harness.intake);
    let drained = tokio::spawn(async move { harness.drain(PATIENCE).await });
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    intake.gate.add_permits(1);
    assert!(call.await.unwrap().is_ok());
    assert!(drained.await.unwrap());
}

#[tokio::test]
async fn calls_that_do_not_end_are_cut_at_the_deadline() {
    let mut harness = Harness::start().await;
    harness.intake.gate.forget_permits(usize::MAX);
    let mut client = client(&harness).await;
    let call = tokio::spawn(async move { client.export(request(1)).await });
    while harness.intake.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!harness.drain(Duration::from_millis(50)).await);
    assert!(call.await.unwrap().is_err());
    harness.assert_counted(
        "spanscore_receiver_closed_connections_total\
         {reason=\"shutdown\",receiver=\"otlp\",transport=\"grpc\"} 1",
    );
}
