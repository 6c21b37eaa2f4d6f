//! TLS and mutual TLS at each port: who comes through the greeting, and who does not.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use spanscore_base::settings::tls::ListenerTlsSettings;
use spanscore_base::settings::{HumanDuration, Secret};
use spanscore_net::tls::Changed;
use spanscore_receive::settings::OtlpReceiverSettings;
use spanscore_telemetry::{MetricsSettings, Telemetry, TelemetrySettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity as GrpcIdentity};

use super::pki::{Authority, Identity};
use crate::support::intake::{Harness, small_settings};
use crate::support::patience::{eventually, once};

/// The start of a handshake by somebody who speaks TLS 1.1 at most: a ClientHello without
/// extensions, of two old ciphers.
const TLS_1_1: &[u8] = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x02\
    0123456789abcdef0123456789abcdef\x00\x00\x04\x00\x2f\x00\x35\x01\x00";

fn tls(server: &Identity, client_ca: Option<&str>) -> ListenerTlsSettings {
    ListenerTlsSettings {
        cert_pem: Some(server.cert.clone()),
        key_pem: Some(Secret(server.key.clone())),
        client_ca_pem: client_ca.map(str::to_owned),
        ..ListenerTlsSettings::default()
    }
}

fn with_tls(tls: &ListenerTlsSettings) -> OtlpReceiverSettings {
    let mut settings = small_settings();
    settings.protocols.grpc.as_mut().unwrap().tls = Some(tls.clone());
    settings.protocols.http.as_mut().unwrap().tls = Some(tls.clone());
    settings
}

/// Sends nothing over HTTPS; the status.
async fn post(
    address: SocketAddr,
    authority: &str,
    identity: Option<&Identity>,
) -> Result<u16, reqwest::Error> {
    let authority = reqwest::Certificate::from_pem(authority.as_bytes()).unwrap();
    let mut client = crate::support::web_client().tls_certs_only([authority]);
    if let Some(Identity { cert, key }) = identity {
        let pem = format!("{cert}\n{key}");
        client = client.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
    }
    let url = format!("https://localhost:{}/v1/traces", address.port());
    let request = client.build().unwrap().post(url);
    let request = request.header("content-type", "application/x-protobuf");
    request.send().await.map(|answer| answer.status().as_u16())
}

/// The same over gRPC.
async fn export(
    address: SocketAddr,
    authority: &str,
    identity: Option<&Identity>,
) -> Result<(), String> {
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority))
        .domain_name("localhost");
    if let Some(Identity { cert, key }) = identity {
        tls = tls.identity(GrpcIdentity::from_pem(cert, key));
    }
    let url = format!("https://127.0.0.1:{}", address.port());
    let channel = Channel::from_shared(url).unwrap().tls_config(tls).unwrap();
    let channel = channel.connect().await.map_err(|error| error.to_string())?;
    let mut client = TraceServiceClient::new(channel);
    client
        .export(ExportTraceServiceRequest::default())
        .await
        .map(|_| ())
        .map_err(|status| status.to_string())
}

fn failed(reason: &str, transport: &str, count: u64) -> String {
    format!(
        "spanscore_receiver_failed_handshakes_total\
         {{reason=\"{reason}\",receiver=\"otlp\",transport=\"{transport}\"}} {count}"
    )
}

#[tokio::test]
async fn both_ports_speak_tls() {
    let authority = Authority::new();
    let harness = Harness::with(with_tls(&tls(&authority.server(), None))).await;
    assert_eq!(post(harness.http, &authority.pem, None).await.unwrap(), 200);
    assert_eq!(export(harness.grpc, &authority.pem, None).await, Ok(()));
    let other = Authority::new();
    assert!(post(harness.http, &other.pem, None).await.is_err(), "of another authority");
    harness.counted(&failed("refused_by_peer", "http", 1)).await;
}

#[tokio::test]
async fn plain_text_and_old_versions_are_closed_and_counted() {
    let authority = Authority::new();
    let harness = Harness::with(with_tls(&tls(&authority.server(), None))).await;
    for (address, transport) in [(harness.grpc, "grpc"), (harness.http, "http")] {
        for bytes in [&b"POST /v1/traces HTTP/1.1\r\nhost: a\r\n\r\n"[..], TLS_1_1] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.is_empty() || answer[0] == 21, "an alert, if anything: {answer:?}");
        }
        harness.counted(&failed("not_tls", transport, 1)).await;
        harness.counted(&failed("incompatible", transport, 1)).await;
    }
    assert!(harness.intake.take().is_empty());
}

#[tokio::test]
async fn a_port_of_tls_1_3_takes_no_older_one() {
    let authority = Authority::new();
    let mut settings = tls(&authority.server(), None);
    settings.min_version = spanscore_base::settings::tls::TlsVersion::V1_3;
    let harness = Harness::with(with_tls(&settings)).await;
    let older = crate::support::web_client()
        .tls_certs_only([reqwest::Certificate::from_pem(authority.pem.as_bytes()).unwrap()])
        .tls_version_max(reqwest::tls::Version::TLS_1_2);
    let url = format!("https://localhost:{}/v1/traces", harness.http.port());
    assert!(older.build().unwrap().post(url).send().await.is_err());
    harness.counted(&failed("incompatible", "http", 1)).await;
    assert_eq!(post(harness.http, &authority.pem, None).await.unwrap(), 200);
}

#[tokio::test]
async fn where_certificates_are_asked_for_only_those_of_the_authority_come_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    let settings = with_tls(&tls(&authority.server(), Some(&authority.pem)));
    let harness = Harness::with(settings).await;
    let good = authority.client("spiffe://test/good");
    assert_eq!(post(harness.http, &authority.pem, Some(&good)).await.unwrap(), 200);
    assert_eq!(export(harness.grpc, &authority.pem, Some(&good)).await, Ok(()));
    let stranger = other.client("spiffe://test/good");
    let expired = authority.expired_client();
    for (identity, reason) in [
        (None, "no_certificate"),
        (Some(&stranger), "unknown_certificate"),
        (Some(&expired), "expired_certificate"),
    ] {
        assert!(post(harness.http, &authority.pem, identity).await.is_err(), "{reason}");
        assert!(export(harness.grpc, &authority.pem, identity).await.is_err(), "{reason}");
        for transport in ["http", "grpc"] {
            let least_one = failed(reason, transport, 1);
            let name = least_one.split(' ').next().unwrap().to_owned();
            harness.counted_above_zero(&name).await;
        }
    }
}

#[tokio::test]
async fn a_greeting_that_does_not_end_is_closed_in_time() {
    let authority = Authority::new();
    let mut settings = with_tls(&tls(&authority.server(), None));
    let soon = HumanDuration::from_millis(200);
    settings.protocols.http.as_mut().unwrap().read_header_timeout = soon;
    let harness = Harness::with(settings).await;
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(harness.http).await.unwrap();
        stream.write_all(&TLS_1_1[..9]).await.unwrap();
        stalled.push(stream);
    }
    assert_eq!(post(harness.http, &authority.pem, None).await.unwrap(), 200, "others come in");
    for mut stream in stalled {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    harness.counted(&failed("timeout", "http", 50)).await;
}

#[tokio::test]
async fn certificates_change_under_load_and_no_connection_ends() {
    let (first, second) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |identity: &Identity| {
        std::fs::write(path("cert"), &identity.cert).unwrap();
        std::fs::write(path("key"), &identity.key).unwrap();
    };
    write(&first.server());
    let settings = ListenerTlsSettings {
        cert_file: Some(path("cert")),
        key_file: Some(path("key")),
        ..ListenerTlsSettings::default()
    };
    let harness = Harness::with(with_tls(&settings)).await;
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&first.pem))
        .domain_name("localhost");
    let url = format!("https://127.0.0.1:{}", harness.grpc.port());
    let channel = Channel::from_shared(url).unwrap().tls_config(tls).unwrap();
    let mut open = TraceServiceClient::new(channel.connect().await.unwrap());
    open.export(ExportTraceServiceRequest::default()).await.unwrap();
    let files = harness.receivers.as_ref().unwrap().files().to_vec();
    let reread = || files.iter().map(|file| file.reread()).collect::<Vec<_>>();
    assert!(reread().iter().all(|changed| *changed == Ok(Changed::No)));

    std::fs::write(path("key"), "broken").unwrap();
    assert_eq!(reread().iter().filter(|read| read.is_err()).count(), 2, "both ports");
    assert_eq!(export(harness.grpc, &first.pem, None).await, Ok(()), "all stays as it was");

    write(&second.server());
    assert_eq!(reread().iter().filter(|read| **read == Ok(Changed::Yes)).count(), 2);
    for _ in 0..10 {
        open.export(ExportTraceServiceRequest::default()).await.expect("the connection is open");
        assert_eq!(export(harness.grpc, &second.pem, None).await, Ok(()));
        assert_eq!(post(harness.http, &second.pem, None).await.unwrap(), 200);
    }
    assert!(export(harness.grpc, &first.pem, None).await.is_err());
}

#[tokio::test]
async fn metrics_are_shown_over_tls_to_those_who_may_see_them() {
    let authority = Authority::new();
    let metrics = MetricsSettings {
        endpoint: Some("127.0.0.1:0".to_owned()),
        tls: Some(tls(&authority.server(), Some(&authority.pem))),
        ..MetricsSettings::default()
    };
    let mut settings = TelemetrySettings { metrics, ..TelemetrySettings::default() };
    settings.health.endpoint = None;
    let telemetry = Telemetry::start(&settings).await.unwrap();
    let address = telemetry.addresses().metrics.unwrap();
    let good = authority.client("spiffe://test/prometheus");
    assert_eq!(post(address, &authority.pem, Some(&good)).await.unwrap(), 404, "POST of a path");
    assert!(post(address, &authority.pem, None).await.is_err());
    let line = "spanscore_telemetry_failed_handshakes_total{reason=\"no_certificate\"} 1";
    eventually(|| {
        let text = telemetry.exposition();
        once(text.contains(line), || format!("no {line} in\n{text}"))
    })
    .await;
}
