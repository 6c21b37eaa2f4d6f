//! Metrics of the gateway.

use std::sync::Arc;

use spanscore_kafka::{BrokerState, Producer};
use spanscore_net::metrics::{Meter, Scraped};
use spanscore_net::{metrics, readings};

/// Upper bounds of the histogram of writing times, seconds.
const WRITE_BOUNDS: [f64; 11] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0];

metrics! {
    /// Instruments of the gateway.
    pub(crate) struct GatewayMetrics {
        messages: CounterBy("spanscore.gateway.messages", "{message}",
            "Messages that the brokers have, by signal.", "signal", SIGNALS);
        items: CounterBy("spanscore.gateway.items", "{item}",
            "Spans and log records that the brokers have, by signal.", "signal", SIGNALS);
        skipped: CounterBy("spanscore.gateway.skipped_items", "{item}",
            "Items that were acknowledged and not written, by reason.", "reason",
            ["log_without_trace_id", "metric"]);
        rejected: CounterBy("spanscore.gateway.rejected_items", "{item}",
            "Items that their sender was told are not taken, by reason.", "reason",
            ["malformed", "span_without_trace_id", "too_large", "multiplied", "refused"]);
        refused: CounterBy("spanscore.gateway.refused_requests", "{request}",
            "Requests whose sender was told to come again, by reason.", "reason",
            ["brokers_away", "brokers_slow", "producer_full", "memory_full"]);
        write_time: Histogram("spanscore.gateway.write_time", "s",
            "Time from a request to the brokers' answer.", &WRITE_BOUNDS);
    }
}

const SIGNALS: [&str; 2] = ["traces", "logs"];

readings! {
    /// Numbers of the producer, read at each scrape.
    const BROKERS: Arc<Producer> {
        gauge("spanscore.gateway.brokers_reachable", "", "1 while the brokers take messages.",
            |producer| u64::from(matches!(producer.state(), BrokerState::Here { .. })));
        gauge("spanscore.gateway.topic_partitions", "{partition}", "Partitions of the topic.",
            |producer| match producer.state() {
                BrokerState::Here { partitions } => partitions as u64,
                _ => 0,
            });
    }
}

/// Shows the state of the brokers.
pub(crate) fn show_brokers(meter: &Meter, producer: &Arc<Producer>) {
    let producer = Arc::downgrade(producer);
    Scraped::show_all(BROKERS, meter, move |show| {
        if let Some(producer) = producer.upgrade() {
            show(&producer, &[]);
        }
    });
}
