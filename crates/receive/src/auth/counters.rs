//! Metrics of each client.

use spanscore_net::metrics;

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

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Refused => "refused",
            Self::Limited => "limited",
        }
    }
}

metrics! {
    /// Instruments of one client; names of clients come from the config alone.
    pub(super) struct ClientMetrics {
        requests: CounterBy("spanscore.receiver.client_requests", "{request}",
            "Requests of each client", "outcome", ClientOutcome::ALL.map(ClientOutcome::name));
        received: Counter("spanscore.receiver.client_received", "By",
            "Request bodies of each client as they came in");
        items: CounterBy("spanscore.receiver.client_items", "{item}",
            "Spans, log records and data points of each client that were taken", "signal", []);
    }
}
