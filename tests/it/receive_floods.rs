//! Effects of one connection on the others: floods of frames, streams that are reset, bodies that
//! never come whole.

use std::net::SocketAddr;

use spanscore_base::model::Memory;
use spanscore_base::settings::HumanDuration;
use spanscore_receive::settings::OtlpReceiverSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::intake::{Harness, small_settings};
use crate::support::patience::PATIENCE;

/// The start of an HTTP/2 connection: the preface and an empty `SETTINGS` frame.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const EXPORT: &[u8] = b"/opentelemetry.proto.collector.trace.v1.TraceService/Export";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let head = [&[a, b, c, kind, flags][..], &stream.to_be_bytes()].concat();
    [head, payload.to_vec()].concat()
}

/// The headers of a call, none of them compressed.
fn headers() -> Vec<u8> {
    let field = |(name, value): (&[u8], &[u8])| {
        [&[0, name.len() as u8][..], name, &[value.len() as u8], value].concat()
    };
    let fields: [(&[u8], &[u8]); 6] = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", EXPORT),
        (b":authority", b"x"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ];
    fields.map(field).concat()
}

/// Writes the same again and again until the other side closes.
async fn flood(address: SocketAddr, frame: &[u8]) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    writer.write_all(HTTP_2).await.unwrap();
    let frames = frame.repeat(200);
    let write = async { while writer.write_all(&frames).await.is_ok() {} };
    let read = async {
        let mut answers = vec![0; 1 << 16];
        while reader.read(&mut answers).await.is_ok_and(|count| count > 0) {}
    };
    tokio::join!(write, read);
}

fn closed(reason: &str, transport: &str, count: u64) -> String {
    format!(
        "spanscore_receiver_closed_connections_total\
         {{reason=\"{reason}\",receiver=\"otlp\",transport=\"{transport}\"}} {count}"
    )
}

fn by(noun: &str, side: &str, count: u64) -> String {
    let labels = format!("by=\"{side}\",receiver=\"otlp\",transport=\"grpc\"");
    format!("spanscore_receiver_{noun}_total{{{labels}}} {count}")
}

#[tokio::test]
async fn floods_of_frames_without_data_end_the_connection() {
    let harness = Harness::start().await;
    let settings = [0, 3, 0, 0, 0, 100].repeat(10);
    let frames = [
        frame(6, 0, 0, b"12345678"),
        frame(4, 0, 0, &settings),
        frame(8, 0, 0, &[0, 0, 0, 1]),
        frame(2, 0, 1, &[0, 0, 0, 0, 1]),
    ];
    for (count, frame) in (1..).zip(&frames) {
        flood(harness.grpc, frame).await;
        harness.counted(&closed("flood", "grpc", count)).await;
        flood(harness.http, frame).await;
        harness.counted(&closed("flood", "http", count)).await;
    }
}

#[tokio::test]
async fn streams_that_a_sender_resets_are_counted_and_their_flood_ends_it() {
    let harness = Harness::start().await;
    let mut stream = TcpStream::connect(harness.grpc).await.unwrap();
    stream.write_all(HTTP_2).await.unwrap();
    for number in [1, 3, 5] {
        let call = [frame(1, 4, number, &headers()), frame(3, 0, number, &[0, 0, 0, 8])];
        stream.write_all(&call.concat()).await.unwrap();
    }
    harness.counted(&by("stream_resets", "sender", 3)).await;
    harness.assert_counted(&by("goaways", "receiver", 0));
    for number in (7..100_001).step_by(2) {
        let call = [frame(1, 4, number, &headers()), frame(3, 0, number, &[0, 0, 0, 8])];
        if stream.write_all(&call.concat()).await.is_err() {
            break;
        }
    }
    harness.counted(&by("goaways", "receiver", 1)).await;
    harness.counted(&closed("protocol", "grpc", 1)).await;
}

#[tokio::test]
async fn connection_with_many_bodies_that_never_come_keeps_nobody_out() {
    let turns = OtlpReceiverSettings { max_concurrent_requests: 1, ..small_settings() };
    let harness = Harness::with(turns).await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(harness.grpc).await.unwrap();
        let calls = (0..100).map(|number| {
            let number = 2 * number + 1;
            [frame(1, 4, number, &headers()), frame(0, 0, number, &[0, 0, 0, 1, 0])].concat()
        });
        stream.write_all(&[HTTP_2, &calls.collect::<Vec<_>>().concat()].concat()).await.unwrap();
        stalled.push(stream);
    }
    let web = crate::support::web_client().build().unwrap();
    let post = web.post(harness.url("/v1/traces")).header("content-type", "application/x-protobuf");
    assert_eq!(post.send().await.unwrap().status(), 200);
}

/// The status of the answer to a body of so many bytes; the connection stays.
async fn post(stream: &mut TcpStream, bytes: usize) -> String {
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {bytes}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &vec![0; bytes]].concat()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let count = stream.read_buf(&mut answer).await.unwrap();
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        if length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
            return head.split(' ').nth(1).unwrap_or_default().to_owned();
        }
    }
}

#[tokio::test]
async fn body_without_room_is_told_to_come_again_wherever_the_room_ends() {
    let memory = Memory::default();
    let read_timeout = HumanDuration(PATIENCE);
    let settings = OtlpReceiverSettings { read_timeout, ..small_settings() };
    let harness = Harness::within(settings, &memory).await;
    for room in (0..200 << 10).step_by(9 << 10) {
        let mut stream = TcpStream::connect(harness.http).await.unwrap();
        let taken = memory.requests.limit() - room;
        memory.requests.take(taken);
        for _ in 0..3 {
            assert_eq!(post(&mut stream, 400 << 10).await, "503", "room for {room} bytes");
        }
        memory.requests.give_back(taken);
        assert_eq!(post(&mut stream, 400 << 10).await, "200", "after room for {room} bytes");
    }
    harness.assert_counted(&closed("memory", "http", 0));
}
