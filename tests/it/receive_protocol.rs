//! What HTTP/2 and gRPC ask of a server beyond OTLP, as clients that misbehave meet it.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use reqwest::{Client, Method};
use tonic::Code;

use crate::support::intake::Harness;

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// A call's one message: an empty request.
const EMPTY: [u8; 5] = [0; 5];

fn h2() -> Client {
    Client::builder().http2_prior_knowledge().build().unwrap()
}

fn call(harness: &Harness, client: &Client, method: Method) -> reqwest::RequestBuilder {
    client
        .request(method, format!("http://{}{EXPORT}", harness.grpc))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(EMPTY.to_vec())
}

fn refused(reason: &str, transport: &str, count: u64) -> String {
    format!(
        "spanscore_receiver_refused_requests_total\
         {{reason=\"{reason}\",receiver=\"otlp\",transport=\"{transport}\"}} {count}"
    )
}

#[tokio::test]
async fn only_a_post_over_http_2_is_a_call() {
    let harness = Harness::start().await;
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let response = call(&harness, &h2(), method.clone()).send().await.unwrap();
        assert_eq!(response.status(), 405, "{method}");
        assert_eq!(response.headers()["allow"], "POST");
        assert_eq!(response.headers()["grpc-status"], "12");
    }
    let response = call(&harness, &Client::new(), Method::POST).send().await.unwrap();
    assert_eq!(response.status(), 415);
    assert_eq!(harness.intake.take(), []);
    harness.assert_counted(&refused("method", "grpc", 3));
    harness.assert_counted(&refused("content_type", "grpc", 1));
}

/// The codes after which an OTLP sender comes again, unless a hint says more.
const RETRYABLE: [Code; 6] = [
    Code::Cancelled,
    Code::DeadlineExceeded,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unavailable,
    Code::DataLoss,
];

#[tokio::test]
async fn metadata_beyond_the_limit_is_refused_for_good() {
    let harness = Harness::start().await;
    let mut client = TraceServiceClient::connect(format!("http://{}", harness.grpc)).await.unwrap();
    let with = |bytes: usize| {
        let mut request = tonic::Request::new(ExportTraceServiceRequest::default());
        request.metadata_mut().insert("x-long", "v".repeat(bytes).parse().unwrap());
        request
    };
    client.export(with(15 << 10)).await.unwrap();
    for bytes in [16 << 10, 100 << 10, 300 << 10] {
        let status = client.export(with(bytes)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{bytes}: {status}");
        assert!(status.message().contains("16384 bytes"), "{status}");
        assert!(status.details().is_empty());
        assert!(!status.metadata().contains_key("google.rpc.retryinfo-bin"));
    }
    harness.assert_counted(&refused("headers_too_large", "grpc", 3));
    let status = client.export(with(1 << 20)).await.unwrap_err();
    assert!(!RETRYABLE.contains(&status.code()), "{status}");
    client.export(with(0)).await.unwrap();
    assert_eq!(harness.intake.take().len(), 2);
}

#[tokio::test]
async fn headers_beyond_the_limit_are_431() {
    let harness = Harness::start().await;
    for client in [Client::new(), h2()] {
        let post = |bytes: usize| {
            let request = client.post(harness.url("/v1/traces"));
            request.header("content-type", "application/json").header("x-long", "v".repeat(bytes))
        };
        assert_eq!(post(15 << 10).body("{}").send().await.unwrap().status(), 200);
        let response = post(16 << 10).body("{}").send().await.unwrap();
        assert_eq!(response.status(), 431);
        assert!(response.text().await.unwrap().contains("16384 bytes"));
    }
    harness.assert_counted(&refused("headers_too_large", "http", 2));
}
