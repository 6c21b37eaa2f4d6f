//! Metrics of the gateway.

use std::sync::Arc;

use spanscore_base::otlp::Signal;
use spanscore_kafka::{BrokerState, Producer};
use spanscore_net::metrics::Meter;
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
            ["malformed", "span_without_trace_id", "too_large", "refused"]);
        refused: CounterBy("spanscore.gateway.refused_requests", "{request}",
            "Requests whose sender was told to come again, by reason.", "reason",
            ["brokers_away", "producer_full", "memory_full"]);
        write_time: Histogram("spanscore.gateway.write_time", "s",
            "Time from a request to the brokers' answer.", &WRITE_BOUNDS);
    }
}

const SIGNALS: [&str; 2] = ["traces", "logs"];

/// Returns the word for a signal in headers and labels.
pub(crate) fn word(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "traces",
        Signal::Logs => "logs",
        Signal::Metrics => "metrics",
    }
}

/// Numbers that are read of the producer at each scrape.
pub(crate) struct BrokerReadings;

readings! {
    const BROKERS: Arc<Producer> {
        gauge("spanscore.gateway.brokers_reachable", "1", "1 while the brokers take messages.",
            |producer| u64::from(matches!(producer.state(), BrokerState::Here { .. })));
        gauge("spanscore.gateway.topic_partitions", "{partition}", "Partitions of the topic.",
            |producer| match producer.state() {
                BrokerState::Here { partitions } => partitions as u64,
                _ => 0,
            });
    }
}

impl BrokerReadings {
    /// Shows them from now on.
    pub(crate) fn show(meter: &Meter, producer: &Arc<Producer>) {
        let producer = Arc::downgrade(producer);
        for reading in BROKERS {
            let producer = producer.clone();
            reading.show_all(meter, move |read| {
                if let Some(producer) = producer.upgrade() {
                    read(&producer, &[]);
                }
            });
        }
    }
}
