//! Gauges of exporters, read at each collection of metrics.
//!
//! A reload adds, changes and removes exporters, but instruments are permanent. So each instrument
//! reads all present exporters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::otlp::CircuitGate;
use crate::queue::{Held, Overflow};
use spanscore_net::metrics::{KeyValue, Meter, Scraped, label};
use spanscore_net::readings;

/// Present exporters, each with its source of readings.
pub(crate) struct LiveSources<S>(Arc<Mutex<Vec<(KeyValue, S)>>>);

impl<S: Send + 'static> LiveSources<S> {
    /// Registers instruments for the readings, without exporters yet.
    fn shown(meter: &Meter, readings: &[Scraped<S>]) -> Self {
        let own = Self(Arc::default());
        let all = Arc::clone(&own.0);
        Scraped::show_all(readings, meter, move |see| {
            let all = all.lock();
            all.iter().for_each(|(exporter, source)| see(source, std::slice::from_ref(exporter)));
        });
        own
    }

    /// Adds or replaces the source of an exporter.
    pub(crate) fn watch(&self, exporter: &str, source: S) {
        let exporter = label("exporter", exporter);
        let mut all = self.0.lock();
        all.retain(|(known, _)| *known != exporter);
        all.push((exporter, source));
    }

    fn forget(&self, exporter: &str) {
        self.0.lock().retain(|(known, _)| known.value.as_str() != exporter);
    }
}

/// Content of a queue, and its capacity in bytes.
type QueueSource = (Arc<Held>, usize);
/// Overflow on disk, if any; weak, so that a gauge does not keep a log open.
type OverflowSource = Option<Weak<Overflow>>;

/// Gauges of all exporters.
pub(crate) struct LiveGauges {
    pub(crate) queues: LiveSources<QueueSource>,
    pub(crate) overflows: LiveSources<OverflowSource>,
    pub(crate) circuits: LiveSources<Arc<CircuitGate>>,
    /// Numbers of cut names of services and agents.
    pub(crate) cut: LiveSources<Arc<AtomicU64>>,
}

impl LiveGauges {
    pub(super) fn new(meter: &Meter) -> Self {
        Self {
            queues: LiveSources::shown(meter, QUEUES),
            overflows: LiveSources::shown(meter, OVERFLOWS),
            circuits: LiveSources::shown(meter, CIRCUITS),
            cut: LiveSources::shown(meter, CUT),
        }
    }

    /// Removes the gauges of an exporter; its counters stay.
    pub(crate) fn forget(&self, exporter: &str) {
        self.queues.forget(exporter);
        self.overflows.forget(exporter);
        self.circuits.forget(exporter);
        self.cut.forget(exporter);
    }
}

readings! {
    const QUEUES: QueueSource {
        gauge("spanscore.exporter.log_held", "By",
            "Bytes of the log that its evaluations need, a request for each of its parts.",
            |(held, _)| held.claimed());
        gauge("spanscore.exporter.queue_size", "By",
            "Bytes held for an exporter, waiting and on their way.",
            |(held, _)| held.bytes() as u64);
        gauge("spanscore.exporter.queued_evaluations", "{evaluation}",
            "Evaluations held for an exporter in memory, waiting and on their way.",
            |(held, _)| held.evaluations());
        gauge("spanscore.exporter.queue_capacity", "By",
            "Most bytes held for an exporter.", |(_, capacity)| *capacity as u64);
    }
}

readings! {
    const OVERFLOWS: OverflowSource {
        gauge("spanscore.exporter.overflow_size", "By",
            "Bytes kept on disk for an exporter whose queue was full.",
            |source| of_overflow(source, Overflow::bytes));
        gauge("spanscore.exporter.overflow_capacity", "By",
            "Most bytes kept on disk for an exporter whose queue was full.",
            |source| of_overflow(source, Overflow::bytes_max));
        gauge("spanscore.exporter.overflow_evaluations", "{evaluation}",
            "Evaluations kept on disk for an exporter whose queue was full.",
            |source| of_overflow(source, Overflow::evaluations));
    }
}

fn of_overflow(source: &OverflowSource, read: fn(&Overflow) -> u64) -> u64 {
    source.as_ref().and_then(Weak::upgrade).map_or(0, |overflow| read(&overflow))
}

readings! {
    const CIRCUITS: Arc<CircuitGate> {
        gauge("spanscore.exporter.circuit_state", "",
            "State of the circuit breaker: 0 closed (the backend takes requests), 1 half open (a \
             probe is on its way), 2 open (it does not take them).",
            |circuit| circuit.state_number());
        gauge("spanscore.exporter.time_since_taken", "s",
            "Time since the backend last took a request, or since the start where it took none.",
            |circuit| circuit.since_taken().as_secs());
    }
}

readings! {
    const CUT: Arc<AtomicU64> {
        sum("spanscore.exporter.cut_labels", "{label}",
            "Names of services and agents that were cut to be labels.",
            |cut| cut.load(Ordering::Relaxed));
    }
}
