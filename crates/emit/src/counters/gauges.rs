//! Observable gauges of exporters, read whenever metrics are.
//!
//! An exporter may come, change and go while the process runs, an instrument may not: so there is
//! one instrument for each name, which reads all present exporters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

/// Callback that reads a number of one exporter.
type ReadNumber = Box<dyn Fn() -> u64 + Send + Sync>;

/// Callbacks of one instrument, by exporter.
#[derive(Clone, Default)]
struct Readers(Arc<Mutex<Vec<(KeyValue, ReadNumber)>>>);

impl Readers {
    fn lock(&self) -> MutexGuard<'_, Vec<(KeyValue, ReadNumber)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each(&self, mut see: impl FnMut(u64, &KeyValue)) {
        self.lock().iter().for_each(|(exporter, read)| see(read(), exporter));
    }
}

/// Name of an instrument with its unit.
pub(crate) type NameAndUnit = (&'static str, &'static str);

/// Observable instruments of all exporters.
pub(super) struct LiveGauges {
    meter: Meter,
    shown: Mutex<BTreeMap<&'static str, Readers>>,
}

impl LiveGauges {
    pub(super) fn new(meter: &Meter) -> Self {
        Self { meter: meter.clone(), shown: Mutex::default() }
    }

    /// Adds a gauge of an exporter, in place of one of the same exporter and name.
    pub(super) fn gauge(
        &self,
        name: NameAndUnit,
        about: &'static str,
        exporter: &str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let build = |readers: Readers| {
            let gauge = self.meter.u64_observable_gauge(name.0).with_unit(name.1);
            let see = move |gauge: &dyn opentelemetry::metrics::AsyncInstrument<u64>| {
                readers.each(|value, label| gauge.observe(value, std::slice::from_ref(label)));
            };
            // May be dropped: the instrument lives as long as the meter's provider.
            let _ = gauge.with_description(about).with_callback(see).build();
        };
        self.show(name.0, exporter, Box::new(read), build);
    }

    /// Adds an observable counter of an exporter, a number that only grows, in place of one of the
    /// same exporter and name.
    pub(super) fn sum(
        &self,
        name: NameAndUnit,
        about: &'static str,
        exporter: &str,
        read: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        let build = |readers: Readers| {
            let sum = self.meter.u64_observable_counter(name.0).with_unit(name.1);
            let see = move |sum: &dyn opentelemetry::metrics::AsyncInstrument<u64>| {
                readers.each(|value, label| sum.observe(value, std::slice::from_ref(label)));
            };
            let _ = sum.with_description(about).with_callback(see).build();
        };
        self.show(name.0, exporter, Box::new(read), build);
    }

    fn show(
        &self,
        name: &'static str,
        exporter: &str,
        read: ReadNumber,
        build: impl FnOnce(Readers),
    ) {
        let mut shown = self.lock();
        let readers = shown.entry(name).or_insert_with(|| {
            let readers = Readers::default();
            build(readers.clone());
            readers
        });
        let label = KeyValue::new("exporter", exporter.to_owned());
        let mut readers = readers.lock();
        match readers.iter_mut().find(|(known, _)| *known == label) {
            Some((_, before)) => *before = read,
            None => readers.push((label, read)),
        }
    }

    /// Removes all gauges and sums of an exporter.
    pub(super) fn forget(&self, exporter: &str) {
        for readers in self.lock().values() {
            readers.lock().retain(|(label, _)| label.value.as_str() != exporter);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Readers>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
