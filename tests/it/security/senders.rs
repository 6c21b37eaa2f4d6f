//! Right and limits of senders: tokens, certificates, limits, and the names of clients.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::metadata::MetadataValue;

use super::pki::Authority;
use crate::support::collector::{PROTOBUF, Running};
use crate::support::fake_backend::attribute;
use crate::support::intake::{Harness, small_settings};
use crate::support::spans::{request, scoped, searches};

const CLIENTS: &str = "
receivers:
  otlp:
    auth:
      tag_resources: true
      clients:
        team-a: {token: token-a}
        team-b: {token: token-b, expires: 2020-01-01}
        team-c: {token: token-c, limits: {requests_per_second: 1}}
        team-d: {token: token-d, limits: {bytes_per_second: 1000}}
traces: {quiet_period: 50ms}
evaluators: {tool_error: }
";

/// Posts the traces with a header of authorization; status and headers of the answer.
async fn post(running: &Running, token: &str) -> reqwest::Response {
    let body = request(searches(7, &[2])).encode_to_vec();
    let mut headers = vec![("content-type", PROTOBUF)];
    if !token.is_empty() {
        headers.push(("authorization", token));
    }
    running.post("/v1/traces", &headers, body).await
}

async fn export(running: &Running, token: &str) -> Result<(), tonic::Status> {
    let mut request = tonic::Request::new(request(searches(8, &[2])));
    if !token.is_empty() {
        let value = MetadataValue::try_from(token).unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    let mut client: TraceServiceClient<_> = running.connect().await;
    client.export(request).await.map(|_| ())
}

#[tokio::test]
async fn without_a_good_token_nobody_sends() {
    let running = Running::start(CLIENTS).await;
    for (token, reason) in [
        ("", "token_missing"),
        ("Basic dXNlcg==", "token_missing"),
        ("Bearer wrong", "token_unknown"),
        ("Bearer token-b", "token_expired"),
    ] {
        let answer = post(&running, token).await;
        assert_eq!(answer.status(), 401, "{token}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        let status = export(&running, token).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{token}");
        assert!(!status.message().contains("wrong"), "{}", status.message());
        for transport in ["grpc", "http"] {
            let count = if reason == "token_missing" && token.starts_with("Basic") { 2 } else { 1 };
            let series = format!(
                "spanscore_receiver_refused_requests_total\
                 {{reason=\"{reason}\",receiver=\"otlp\",transport=\"{transport}\"}}"
            );
            running.counted(&series, count).await;
        }
    }
    assert_eq!(running.judged().await.len(), 0, "nothing was taken");
}

#[tokio::test]
async fn what_a_client_sends_carries_its_name_and_no_forged_one() {
    let running = Running::start(CLIENTS).await;
    let mut forged = request(searches(7, &[2]));
    let name = crate::support::spans::text("spanscore.client", "team-z");
    forged.resource_spans[0].resource.as_mut().unwrap().attributes.push(name);
    forged.resource_spans.push(scoped("other", "desk", searches(9, &[3])));
    let headers = [("content-type", PROTOBUF), ("authorization", "Bearer token-a")];
    let answer = running.post("/v1/traces", &headers, forged.encode_to_vec()).await;
    assert_eq!(answer.status(), 200);
    running.events(2).await;
    for resource in running.backend.log_resources() {
        let found = attribute(&resource, "spanscore.client");
        assert_eq!(found, Some(&Value::StringValue("team-a".to_owned())));
        let names = resource.iter().filter(|it| it.key == "spanscore.client");
        assert_eq!(names.count(), 1);
        assert!(attribute(&resource, "host.name").is_some(), "all else stays");
    }
    let taken = "spanscore_receiver_client_requests_total{client=\"team-a\",outcome=\"taken\"}";
    running.counted(taken, 1).await;
    let items = "spanscore_receiver_client_items_total{client=\"team-a\",signal=\"traces\"}";
    running.counted(items, 4).await;
}

#[tokio::test]
async fn a_client_that_sends_too_much_hears_when_to_come_again() {
    let running = Running::start(CLIENTS).await;
    assert_eq!(post(&running, "Bearer token-c").await.status(), 200);
    let mut refused = post(&running, "Bearer token-c").await;
    while refused.status() == 200 {
        // The machine took a second for one request.
        refused = post(&running, "Bearer token-c").await;
    }
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(post(&running, "Bearer token-a").await.status(), 200, "others go on");
    let status = loop {
        if let Err(status) = export(&running, "Bearer token-c").await {
            break status;
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.metadata().get_bin("google.rpc.retryinfo-bin").is_some());
}

/// The bytes of a body that a client breaks off have come all the same.
#[tokio::test]
async fn a_client_pays_for_the_bytes_of_a_body_that_it_breaks_off() {
    let running = Running::start(CLIENTS).await;
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: {PROTOBUF}\r\n\
         authorization: Bearer token-d\r\ncontent-length: 100000\r\n\r\n"
    );
    let mut broken_off = TcpStream::connect(running.http).await.unwrap();
    broken_off.write_all(head.as_bytes()).await.unwrap();
    broken_off.write_all(&[0; 60_000]).await.unwrap();
    drop(broken_off);
    let received = "spanscore_receiver_client_received_bytes_total{client=\"team-d\"}";
    running.counted(received, 60_000).await;
    let refused = post(&running, "Bearer token-d").await;
    assert_eq!(refused.status(), 429);
    assert!(refused.text().await.unwrap().contains("bytes_per_second"));
    assert_eq!(post(&running, "Bearer token-a").await.status(), 200, "others go on");
}

#[tokio::test]
async fn a_name_in_a_certificate_is_a_clients() {
    let authority = Authority::new();
    let (server, known) = (authority.server(), authority.client("spiffe://test/team-d"));
    let mut settings = small_settings();
    let tls = spanscore_base::settings::tls::ListenerTlsSettings {
        cert_pem: Some(server.cert),
        key_pem: Some(spanscore_base::settings::Secret(server.key)),
        client_ca_pem: Some(authority.pem.clone()),
        ..Default::default()
    };
    settings.protocols.http.as_mut().unwrap().tls = Some(tls);
    let client = spanscore_receive::settings::KnownClientSettings {
        certificate: Some("spiffe://test/team-d".to_owned()),
        ..Default::default()
    };
    let clients = [("team-d".to_owned(), client)].into();
    let auth = spanscore_receive::settings::AuthSettings { clients, ..Default::default() };
    settings.auth = Some(auth);
    let harness = Harness::with(settings).await;
    let stranger = authority.client("spiffe://test/team-e");
    for (identity, status) in [(&known, 200), (&stranger, 401)] {
        let pem = format!("{}\n{}", identity.cert, identity.key);
        let ca = reqwest::Certificate::from_pem(authority.pem.as_bytes()).unwrap();
        let client = crate::support::web_client()
            .tls_certs_only([ca])
            .identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
        let url = format!("https://localhost:{}/v1/traces", harness.http.port());
        let request = client.build().unwrap().post(url).header("content-type", PROTOBUF);
        let body = ExportTraceServiceRequest::default().encode_to_vec();
        assert_eq!(request.body(body).send().await.unwrap().status(), status);
    }
    harness.assert_counted(
        "spanscore_receiver_client_requests_total{client=\"team-d\",outcome=\"taken\"} 1",
    );
}
