//! Identity of the bytes that reach a backend with those that the sender wrote.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric::Data,
};
use prost::Message;
use spanscore_base::otlp::Signal;
use spanscore_net::client::{Compression, Protocol};

use super::{client, forwards, logs, send, settled};
use crate::support::collector::Running;
use crate::support::raw_backend::RawBackend;
use crate::support::spans::{request, searches};

/// Requests of each signal, with fields that nobody knows.
fn requests() -> Vec<(Signal, Vec<u8>)> {
    let data_points = vec![NumberDataPoint::default(); 3];
    let data = Some(Data::Gauge(Gauge { data_points }));
    let metrics = vec![Metric { name: "m".into(), data, ..Metric::default() }];
    let scope = ScopeMetrics { metrics, ..ScopeMetrics::default() };
    let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
    let metrics = ExportMetricsServiceRequest { resource_metrics: vec![resource] };
    let mut all = vec![
        (Signal::Traces, request(searches(1, &[2, 3])).encode_to_vec()),
        (Signal::Logs, logs(&[1, 0])),
        (Signal::Metrics, metrics.encode_to_vec()),
    ];
    // Field 900 with a text, which no version of the protocol has.
    all.iter_mut().for_each(|(_, request)| request.extend(b"\xa2\x38\x03new"));
    // Larger than what is packed in place, and than a frame.
    let many =
        (1..=250).flat_map(|trace| searches(trace, &[2, 3, 4, 5, 6, 7, 8, 9])).collect::<Vec<_>>();
    all.push((Signal::Traces, request(many).encode_to_vec()));
    all
}

#[tokio::test]
async fn protobuf_reaches_every_backend_byte_by_byte() {
    let backends =
        [RawBackend::start().await, RawBackend::start().await, RawBackend::start().await];
    let config = forwards(&[
        ("otlp_grpc/plain", "compression: none", &backends[0]),
        ("otlp_grpc/packed", "compression: zstd", &backends[1]),
        ("otlp_http", "headers: {x-key: abc}", &backends[2]),
    ]);
    let running = Running::start(&config).await;
    let mut expected = Vec::new();
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let client = client(&running, protocol, compression);
            for (signal, request) in requests() {
                send(&client, signal, &request).await;
                expected.push(request);
            }
        }
    }
    expected.sort();
    for (backend, encoding) in backends.iter().zip(["", "zstd", "gzip"]) {
        backend.until(expected.len()).await;
        assert!(backend.bodies() == expected, "other bytes came");
        assert!(backend.requests().iter().all(|request| request.encoding == encoding));
    }
    for name in ["otlp_grpc/plain", "otlp_grpc/packed", "otlp_http"] {
        let books = settled(&running, name).await;
        assert_eq!(books["sent_requests"], expected.len() as u64);
        assert_eq!(books["sent_items"], books["accepted_items"]);
        assert_eq!(books["queue_size_bytes"], 0, "{books:?}");
    }
}

#[tokio::test]
async fn json_stays_as_it_is_over_http_and_becomes_protobuf_over_grpc() {
    let (grpc, http) = (RawBackend::start().await, RawBackend::start().await);
    let config = forwards(&[("otlp_grpc", "", &grpc), ("otlp_http", "", &http)]);
    let running = Running::start(&config).await;
    let text = r#"{ "resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "0102030405060708090a0b0c0d0e0f10", "spanId": "0102030405060708",
         "name": "a", "new": {"x": [1]}}]}]}], "newer": 1 }"#;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    let json = ("content-type", "application/json");
    for (headers, body) in [
        (vec![json], text.as_bytes().to_vec()),
        (vec![json, ("content-encoding", "gzip")], gzip.finish().unwrap()),
    ] {
        assert_eq!(running.post("/v1/traces", &headers, body).await.status(), 200);
    }
    http.until(2).await;
    grpc.until(2).await;
    for request in http.requests() {
        assert_eq!((&*request.content_type, &*request.encoding), ("application/json", "gzip"));
        assert_eq!(request.body, text.as_bytes());
    }
    let transcoded =
        spanscore_base::otlp::json::transcode(Signal::Traces, text.as_bytes()).unwrap();
    assert_eq!(grpc.bodies(), vec![transcoded.to_vec(); 2]);
}

#[tokio::test]
async fn only_the_named_signals_are_passed_on() {
    let backend = RawBackend::start().await;
    let config = forwards(&[("otlp_http", "signals: [metrics, logs]", &backend)]);
    let running = Running::start(&config).await;
    let client = client(&running, Protocol::HttpProtobuf, Compression::None);
    for (signal, request) in requests() {
        send(&client, signal, &request).await;
    }
    settled(&running, "otlp_http").await;
    let mut paths: Vec<_> = backend.requests().into_iter().map(|it| it.path).collect();
    paths.sort();
    assert_eq!(paths, ["/v1/logs", "/v1/metrics"]);
}
