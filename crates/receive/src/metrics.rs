//! Metrics of the receivers, counted once per request and never per item.
//!
//! Names and labels follow the Collector's (`receiver`, `transport`), with one spelling each. The
//! Prometheus form of `spanscore.receiver.accepted_spans` is
//! `spanscore_receiver_accepted_spans_total`. Counters start at 0.

use super::status::RefusalReason;
use spanscore_base::otlp::Signal;
use spanscore_net::metrics;
use spanscore_net::metrics::{KeyValue, Meter};
use spanscore_net::tls::HandshakeFailure;
use strum::{IntoStaticStr, VariantArray};

/// Protocol of received data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum Transport {
    Grpc,
    Http,
}

/// Reason that this side closed a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum Closed {
    /// The limit on connections was reached.
    Limit,
    /// A new connection took its place while it was quiet.
    Displaced,
    /// No request came in time.
    HeaderTimeout,
    /// No request came for a long time.
    Idle,
    /// A ping was not answered in time.
    PingTimeout,
    /// The received bytes are not HTTP.
    Protocol,
    /// Too many frames without data: pings, settings, window updates.
    Flood,
    /// It exceeded its share of the memory.
    Memory,
    /// It did not end in time at shutdown.
    Shutdown,
    /// Its TLS handshake failed.
    #[strum(serialize = "tls_handshake")]
    Handshake,
}

/// Side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum By {
    /// The peer.
    Sender,
    /// This side.
    Receiver,
}

/// Reasons for refusing items in the intake, where their number is known.
const ITEM_REASONS: [RefusalReason; 6] = [
    RefusalReason::Rejected,
    RefusalReason::Malformed,
    RefusalReason::Overloaded,
    RefusalReason::StoreFull,
    RefusalReason::Away,
    RefusalReason::ShuttingDown,
];

metrics! {
    /// Accepted items of all receivers.
    pub(super) struct AcceptedMetrics {
        spans: Counter("spanscore.receiver.accepted_spans", "{span}", "Spans that were taken");
        log_records: Counter("spanscore.receiver.accepted_log_records", "{record}",
            "Log records that were taken");
        metric_points: Counter("spanscore.receiver.accepted_metric_points", "{point}",
            "Metric data points that were taken");
    }
}

metrics! {
    /// Refused items.
    struct RefusedMetrics {
        spans: CounterBy("spanscore.receiver.refused_spans", "{span}",
            "Spans that were not taken, where their number is known",
            "reason", ITEM_REASONS.map(|it| it.into_str()));
        log_records: CounterBy("spanscore.receiver.refused_log_records", "{record}",
            "Log records that were not taken, where their number is known",
            "reason", ITEM_REASONS.map(|it| it.into_str()));
        metric_points: CounterBy("spanscore.receiver.refused_metric_points", "{point}",
            "Metric data points that were not taken, where their number is known",
            "reason", ITEM_REASONS.map(|it| it.into_str()));
    }
}

metrics! {
    /// Requests and connections of one transport.
    pub(super) struct TransportMetrics {
        requests: CounterBy("spanscore.receiver.requests", "{request}",
            "Requests that were answered", "code", []);
        refused_requests: CounterBy("spanscore.receiver.refused_requests", "{request}",
            "Requests not taken", "reason", request_reasons().map(|it| it.into_str()));
        received: Counter("spanscore.receiver.received", "By", "Request bodies as they came in");
        connections: UpDownCounter("spanscore.receiver.connections", "{connection}",
            "Open connections");
        closed: CounterBy("spanscore.receiver.closed_connections", "{connection}",
            "Connections that this side closed",
            "reason", Closed::VARIANTS.iter().map(|it| it.into_str()));
        accept_errors: Counter("spanscore.receiver.accept_errors", "{error}",
            "Connections that failed to open");
        waits: Counter("spanscore.receiver.waits", "{request}",
            "Requests that waited for their turn");
        held_back: Counter("spanscore.receiver.held_back", "{request}",
            "Refusals for want of room that were told later, to slow their sender down");
        resets: CounterBy("spanscore.receiver.stream_resets", "{stream}",
            "HTTP/2 streams that were reset", "by", By::VARIANTS.iter().map(|it| it.into_str()));
        goaways: CounterBy("spanscore.receiver.goaways", "{frame}",
            "HTTP/2 connections that were told to end",
            "by", By::VARIANTS.iter().map(|it| it.into_str()));
        failed_handshakes: CounterBy("spanscore.receiver.failed_handshakes", "{connection}",
            "Connections that did not come through the greeting of TLS",
            "reason", HandshakeFailure::ALL.iter().map(|it| it.name()));
    }
}

/// Reasons for refusing a whole request, which exclude those for single items.
fn request_reasons() -> impl Iterator<Item = RefusalReason> {
    RefusalReason::VARIANTS.iter().copied().filter(|reason| *reason != RefusalReason::Rejected)
}

/// Instruments of the receivers, by transport.
pub(super) struct ReceiverMetrics([(AcceptedMetrics, RefusedMetrics, TransportMetrics); 2]);

impl ReceiverMetrics {
    pub(super) fn new(meter: &Meter) -> Self {
        let accepted = AcceptedMetrics::new(meter);
        let refused = RefusedMetrics::new(meter);
        let all = TransportMetrics::new(meter);
        Self([Transport::Grpc, Transport::Http].map(|transport| {
            let labels = labels("otlp", transport.into_str());
            let own = all.of(&labels);
            let codes = request_reasons().map(|reason| transport.failure(reason));
            codes.chain([transport.success()]).for_each(|code| own.requests.add(code, 0));
            (accepted.of(&labels), refused.of(&labels), own)
        }))
    }

    pub(super) fn of(&self, transport: Transport) -> &TransportMetrics {
        &self.0[transport as usize].2
    }

    /// Counts a refused request, answered in the form of a transport.
    pub(super) fn refused_request(&self, at: Transport, answer: Transport, why: RefusalReason) {
        self.of(at).refused_requests.add(why.into_str(), 1);
        self.of(at).requests.add(answer.failure(why), 1);
    }

    pub(super) fn accepted(&self, transport: Transport, signal: Signal, items: u64) {
        self.0[transport as usize].0.add(signal, items);
    }

    pub(super) fn refused(
        &self,
        transport: Transport,
        signal: Signal,
        why: RefusalReason,
        items: u64,
    ) {
        let RefusedMetrics { spans, log_records, metric_points } = &self.0[transport as usize].1;
        let of_signal = match signal {
            Signal::Traces => spans,
            Signal::Logs => log_records,
            Signal::Metrics => metric_points,
        };
        of_signal.add(why.into_str(), items);
    }
}

impl AcceptedMetrics {
    pub(super) fn add(&self, signal: Signal, items: u64) {
        match signal {
            Signal::Traces => self.spans.add(items),
            Signal::Logs => self.log_records.add(items),
            Signal::Metrics => self.metric_points.add(items),
        }
    }
}

/// Count of items accepted by a receiver outside of this crate.
pub struct AcceptedItems(AcceptedMetrics);

impl AcceptedItems {
    /// Shows it under the receiver's name, starting at zero.
    pub fn of(meter: &Meter, receiver: &'static str) -> Self {
        Self(AcceptedMetrics::new(meter).of(&labels(receiver, receiver)))
    }

    /// Counts accepted items.
    pub fn add(&self, signal: Signal, items: u64) {
        self.0.add(signal, items);
    }
}

/// Returns the labels of a receiver.
pub(super) fn labels(receiver: &'static str, transport: &'static str) -> [KeyValue; 2] {
    [KeyValue::new("receiver", receiver), KeyValue::new("transport", transport)]
}

impl Transport {
    /// Returns the `code` of an accepted request.
    pub(super) fn success(self) -> &'static str {
        match self {
            Self::Grpc => "OK",
            Self::Http => "200",
        }
    }

    /// Returns the `code` of a refused request.
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
