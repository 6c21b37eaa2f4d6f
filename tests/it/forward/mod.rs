//! Forwarding of requests: byte by byte, counted, and never in the way of the receivers.

mod chosen;
mod identity;
mod log;
mod shares;
mod trouble;

use std::collections::BTreeMap;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;
use spanscore_base::otlp::Signal;
use spanscore_net::client::{Client, ClientSettings, Compression, Protocol, TlsSettings};

use crate::support::collector::Running;
use crate::support::patience::{PATIENCE, eventually, once};
use crate::support::raw_backend::RawBackend;

/// A client that sends encoded requests as they are.
fn client(running: &Running, protocol: Protocol, compression: Compression) -> Client {
    let address = if protocol == Protocol::Grpc { running.grpc } else { running.http };
    let settings = ClientSettings {
        protocol,
        endpoint: format!("http://{address}").into(),
        headers: Default::default(),
        compression,
        timeout: PATIENCE,
        tls: TlsSettings::default(),
    };
    Client::new(&settings).unwrap()
}

/// Sends an encoded request, and expects it to be taken.
async fn send(client: &Client, signal: Signal, request: &[u8]) {
    let body = client.prepare(Bytes::copy_from_slice(request));
    client.send(signal, body).await.unwrap();
}

/// A config that forwards to these backends: its name, more settings, and where it is.
fn forwards(backends: &[(&str, &str, &RawBackend)]) -> String {
    let entries = backends.iter().map(|(name, more, backend)| {
        format!("  {name}: {{endpoint: 'http://{}', {more}}}\n", backend.address)
    });
    format!("forward:\n{}", entries.collect::<String>())
}

/// The counters and gauges of a forward, over all signals and reasons.
pub(crate) fn books(text: &str, forward: &str) -> BTreeMap<String, u64> {
    let own = format!("forward=\"{forward}\"");
    let mut books = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains(&own)) {
        let Some(rest) = line.strip_prefix("spanscore_forward_") else { continue };
        let (name, rest) = rest.split_once('{').unwrap();
        let value: f64 = rest.rsplit(' ').next().unwrap().parse().unwrap();
        let name = name.trim_end_matches("_total").to_owned();
        *books.entry(name).or_default() += value as u64;
    }
    books
}

/// Says that all that a forward accepted is where its books say.
fn is_balanced(books: &BTreeMap<String, u64>) -> bool {
    let sum = |names: &[&str]| names.iter().map(|name| books[*name]).sum::<u64>();
    let items = ["sent", "failed", "dropped", "unchosen"].map(|name| format!("{name}_items"));
    let items: Vec<_> =
        items.iter().map(String::as_str).chain(["held_items", "queued_items"]).collect();
    let requests = ["sent_requests", "failed_requests", "queued_requests"];
    books["accepted_items"] == sum(&items) && books["enqueued_requests"] == sum(&requests)
}

/// The books of a forward once they balance and are as wanted: some are read while a request is on
/// its way from one place to another.
async fn books_once(
    running: &Running,
    forward: &str,
    is_so: impl Fn(&BTreeMap<String, u64>) -> bool,
) -> BTreeMap<String, u64> {
    eventually(|| {
        let books = books(&running.exposition(), forward);
        once(is_balanced(&books) && is_so(&books), || format!("{books:?}")).map(|()| books)
    })
    .await
}

/// The books of a forward once all that it accepted is where they say.
pub(crate) async fn balanced(running: &Running, forward: &str) -> BTreeMap<String, u64> {
    books_once(running, forward, |_| true).await
}

/// The same once it has nothing under way.
pub(crate) async fn settled(running: &Running, forward: &str) -> BTreeMap<String, u64> {
    books_once(running, forward, |books| books["queued_requests"] + books["held_items"] == 0).await
}

/// A request with a log record of each of these traces.
fn logs(traces: &[u8]) -> Vec<u8> {
    let record = |trace: &u8| LogRecord {
        trace_id: if *trace == 0 { Vec::new() } else { vec![*trace; 16] },
        severity_text: "info".to_owned(),
        ..LogRecord::default()
    };
    let log_records = traces.iter().map(record).collect();
    let scope = ScopeLogs { log_records, ..ScopeLogs::default() };
    let resource = ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![resource] }.encode_to_vec()
}
