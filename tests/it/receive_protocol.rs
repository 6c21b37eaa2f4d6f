//! Demands of HTTP/2 and gRPC on a server beyond OTLP, as clients that misbehave meet it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use reqwest::{Client, Method};
use spanscore_base::settings::HumanDuration;
use spanscore_receive::settings::OtlpReceiverSettings;
use tokio::net::TcpStream;
use tonic::Code;

use crate::support::intake::{Harness, small_settings};
use crate::support::patience::PATIENCE;

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// A call's one message: an empty request.
const EMPTY: [u8; 5] = [0; 5];

fn h2() -> Client {
    crate::support::web_client().http2_prior_knowledge().build().unwrap()
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
    let response = call(&harness, &crate::support::web_client().build().unwrap(), Method::POST)
        .send()
        .await
        .unwrap();
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
    for client in [crate::support::web_client().build().unwrap(), h2()] {
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

/// Settings under which only a call's own deadline ends a wait.
fn patient() -> OtlpReceiverSettings {
    let long = HumanDuration(PATIENCE);
    OtlpReceiverSettings {
        max_concurrent_requests: 1,
        wait_for_room: long,
        read_timeout: long,
        ..small_settings()
    }
}

async fn status_of(request: reqwest::RequestBuilder) -> String {
    let response = request.send().await.unwrap();
    response.headers()["grpc-status"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_deadline_ends_waiting_for_room_and_the_hand_over() {
    let harness = Harness::with(patient()).await;
    harness.intake.gate.forget_permits(usize::MAX);
    let timed =
        |timeout: &str| call(&harness, &h2(), Method::POST).header("grpc-timeout", timeout).send();
    let first = tokio::spawn(timed("1H"));
    while harness.intake.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let waiting = call(&harness, &h2(), Method::POST).header("grpc-timeout", "50m");
    assert_eq!(status_of(waiting).await, "4");
    harness.intake.gate.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap().headers().get("grpc-status"), None);
    let handed_over = call(&harness, &h2(), Method::POST).header("grpc-timeout", "50000u");
    assert_eq!(status_of(handed_over).await, "4");
    assert_eq!(harness.intake.take().len(), 2);
    harness.assert_counted(&refused("deadline", "grpc", 2));
}

/// A body that begins and never ends.
struct Unfinished(Option<Bytes>);

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(Frame::data(data)))))
    }
}

#[tokio::test]
async fn a_deadline_ends_a_message_that_does_not_end() {
    let harness = Harness::with(patient()).await;
    let stream = TokioIo::new(TcpStream::connect(harness.grpc).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let running = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{}{EXPORT}", harness.grpc))
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "50000000n")
        .body(Unfinished(Some(Bytes::from_static(&[0, 0, 0, 0, 9]))))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "4");
    harness.assert_counted(&refused("deadline", "grpc", 1));
    running.abort();
}

#[tokio::test]
async fn a_deadline_that_is_none_is_refused() {
    let harness = Harness::start().await;
    for bad in ["5", "S", "S5", "5s", "-5S", "+5S", "5.0S", "5 S", "123456789S", "\u{ff15}S"] {
        let value = http::HeaderValue::from_bytes(bad.as_bytes()).unwrap();
        let request = call(&harness, &h2(), Method::POST).header("grpc-timeout", value);
        assert_eq!(status_of(request).await, "3", "{bad}");
    }
    let passed = call(&harness, &h2(), Method::POST).header("grpc-timeout", "0S");
    assert_eq!(status_of(passed).await, "4");
    for good in ["99999999H", "5M", "5S", "5000m", "5000000u", "99999999n"] {
        let request = call(&harness, &h2(), Method::POST).header("grpc-timeout", good);
        assert_eq!(request.send().await.unwrap().headers().get("grpc-status"), None, "{good}");
    }
    assert_eq!(harness.intake.take().len(), 6);
}
