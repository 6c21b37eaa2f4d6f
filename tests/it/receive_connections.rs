//! Ends of connections: by this side's limits, by a breach of HTTP, by the end of the process; each
//! is counted with its reason.

use std::net::SocketAddr;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use spanscore_base::settings::HumanDuration;
use spanscore_receive::settings::OtlpReceiverSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::intake::{Harness, small_settings};
use crate::support::patience::PATIENCE;

/// The start of an HTTP/2 connection: the preface and an empty `SETTINGS` frame.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Writes to a port and reads what it answers until it closes.
async fn talk(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset ends the answer as well as an orderly end.
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

fn closed(reason: &str, transport: &str, count: u64) -> String {
    format!(
        "spanscore_receiver_closed_connections_total\
         {{reason=\"{reason}\",receiver=\"otlp\",transport=\"{transport}\"}} {count}"
    )
}

/// Payloads of the `GOAWAY` frames in an answer over HTTP/2.
fn goaways(mut answer: &[u8]) -> Vec<&[u8]> {
    let mut payloads = Vec::new();
    while let Some(([a, b, c, kind, ..], rest)) = answer.split_first_chunk::<9>() {
        let (payload, rest) = rest.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
        if *kind == 7 {
            payloads.push(payload);
        }
        answer = rest;
    }
    payloads
}

#[tokio::test]
async fn connections_without_a_whole_request_are_closed_and_counted() {
    let mut settings = small_settings();
    let soon = HumanDuration::from_millis(100);
    if let (Some(grpc), Some(http)) = (&mut settings.protocols.grpc, &mut settings.protocols.http) {
        (grpc.read_header_timeout, http.read_header_timeout) = (soon, soon);
    }
    let harness = Harness::with(settings).await;
    let whole = "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    // HEADERS of stream 1 without END_HEADERS, and no CONTINUATION.
    let open_headers = [HTTP_2, b"\0\0\x01\x01\0\0\0\0\x01\x83"].concat();
    let starts = [
        b"".to_vec(),
        b"POST /v1/tr".to_vec(),
        format!("{whole}POST /v1/tr").into_bytes(),
        b"PRI * HTTP/2.0\r\n".to_vec(),
        HTTP_2.to_vec(),
        open_headers,
    ];
    for (address, transport) in [(harness.grpc, "grpc"), (harness.http, "http")] {
        for (count, start) in (1..).zip(&starts) {
            talk(address, start).await;
            harness.counted(&closed("header_timeout", transport, count)).await;
        }
    }
}

#[tokio::test]
async fn what_is_no_http_is_answered_closed_and_counted() {
    let harness = Harness::start().await;
    for (address, transport) in [(harness.grpc, "grpc"), (harness.http, "http")] {
        let answer = talk(address, b"INVALID CONNECTION PREFACE\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
        harness.counted(&closed("protocol", transport, 1)).await;
        // A HEADERS frame of one byte more than SETTINGS_MAX_FRAME_SIZE has announced.
        let [_, a, b, c] = u32::to_be_bytes((1 << 20) + 1);
        let frame = [a, b, c, 1, 5, 0, 0, 0, 1];
        let answer = talk(address, &[HTTP_2, &frame].concat()).await;
        // Last stream 0, error FRAME_SIZE_ERROR.
        assert_eq!(goaways(&answer), [[0, 0, 0, 0, 0, 0, 0, 6]]);
        harness.counted(&closed("protocol", transport, 2)).await;
    }
}

#[tokio::test]
async fn closed_and_silent_connections_are_counted_apart() {
    let mut settings = small_settings();
    if let Some(grpc) = &mut settings.protocols.grpc {
        let server = &mut grpc.keepalive.server_parameters;
        server.time = HumanDuration::from_millis(20);
        server.timeout = HumanDuration::from_millis(20);
    }
    let harness = Harness::with(settings).await;
    let mut leaving = TcpStream::connect(harness.grpc).await.unwrap();
    leaving.write_all(HTTP_2).await.unwrap();
    drop(leaving);
    talk(harness.grpc, HTTP_2).await;
    harness.counted(&closed("ping_timeout", "grpc", 1)).await;
    let connections = "spanscore_receiver_connections{receiver=\"otlp\",transport=\"grpc\"} 0";
    harness.counted(connections).await;
    for reason in ["header_timeout", "idle", "limit", "protocol", "shutdown"] {
        harness.assert_counted(&closed(reason, "grpc", 0));
    }
}

const EMPTY_REQUEST: &[u8] = b"POST /v1/traces HTTP/1.1\r\nhost: a\r\n\
    content-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";

/// Reads the head of an answer.
async fn head_of(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[track_caller]
fn assert_told_to_come_again(head: &str) {
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    for header in ["\r\nretry-after: 1\r\n", "\r\nconnection: close\r\n"] {
        assert!(head.contains(header), "{head}");
    }
}

#[tokio::test]
async fn senders_are_told_to_come_again_while_the_process_ends() {
    let mut harness = Harness::start().await;
    let mut kept = TcpStream::connect(harness.http).await.unwrap();
    kept.write_all(EMPTY_REQUEST).await.unwrap();
    assert!(head_of(&mut kept).await.starts_with("HTTP/1.1 200 "));
    let mut client = TraceServiceClient::connect(format!("http://{}", harness.grpc)).await.unwrap();
    client.export(ExportTraceServiceRequest::default()).await.unwrap();
    harness.intake.take();

    harness.receivers.as_ref().unwrap().refuse();
    let mut fresh = TcpStream::connect(harness.http).await.unwrap();
    for stream in [&mut kept, &mut fresh] {
        stream.write_all(EMPTY_REQUEST).await.unwrap();
        assert_told_to_come_again(&head_of(stream).await);
    }
    for _ in 0..2 {
        let status = client.export(ExportTraceServiceRequest::default()).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert!(status.metadata().contains_key("google.rpc.retryinfo-bin"), "{status:?}");
    }
    assert_eq!(harness.intake.take(), []);
    assert!(harness.drain(PATIENCE).await);
    assert!(TcpStream::connect(harness.http).await.is_err());
}

#[tokio::test]
async fn a_request_that_is_taken_is_waited_for_and_one_that_does_not_end_is_answered() {
    let long = HumanDuration(PATIENCE);
    let harness =
        Harness::with(OtlpReceiverSettings { read_timeout: long, ..small_settings() }).await;
    harness.intake.gate.forget_permits(usize::MAX);
    let mut taken = TcpStream::connect(harness.http).await.unwrap();
    taken.write_all(EMPTY_REQUEST).await.unwrap();
    while harness.intake.seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut unfinished = TcpStream::connect(harness.http).await.unwrap();
    let start = b"POST /v1/traces HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\
        content-type: application/x-protobuf\r\ncontent-length: 10\r\n\r\n";
    unfinished.write_all(start).await.unwrap();
    // Only who reads a body asks for it.
    assert!(head_of(&mut unfinished).await.starts_with("HTTP/1.1 100 "));
    unfinished.write_all(b"abc").await.unwrap();
    let soon = tokio::time::sleep(Duration::from_millis(50));
    assert!(!harness.receivers.as_ref().unwrap().settle(soon).await);
    assert_told_to_come_again(&head_of(&mut unfinished).await);
    harness.intake.gate.add_permits(1);
    assert!(head_of(&mut taken).await.starts_with("HTTP/1.1 200 "));
    assert!(harness.receivers.as_ref().unwrap().settle(std::future::pending()).await);
}

#[tokio::test]
async fn bodies_that_come_slowly_keep_nobody_else_out() {
    let mut harness = Harness::with(OtlpReceiverSettings {
        max_concurrent_requests: 4,
        max_connections: 100,
        wait_for_room: HumanDuration::from_millis(1),
        read_timeout: HumanDuration(PATIENCE),
        ..small_settings()
    })
    .await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(harness.http).await.unwrap();
        let head = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n\
                    Content-Length: 100\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        // It is told to go on, so its request is being read.
        assert!(head_of(&mut stream).await.contains("100 Continue"));
        slow.push(stream);
    }
    let mut client = TraceServiceClient::connect(format!("http://{}", harness.grpc)).await.unwrap();
    let answer = client.export(ExportTraceServiceRequest::default()).await;
    assert!(answer.is_ok(), "{answer:?}");
    drop(slow);
    assert!(harness.drain(PATIENCE).await);
}
