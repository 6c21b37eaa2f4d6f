//! What HTTP/2 and gRPC ask of a server beyond OTLP, as clients that misbehave meet it.

use reqwest::{Client, Method};

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
