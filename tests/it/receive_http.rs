//! OTLP/HTTP as real clients meet it.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use reqwest::{Method, Response};
use spanscore_base::model::Memory;
use spanscore_base::otlp::Signal;
use spanscore_base::settings::HumanDuration;
use spanscore_receive::settings::{HttpSettings, OtlpReceiverSettings, ReceiversSettings};
use spanscore_receive::{Accepted, Lack, Receivers, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::intake::{Harness, small_settings};
use crate::support::patience::PATIENCE;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
/// A request with one empty `ResourceSpans`.
const REQUEST: &[u8] = b"\x0a\x00";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(content, 1).unwrap()
}

async fn post(
    harness: &Harness,
    path: &str,
    kind: &str,
    encoding: Option<&str>,
    body: impl Into<reqwest::Body>,
) -> Response {
    let request = crate::support::web_client()
        .build()
        .unwrap()
        .post(harness.url(path))
        .header("content-type", kind)
        .body(body);
    let request = match encoding {
        Some(encoding) => request.header("content-encoding", encoding),
        None => request,
    };
    request.send().await.unwrap()
}

#[tokio::test]
async fn protobuf_reaches_the_intake_unchanged() {
    let harness = Harness::start().await;
    for (path, signal) in [
        ("/v1/traces", Signal::Traces),
        ("/api/public/otel/v1/traces", Signal::Traces),
        ("/v1/traces/", Signal::Traces),
        ("/v1/logs", Signal::Logs),
        ("/v1/metrics?x=1", Signal::Metrics),
    ] {
        for (encoding, body) in [
            (None, REQUEST.to_vec()),
            (Some("identity"), REQUEST.to_vec()),
            (Some("GZIP"), gzip(REQUEST)),
            (Some("zstd"), zstd(REQUEST)),
            (Some("deflate"), deflate(REQUEST)),
        ] {
            let response = post(&harness, path, PROTOBUF, encoding, body).await;
            assert_eq!(response.status(), 200, "{path} {encoding:?}");
            assert_eq!(response.headers()["content-type"], PROTOBUF);
            assert!(response.bytes().await.unwrap().is_empty());
            assert_eq!(harness.intake.take(), [(signal, REQUEST.into())]);
        }
    }
    harness.assert_counted(
        "spanscore_receiver_accepted_log_records_total{receiver=\"otlp\",transport=\"http\"} 5",
    );
}

#[tokio::test]
async fn bodies_of_many_frames_arrive_whole_over_both_versions_of_http() {
    let harness = Harness::start().await;
    let body: Vec<u8> = (0..900_000u32).map(|index| index as u8).collect();
    let h2 = crate::support::web_client().http2_prior_knowledge().build().unwrap();
    for client in [crate::support::web_client().build().unwrap(), h2] {
        let request = client.post(harness.url("/v1/traces")).header("content-type", PROTOBUF);
        assert_eq!(request.body(body.clone()).send().await.unwrap().status(), 200);
        assert_eq!(harness.intake.take()[0].1, body);
    }
}

#[tokio::test]
async fn paths_of_the_settings_are_added_to_or_replaced() {
    let mut settings = small_settings();
    let http = r#"{"endpoint": "127.0.0.1:0",
        "traces_url_path": ["/v1/traces", "/api/v1/public/traces"],
        "logs_url_path": "/logs"}"#;
    settings.protocols.http = Some(serde_json::from_str(http).unwrap());
    let harness = Harness::with(settings).await;
    for (path, expected) in [
        ("/v1/traces", 200),
        ("/api/v1/public/traces", 200),
        ("/other/api/v1/public/traces", 200),
        ("/api/v1/public/trace", 404),
        ("/logs", 200),
        ("/v1/log", 404),
        ("/v1/metrics", 200),
    ] {
        let response = post(&harness, path, JSON, None, "{}").await;
        assert_eq!(response.status(), expected, "{path}");
        if expected == 404 {
            let text = response.text().await.unwrap();
            assert!(text.contains("/v1/traces, /api/v1/public/traces, /logs"), "{text}");
        }
    }
    for wrong in [r#"[]"#, r#""v1/traces""#, r#"["/a", "b"]"#, "3"] {
        let text = format!(r#"{{"traces_url_path": {wrong}}}"#);
        assert!(serde_json::from_str::<HttpSettings>(&text).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn an_empty_body_is_an_empty_request() {
    let harness = Harness::start().await;
    assert_eq!(post(&harness, "/v1/traces", PROTOBUF, None, "").await.status(), 200);
    assert_eq!(harness.intake.take(), [(Signal::Traces, "".into())]);
}

#[tokio::test]
async fn json_reaches_the_intake_as_protobuf_and_is_answered_in_json() {
    let harness = Harness::start().await;
    let text = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}]}]}]}"#;
    let kind = "Application/JSON; charset=utf-8";
    for (encoding, body) in
        [(None, text.as_bytes().to_vec()), (Some("gzip"), gzip(text.as_bytes()))]
    {
        let response = post(&harness, "/v1/traces", kind, encoding, body).await;
        assert_eq!(response.headers()["content-type"], JSON);
        assert_eq!(response.text().await.unwrap(), "{}");
        let request = ExportTraceServiceRequest::decode(harness.intake.take().remove(0).1).unwrap();
        assert_eq!(request.resource_spans[0].scope_spans[0].spans[0].name, "a");
    }
    let message = "bad ids".to_owned();
    harness.intake.answer(Ok(Accepted { accepted: 1, rejected: 2, message }));
    let response = post(&harness, "/v1/traces", JSON, None, text).await;
    let expected = r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"bad ids"}}"#;
    assert_eq!(response.text().await.unwrap(), expected);
}

#[tokio::test]
async fn bad_requests_have_their_status() {
    let harness = Harness::start().await;
    let big = vec![0; (1 << 20) + 1];
    let traces = "/v1/traces";
    for (what, path, kind, encoding, body, expected) in [
        ("unknown path", "/v1/trace", PROTOBUF, None, vec![], 404),
        ("wrong content type", traces, "text/plain", None, vec![], 415),
        ("unknown encoding", traces, PROTOBUF, Some("br"), vec![], 415),
        ("compressed twice", traces, PROTOBUF, Some("gzip, gzip"), vec![], 415),
        ("bad gzip", traces, PROTOBUF, Some("gzip"), vec![1, 2, 3], 400),
        ("cut gzip", traces, PROTOBUF, Some("gzip"), gzip(&[7; 999])[..20].to_vec(), 400),
        ("bad zstd", traces, PROTOBUF, Some("zstd"), vec![1, 2, 3], 400),
        ("too large", traces, PROTOBUF, None, big.clone(), 413),
        ("too large when unpacked", traces, PROTOBUF, Some("gzip"), gzip(&big), 413),
        ("a zstd bomb", traces, JSON, Some("zstd"), zstd(&big), 413),
        ("empty JSON", traces, JSON, None, vec![], 400),
        ("no JSON", traces, JSON, None, b"{]".to_vec(), 400),
        ("garbage after JSON", traces, JSON, None, b"{} {}".to_vec(), 400),
        ("JSON that is not UTF-8", traces, JSON, None, b"{\"\xff\": 1}".to_vec(), 400),
    ] {
        let response = post(&harness, path, kind, encoding, body).await;
        assert_eq!(response.status(), expected, "{what}");
        let answered = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!(answered, if kind == PROTOBUF { PROTOBUF } else { JSON }, "{what}");
        let body = response.bytes().await.unwrap();
        if answered == JSON {
            assert!(body.starts_with(b"{\"code\":"), "{what}: {body:?}");
        } else {
            assert_eq!(tonic_status_code(&body), expected_code(expected), "{what}");
        }
    }
    assert_eq!(harness.intake.take(), []);
}

/// The code of an encoded `google.rpc.Status`.
fn tonic_status_code(body: &[u8]) -> u8 {
    assert_eq!(body[0], 0x08);
    body[1]
}

fn expected_code(status: u16) -> u8 {
    match status {
        413 => 8,
        404 | 415 => 12,
        _ => 3,
    }
}

/// 300 MiB of zeros, in parts, since unoptimized compressors are slow.
const BOMB_PARTS: usize = 300;

#[tokio::test]
async fn bombs_are_refused_at_the_limit_or_by_what_they_declare() {
    let harness = Harness::start().await;
    let zeros = vec![0; 1 << 20];
    // Too random to be compressed, so that the size that it declares is possible.
    let mut state = 1u32;
    let mut noise = vec![0; 400_000];
    noise.fill_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    noise = gzip(&noise);
    let len = noise.len();
    noise[len - 4..].copy_from_slice(&(300u32 << 20).to_le_bytes());
    for (what, encoding, body) in [
        ("gzip", "gzip", gzip(&zeros).repeat(BOMB_PARTS)),
        ("zstd", "zstd", zstd(&zeros).repeat(BOMB_PARTS)),
        ("gzip, declared", "gzip", noise),
        ("deflate", "deflate", deflate(&zeros.repeat(4))),
    ] {
        let start = tokio::time::Instant::now();
        let response = post(&harness, "/v1/traces", PROTOBUF, Some(encoding), body).await;
        assert_eq!(response.status(), 413, "{what}");
        assert!(start.elapsed() < PATIENCE, "{what}");
    }
}

#[tokio::test]
async fn answers_carry_the_headers_of_their_status() {
    let harness = Harness::start().await;
    let get = crate::support::web_client()
        .build()
        .unwrap()
        .request(Method::GET, harness.url("/v1/traces"))
        .send()
        .await
        .unwrap();
    assert_eq!((get.status().as_u16(), &get.headers()["allow"]), (405, &"POST".parse().unwrap()));
    let unknown = post(&harness, "/v1/traces", JSON, Some("br"), "").await;
    assert_eq!(unknown.headers()["accept-encoding"], "gzip, zstd, deflate");
    for (refused, seconds) in [
        (Refused::Later { lack: Lack::Room, retry_after: Duration::from_millis(300) }, "1"),
        (Refused::Later { lack: Lack::Room, retry_after: Duration::from_millis(1300) }, "2"),
        (Refused::ShuttingDown, "1"),
    ] {
        harness.intake.answer(Err(refused));
        let response = post(&harness, "/v1/traces", PROTOBUF, None, REQUEST).await;
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], seconds);
    }
    harness.intake.answer(Err(Refused::Malformed("bad \u{1} text".to_owned())));
    let response = post(&harness, "/v1/traces", JSON, None, "{}").await;
    assert_eq!(response.status(), 400);
    assert_eq!(response.text().await.unwrap(), r#"{"code":3,"message":"bad \u0001 text"}"#);
}

/// Writes to a port and reads what it answers until it closes.
async fn talk(address: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A reset ends the answer as well as an orderly end.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn slow_senders_are_cut_off() {
    let mut settings = small_settings();
    let soon = HumanDuration::from_millis(100);
    if let (Some(grpc), Some(http)) = (&mut settings.protocols.grpc, &mut settings.protocols.http) {
        (grpc.read_header_timeout, http.read_header_timeout) = (soon, soon);
    }
    let harness = Harness::with(settings).await;
    let slow_body = "POST /v1/traces HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                     content-type: application/x-protobuf\r\ncontent-length: 10\r\n\r\n123";
    assert!(talk(harness.http, slow_body).await.starts_with("HTTP/1.1 503"));
    for address in [harness.grpc, harness.http] {
        for start in ["", "POST /v1/tr", "PRI * HTTP/2.0\r\n"] {
            talk(address, start).await;
        }
    }
    harness.assert_counted(
        "spanscore_receiver_refused_requests_total\
         {reason=\"timeout\",receiver=\"otlp\",transport=\"http\"} 1",
    );
}

#[tokio::test]
async fn one_connection_past_the_limit_is_closed() {
    let harness =
        Harness::with(OtlpReceiverSettings { max_connections: 1, ..small_settings() }).await;
    let mut first = TcpStream::connect(harness.http).await.unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
                Content-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    first.write_all(head.as_bytes()).await.unwrap();
    // It has a request, so it keeps its place.
    let mut told = [0; 12];
    first.read_exact(&mut told).await.unwrap();
    assert_eq!(&told, b"HTTP/1.1 100");
    assert_eq!(talk(harness.http, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await, "");
    harness.assert_counted(
        "spanscore_receiver_closed_connections_total\
         {reason=\"limit\",receiver=\"otlp\",transport=\"http\"} 1",
    );
    drop(first);
}

#[tokio::test]
async fn a_sender_at_the_wrong_port_is_told_so() {
    let harness = Harness::start().await;
    let url = format!("http://{}/v1/traces", harness.grpc);
    let response = crate::support::web_client()
        .build()
        .unwrap()
        .post(url)
        .header("content-type", PROTOBUF)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 415);
    assert!(response.text().await.unwrap().contains("protocols.http.endpoint"));
    let h2 = crate::support::web_client().http2_prior_knowledge().build().unwrap();
    let call = h2.post(harness.url("/a.B/C")).header("content-type", "application/grpc");
    let response = call.send().await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
    let message = response.headers()["grpc-message"].to_str().unwrap();
    assert!(message.contains("protocols.grpc.endpoint"), "{message}");
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_the_setting() {
    let harness = Harness::start().await;
    let mut otlp = small_settings();
    if let Some(grpc) = &mut otlp.protocols.grpc {
        grpc.endpoint = harness.grpc.to_string();
    }
    let settings = ReceiversSettings { otlp: Some(otlp), ..ReceiversSettings::default() };
    let intake = std::sync::Arc::clone(&harness.intake);
    let started =
        Receivers::start(&settings, intake, &Memory::default(), &harness.telemetry.meter()).await;
    let error = started.err().unwrap().to_string();
    assert!(error.contains("receivers.otlp.protocols.grpc.endpoint"), "{error}");
    assert!(error.contains("another collector"), "{error}");
}

#[tokio::test]
async fn panic_fails_one_request_and_is_counted() {
    let harness = Harness::start().await;
    // The intake panics where its gate is closed.
    harness.intake.gate.close();
    let answer = post(&harness, "/v1/traces", PROTOBUF, None, Vec::new()).await;
    assert_eq!(answer.status(), 500);
    assert_eq!(tonic_status_code(&answer.bytes().await.unwrap()), 13);
    let counted = "spanscore_receiver_refused_requests_total\
                   {reason=\"fault\",receiver=\"otlp\",transport=\"http\"} 1";
    assert!(harness.telemetry.exposition().contains(counted));
}
