//! Metrics of each client.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use spanscore_base::otlp::Signal;

/// Outcome of a client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientOutcome {
    /// Accepted, or a part of it.
    Taken,
    /// Refused.
    Refused,
    /// Refused by the client's rate limits.
    Limited,
}

impl ClientOutcome {
    const ALL: [Self; 3] = [Self::Taken, Self::Refused, Self::Limited];

    fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Refused => "refused",
            Self::Limited => "limited",
        }
    }
}

/// Instruments of the clients; names of clients come from the config alone.
pub(super) struct ClientCounters {
    requests: Counter<u64>,
    received: Counter<u64>,
    items: Counter<u64>,
}

impl ClientCounters {
    pub(super) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, unit: &'static str, about: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(about).build()
        };
        Self {
            requests: counter(
                "spanscore.receiver.client_requests",
                "{request}",
                "Requests of each client",
            ),
            received: counter(
                "spanscore.receiver.client_received",
                "By",
                "Request bodies of each client as they came in",
            ),
            items: counter(
                "spanscore.receiver.client_items",
                "{item}",
                "Spans, log records and data points of each client that were taken",
            ),
        }
    }

    /// Zeroes the series of a client, so that they appear.
    pub(super) fn begin(&self, client: &str) {
        for outcome in ClientOutcome::ALL {
            self.request(client, outcome, 0);
        }
        self.received.add(0, &[label(client)]);
    }

    pub(super) fn request(&self, client: &str, outcome: ClientOutcome, count: u64) {
        self.requests.add(count, &[label(client), KeyValue::new("outcome", outcome.name())]);
    }

    pub(super) fn received(&self, client: &str, bytes: usize) {
        self.received.add(bytes as u64, &[label(client)]);
    }

    pub(super) fn items(&self, client: &str, signal: Signal, items: u64) {
        let signal = match signal {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        };
        self.items.add(items, &[label(client), KeyValue::new("signal", signal)]);
    }
}

fn label(client: &str) -> KeyValue {
    KeyValue::new("client", client.to_owned())
}
