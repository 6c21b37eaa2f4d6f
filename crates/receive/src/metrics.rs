//! Metrics of the receivers, counted once a request and never an item at a time.
//!
//! Names and labels have the shape of the Collector's (`receiver`, `transport`), each in one
//! spelling; the Prometheus form of `spanscore.receiver.accepted_spans` is
//! `spanscore_receiver_accepted_spans_total`. Counters stand at 0 from the start.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter, UpDownCounter};

use super::status::RefusalReason;
use spanscore_base::otlp::Signal;
use spanscore_net::tls::HandshakeFailure;

/// Protocol that data came in by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transport {
    Grpc,
    Http,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Grpc, Self::Http];

    fn label(self) -> KeyValue {
        KeyValue::new(
            "transport",
            match self {
                Self::Grpc => "grpc",
                Self::Http => "http",
            },
        )
    }
}

/// Reason for which this side closed a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closed {
    /// The limit on connections was reached.
    Limit,
    /// No request came in time.
    HeaderTimeout,
    /// No request came for a long time.
    Idle,
    /// A ping was not answered in time.
    PingTimeout,
    /// The bytes that came are no HTTP.
    Protocol,
    /// Too many frames without data: pings, settings, window updates.
    Flood,
    /// It held more than its part of the memory.
    Memory,
    /// It did not end in time at shutdown.
    Shutdown,
    /// Its TLS handshake failed.
    Handshake,
}

impl Closed {
    const ALL: [Self; 9] = [
        Self::Limit,
        Self::HeaderTimeout,
        Self::Idle,
        Self::PingTimeout,
        Self::Protocol,
        Self::Flood,
        Self::Memory,
        Self::Shutdown,
        Self::Handshake,
    ];

    fn label(self) -> KeyValue {
        KeyValue::new(
            "reason",
            match self {
                Self::Limit => "limit",
                Self::HeaderTimeout => "header_timeout",
                Self::Idle => "idle",
                Self::PingTimeout => "ping_timeout",
                Self::Protocol => "protocol",
                Self::Flood => "flood",
                Self::Memory => "memory",
                Self::Shutdown => "shutdown",
                Self::Handshake => "tls_handshake",
            },
        )
    }
}

/// Side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// The peer.
    Sender,
    /// This side.
    Receiver,
}

impl By {
    const ALL: [Self; 2] = [Self::Sender, Self::Receiver];

    fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

const SIGNALS: [Signal; 3] = [Signal::Traces, Signal::Logs, Signal::Metrics];

/// Reasons for refusing items whose number is known: the intake has seen them.
const ITEM_REASONS: [RefusalReason; 4] = [
    RefusalReason::Rejected,
    RefusalReason::Malformed,
    RefusalReason::Overloaded,
    RefusalReason::ShuttingDown,
];

/// Instruments of the receivers.
pub(super) struct ReceiverMetrics {
    accepted: [Counter<u64>; 3],
    refused: [Counter<u64>; 3],
    requests: Counter<u64>,
    refused_requests: Counter<u64>,
    received: Counter<u64>,
    connections: UpDownCounter<i64>,
    closed_connections: Counter<u64>,
    accept_errors: Counter<u64>,
    waits: Counter<u64>,
    held_back: Counter<u64>,
    resets: Counter<u64>,
    goaways: Counter<u64>,
    failed_handshakes: Counter<u64>,
}

impl ReceiverMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let items = |verb: &'static str, what: &str| {
            SIGNALS.map(|signal| {
                let (noun, unit, words) = match signal {
                    Signal::Traces => ("spans", "{span}", "Spans"),
                    Signal::Logs => ("log_records", "{record}", "Log records"),
                    Signal::Metrics => ("metric_points", "{point}", "Metric data points"),
                };
                counter(
                    meter,
                    format!("spanscore.receiver.{verb}_{noun}"),
                    unit,
                    format!("{words} {what}"),
                )
            })
        };
        let own = |name: &str, unit: &'static str, what: &str| {
            counter(meter, format!("spanscore.receiver.{name}"), unit, what.to_owned())
        };
        let metrics = Self {
            accepted: items("accepted", "that were taken"),
            refused: items("refused", "that were not taken, where their number is known"),
            requests: own("requests", "{request}", "Requests that were answered"),
            refused_requests: own("refused_requests", "{request}", "Requests not taken"),
            received: own("received", "By", "Request bodies as they came in"),
            connections: meter
                .i64_up_down_counter("spanscore.receiver.connections")
                .with_unit("{connection}")
                .with_description("Open connections")
                .build(),
            closed_connections: own(
                "closed_connections",
                "{connection}",
                "Connections that this side closed",
            ),
            accept_errors: own("accept_errors", "{error}", "Connections that failed to open"),
            waits: own("waits", "{request}", "Requests that waited for their turn"),
            held_back: own(
                "held_back",
                "{request}",
                "Refusals for want of room that were told later, to slow their sender down",
            ),
            resets: own("stream_resets", "{stream}", "HTTP/2 streams that were reset"),
            goaways: own("goaways", "{frame}", "HTTP/2 connections that were told to end"),
            failed_handshakes: own(
                "failed_handshakes",
                "{connection}",
                "Connections that did not come through the greeting of TLS",
            ),
        };
        metrics.start_at_zero();
        metrics
    }

    /// Zeroes all series: a counter that appears only with its first event hides that event from
    /// `rate()`.
    fn start_at_zero(&self) {
        for transport in Transport::ALL {
            let labels = labels(transport);
            for counter in &self.accepted {
                counter.add(0, &labels);
            }
            for counter in &self.refused {
                for reason in ITEM_REASONS {
                    counter.add(0, &with(&labels, "reason", reason.name()));
                }
            }
            for reason in
                RefusalReason::ALL.into_iter().filter(|reason| *reason != RefusalReason::Rejected)
            {
                self.refused_requests.add(0, &with(&labels, "reason", reason.name()));
                self.requests.add(0, &with(&labels, "code", transport.failure(reason)));
            }
            self.requests.add(0, &with(&labels, "code", transport.success()));
            self.received.add(0, &labels);
            self.connections.add(0, &labels);
            self.accept_errors.add(0, &labels);
            self.waits.add(0, &labels);
            self.held_back.add(0, &labels);
            for by in By::ALL {
                self.resets.add(0, &with(&labels, "by", by.name()));
                self.goaways.add(0, &with(&labels, "by", by.name()));
            }
            for closed in Closed::ALL {
                self.closed(transport, closed, 0);
            }
            for why in HandshakeFailure::ALL {
                self.failed_handshakes.add(0, &with(&labels, "reason", why.name()));
            }
        }
    }

    pub(super) fn accepted(&self, transport: Transport, signal: Signal, items: u64) {
        self.accepted[index(signal)].add(items, &labels(transport));
    }

    pub(super) fn refused(
        &self,
        transport: Transport,
        signal: Signal,
        why: RefusalReason,
        items: u64,
    ) {
        let labels = with(&labels(transport), "reason", why.name());
        self.refused[index(signal)].add(items, &labels);
    }

    pub(super) fn refused_request(&self, transport: Transport, why: RefusalReason) {
        self.refused_requests.add(1, &with(&labels(transport), "reason", why.name()));
    }

    pub(super) fn answered(&self, transport: Transport, code: &'static str) {
        self.requests.add(1, &with(&labels(transport), "code", code));
    }

    pub(super) fn received(&self, transport: Transport, bytes: usize) {
        self.received.add(bytes as u64, &labels(transport));
    }

    pub(super) fn connection(&self, transport: Transport, change: i64) {
        self.connections.add(change, &labels(transport));
    }

    pub(super) fn closed(&self, transport: Transport, why: Closed, connections: u64) {
        let [receiver, transport] = labels(transport);
        self.closed_connections.add(connections, &[receiver, transport, why.label()]);
    }

    /// Counts a request that waits for its turn.
    pub(super) fn waited(&self, transport: Transport) {
        self.waits.add(1, &labels(transport));
    }

    /// Counts a refusal that is held back.
    pub(super) fn held_back(&self, transport: Transport) {
        self.held_back.add(1, &labels(transport));
    }

    /// Counts an HTTP/2 stream that was reset.
    pub(super) fn reset(&self, transport: Transport, by: By) {
        self.resets.add(1, &with(&labels(transport), "by", by.name()));
    }

    /// Counts a GOAWAY, by the side that sent it.
    pub(super) fn goaway(&self, transport: Transport, by: By) {
        self.goaways.add(1, &with(&labels(transport), "by", by.name()));
    }

    /// Counts a TLS handshake that failed.
    pub(super) fn failed_handshake(&self, transport: Transport, why: HandshakeFailure) {
        self.failed_handshakes.add(1, &with(&labels(transport), "reason", why.name()));
    }

    pub(super) fn accept_error(&self, transport: Transport) {
        self.accept_errors.add(1, &labels(transport));
    }
}

impl Transport {
    /// Returns the `code` of a request that was accepted.
    pub(super) fn success(self) -> &'static str {
        match self {
            Self::Grpc => "OK",
            Self::Http => "200",
        }
    }

    /// Returns the `code` of a request that was refused.
    pub(super) fn failure(self, why: RefusalReason) -> &'static str {
        match self {
            Self::Grpc => grpc_code_name(why.grpc_code()),
            Self::Http => http_status_name(why.http_status().as_u16()),
        }
    }
}

fn grpc_code_name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        tonic::Code::InvalidArgument => "INVALID_ARGUMENT",
        tonic::Code::Unimplemented => "UNIMPLEMENTED",
        tonic::Code::Unavailable => "UNAVAILABLE",
        tonic::Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        tonic::Code::Cancelled => "CANCELLED",
        tonic::Code::Unauthenticated => "UNAUTHENTICATED",
        _ => "INTERNAL",
    }
}

fn http_status_name(status: u16) -> &'static str {
    match status {
        400 => "400",
        401 => "401",
        404 => "404",
        405 => "405",
        413 => "413",
        415 => "415",
        429 => "429",
        431 => "431",
        503 => "503",
        504 => "504",
        _ => "500",
    }
}

fn index(signal: Signal) -> usize {
    match signal {
        Signal::Traces => 0,
        Signal::Logs => 1,
        Signal::Metrics => 2,
    }
}

fn labels(transport: Transport) -> [KeyValue; 2] {
    [KeyValue::new("receiver", "otlp"), transport.label()]
}

fn with(labels: &[KeyValue; 2], key: &'static str, value: &'static str) -> [KeyValue; 3] {
    let [receiver, transport] = labels.clone();
    [receiver, transport, KeyValue::new(key, value)]
}

fn counter(meter: &Meter, name: String, unit: &'static str, what: String) -> Counter<u64> {
    meter.u64_counter(name).with_unit(unit).with_description(what).build()
}
