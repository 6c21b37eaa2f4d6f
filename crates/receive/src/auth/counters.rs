//! Metrics of each client.

use strum::{IntoStaticStr, VariantArray};

use spanscore_net::metrics;

/// Outcome of a client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum ClientOutcome {
    /// Accepted, at least in part.
    Taken,
    /// Refused.
    Refused,
    /// Refused by the client's rate limits.
    Limited,
}

metrics! {
    /// Instruments of one client; client names come only from the config.
    pub(super) struct ClientMetrics {
        requests: CounterBy("spanscore.receiver.client_requests", "{request}",
            "Requests of each client", "outcome",
            ClientOutcome::VARIANTS.iter().map(|it| it.into_str()));
        received: Counter("spanscore.receiver.client_received", "By",
            "Request bodies of each client as they came in");
        items: CounterBy("spanscore.receiver.client_items", "{item}",
            "Spans, log records and data points of each client that were taken", "signal", []);
    }
}
