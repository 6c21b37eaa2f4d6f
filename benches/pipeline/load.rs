//! Load of encoded requests, whose texts come once each, from connections in closed loops.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::Protocol;
use super::support;

const CONNECTIONS: usize = 16;
const IN_FLIGHT: usize = 2;
/// Spans of one request: 21 traces.
const TRACES: usize = 21;
/// Processor time in `/proc/PID/stat` has this unit on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// An encoded request, of whose texts and ids no other number has any.
pub(crate) fn body(protocol: Protocol, number: u64) -> Bytes {
    let encoded = support::request(TRACES, number + 1);
    if protocol == Protocol::Http {
        return encoded.into();
    }
    let mut call = BytesMut::with_capacity(encoded.len() + 5);
    call.extend_from_slice(&[0]);
    call.extend_from_slice(&(encoded.len() as u32).to_be_bytes());
    call.extend_from_slice(&encoded);
    call.freeze()
}

struct Shared {
    protocol: Protocol,
    address: String,
    next: Cell<u64>,
    acknowledged: Cell<u64>,
    refused: Cell<u64>,
}

impl Shared {
    fn request(&self) -> Request<Full<Bytes>> {
        let number = self.next.replace(self.next.get() + 1);
        let body = body(self.protocol, number);
        let request = match self.protocol {
            Protocol::Grpc => Request::post(format!(
                "http://{}/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                self.address
            ))
            .header("content-type", "application/grpc")
            .header("te", "trailers"),
            Protocol::Http => Request::post("/v1/traces")
                .header("content-type", "application/x-protobuf")
                .header("host", &self.address),
        };
        request.body(Full::new(body)).unwrap()
    }

    async fn answered(&self, response: http::Response<hyper::body::Incoming>) {
        let is_refused = !response.status().is_success()
            || response.headers().get("grpc-status").is_some_and(|status| status != "0");
        let _ = response.into_body().collect().await;
        let counter = if is_refused { &self.refused } else { &self.acknowledged };
        counter.set(counter.get() + 1);
    }
}

/// Sends for `warmup` and `seconds` seconds; prints processor seconds of the process and spans
/// within the latter, the elapsed seconds and the process' peak memory in MB.
pub(crate) fn run(protocol: Protocol, address: &str, pid: u32, (warmup, seconds): (f64, f64)) {
    let shared = Rc::new(Shared {
        protocol,
        address: address.to_owned(),
        next: Cell::default(),
        acknowledged: Cell::default(),
        refused: Cell::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        for _ in 0..CONNECTIONS {
            connect(&shared).await;
        }
        tokio::time::sleep(Duration::from_secs_f64(warmup)).await;
        let (start, before) = (Instant::now(), shared.acknowledged.get());
        let processor = processor_seconds(pid);
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        let processor = processor_seconds(pid) - processor;
        let requests = shared.acknowledged.get() - before;
        let spans = requests * (TRACES * support::SPANS_PER_TRACE) as u64;
        let elapsed = start.elapsed().as_secs_f64();
        println!("{processor} {spans} {elapsed} {}", peak_mb(pid));
        let refused = shared.refused.get();
        assert_eq!(refused, 0, "{refused} requests were refused");
    });
}

async fn connect(shared: &Rc<Shared>) {
    let stream = || async {
        let stream = TcpStream::connect(&shared.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        TokioIo::new(stream)
    };
    match shared.protocol {
        Protocol::Grpc => {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), stream().await).await.unwrap();
            tokio::task::spawn_local(connection);
            for _ in 0..IN_FLIGHT {
                let (mut sender, shared) = (sender.clone(), Rc::clone(shared));
                tokio::task::spawn_local(async move {
                    while let Ok(response) = sender.send_request(shared.request()).await {
                        shared.answered(response).await;
                    }
                });
            }
        }
        Protocol::Http => {
            for _ in 0..IN_FLIGHT {
                let (mut sender, connection) = http1::handshake(stream().await).await.unwrap();
                tokio::task::spawn_local(connection);
                let shared = Rc::clone(shared);
                tokio::task::spawn_local(async move {
                    while sender.ready().await.is_ok() {
                        let Ok(response) = sender.send_request(shared.request()).await else {
                            return;
                        };
                        shared.answered(response).await;
                    }
                });
            }
        }
    }
}

/// User and system time of a process; 0 where the system does not tell.
fn processor_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

/// The most memory that a process had; 0 where the system does not tell.
fn peak_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or_default() / 1024.0
}
