//! Tables of metrics, in which each metric is declared once.
//!
//! ```text
//! metrics! {
//!     /// Instruments of a stage.
//!     struct StageMetrics {
//!         taken: Counter("spanscore.stage.taken", "{item}", "Items that were taken.");
//!         lost: CounterBy("spanscore.stage.lost", "{item}", "Items lost.", "reason", ["full"]);
//!     }
//! }
//! ```
//!
//! `new` makes the instruments without showing them; `of` shows them with the labels of their owner
//! and all series at zero. A counter that appears with its first event hides that event from
//! `rate()`. Numbers stored elsewhere are read at each scrape, and declared by
//! [`readings!`](crate::readings).

use std::iter::once;
use std::sync::Arc;

use opentelemetry::metrics::{self as sdk, AsyncInstrument};

pub use opentelemetry::KeyValue;
pub use opentelemetry::metrics::Meter;

/// Name, unit and help.
type Declared = [&'static str; 3];

/// Declares a struct of instruments, one a line: kind, name, unit, help, and further arguments of
/// the kind's `new`.
#[macro_export]
macro_rules! metrics {
    ($(#[$doc:meta])* $vis:vis struct $Table:ident {
        $($field:ident: $Kind:ident($name:literal, $unit:literal, $help:literal $(, $more:expr)*);)*
    }) => {
        $(#[$doc])*
        #[derive(Clone)]
        $vis struct $Table { $($vis $field: $crate::metrics::$Kind,)* }

        impl $Table {
            /// Creates the instruments without showing them.
            $vis fn new(meter: &$crate::metrics::Meter) -> Self {
                Self {
                    $($field: $crate::metrics::$Kind::new(
                        meter, [$name, $unit, $help] $(, $more)*
                    ),)*
                }
            }

            /// Returns them with the labels of an owner, and all series at zero.
            $vis fn of(&self, labels: &[$crate::metrics::KeyValue]) -> Self {
                Self { $($field: self.$field.of(labels),)* }
            }
        }
    };
}

/// Declares the numbers of a source that are read at each scrape, one a line.
#[macro_export]
macro_rules! readings {
    ($(#[$doc:meta])* const $TABLE:ident: $Source:ty {
        $($kind:ident($name:literal, $unit:literal, $help:literal, $read:expr);)*
    }) => {
        $(#[$doc])*
        const $TABLE: &[$crate::metrics::Scraped<$Source>] =
            &[$($crate::metrics::Scraped::$kind([$name, $unit, $help], $read),)*];
    };
}

/// Returns a meter without a reader, for commands.
pub fn unread_meter() -> Meter {
    opentelemetry::global::meter("spanscore")
}

/// Returns a label whose value is cheap to copy.
pub fn label(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, Arc::<str>::from(value))
}

/// Instrument with the labels of its owner.
#[derive(Clone)]
pub struct Labelled<I> {
    instrument: I,
    labels: Vec<KeyValue>,
}

/// Histogram without a series before the first value.
pub type Histogram = Labelled<sdk::Histogram<f64>>;

impl<I: Clone> Labelled<I> {
    fn made(instrument: I) -> Self {
        Self { instrument, labels: Vec::new() }
    }

    /// Returns it with these labels.
    pub fn under(&self, labels: &[KeyValue]) -> Self {
        Self { instrument: self.instrument.clone(), labels: labels.to_vec() }
    }
}

/// Defines instruments of the SDK that start at zero, created and written by these methods.
macro_rules! instruments {
    ($($(#[$doc:meta])* $Kind:ident: $Sdk:ident<$number:ty>, $make:ident, $write:ident;)*) => {$(
        $(#[$doc])*
        pub type $Kind = Labelled<sdk::$Sdk<$number>>;

        impl $Kind {
            /// Creates it.
            pub fn new(meter: &Meter, [name, unit, help]: Declared) -> Self {
                Self::made(meter.$make(name).with_unit(unit).with_description(help).build())
            }

            /// Returns it with these labels, at zero.
            pub fn of(&self, labels: &[KeyValue]) -> Self {
                let own = self.under(labels);
                own.$write(<$number>::default());
                own
            }

            /// Adds a number; a gauge is set to it.
            #[inline]
            pub fn $write(&self, number: $number) {
                self.instrument.$write(number, &self.labels);
            }
        }
    )*};
}

instruments! {
    /// Counter.
    Counter: Counter<u64>, u64_counter, add;
    /// Counter of seconds or costs.
    FloatCounter: Counter<f64>, f64_counter, add;
    /// Number that goes up and down.
    UpDownCounter: UpDownCounter<i64>, i64_up_down_counter, add;
    /// Latest value.
    Gauge: Gauge<u64>, u64_gauge, record;
}

impl Counter {
    /// Adds to the series with these labels.
    #[inline]
    pub fn add_under(&self, labels: &[KeyValue], count: u64) {
        self.instrument.add(count, labels);
    }
}

impl Histogram {
    /// Creates it, with the upper bounds of its buckets.
    pub fn new(meter: &Meter, [name, unit, help]: Declared, bounds: &[f64]) -> Self {
        let histogram = meter.f64_histogram(name).with_unit(unit).with_description(help);
        Self::made(histogram.with_boundaries(bounds.to_vec()).build())
    }

    /// Returns it with these labels.
    pub fn of(&self, labels: &[KeyValue]) -> Self {
        self.under(labels)
    }

    /// Records a value.
    pub fn record(&self, value: f64) {
        self.instrument.record(value, &self.labels);
    }
}

/// Counter with one further label.
#[derive(Clone)]
pub struct CounterBy {
    counter: Counter,
    key: &'static str,
    known: Arc<[&'static str]>,
}

impl CounterBy {
    /// Creates it, with the key of its label and the values shown from the start.
    pub fn new(
        meter: &Meter,
        declared: Declared,
        key: &'static str,
        known: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let counter = Counter::new(meter, declared);
        Self { counter, key, known: known.into_iter().collect() }
    }

    /// Returns it with these labels.
    pub fn under(&self, labels: &[KeyValue]) -> Self {
        Self { counter: self.counter.under(labels), ..self.clone() }
    }

    /// Returns it with these labels, at zero for each known value.
    pub fn of(&self, labels: &[KeyValue]) -> Self {
        let own = self.under(labels);
        own.known.iter().for_each(|value| own.add(value, 0));
        own
    }

    /// Adds to the series of a value.
    #[inline]
    pub fn add(&self, value: &'static str, count: u64) {
        self.add_under(&self.counter.labels, value, count);
    }

    /// Adds to the series of a value with these labels.
    #[inline]
    pub fn add_under(&self, labels: &[KeyValue], value: &'static str, count: u64) {
        let own = once(KeyValue::new(self.key, value));
        let labels = labels.iter().cloned().chain(own).collect::<LabelRow>();
        self.counter.instrument.add(count, &labels);
    }
}

/// Labels of one series, mostly without allocation.
type LabelRow = smallvec::SmallVec<[KeyValue; 3]>;

/// Number of a source, read at each scrape.
pub struct Scraped<S> {
    declared: Declared,
    is_sum: bool,
    read: fn(&S) -> u64,
}

impl<S: 'static> Scraped<S> {
    /// Declares a number that goes up and down.
    pub const fn gauge(declared: Declared, read: fn(&S) -> u64) -> Self {
        Self { declared, is_sum: false, read }
    }

    /// Declares a number that only grows.
    pub const fn sum(declared: Declared, read: fn(&S) -> u64) -> Self {
        Self { declared, is_sum: true, read }
    }

    /// Shows the numbers of all sources, which `each` visits with their labels.
    pub fn show_all(
        readings: &[Self],
        meter: &Meter,
        each: impl Fn(&mut dyn FnMut(&S, &[KeyValue])) + Clone + Send + Sync + 'static,
    ) {
        for &Self { declared: [name, unit, help], is_sum, read } in readings {
            let each = each.clone();
            let look = move |shown: &dyn AsyncInstrument<u64>| {
                each(&mut |source, labels| shown.observe(read(source), labels));
            };
            // The instrument may be dropped: the meter's provider holds the callback.
            if is_sum {
                let sum = meter.u64_observable_counter(name).with_unit(unit);
                let _ = sum.with_description(help).with_callback(look).build();
            } else {
                let gauge = meter.u64_observable_gauge(name).with_unit(unit);
                let _ = gauge.with_description(help).with_callback(look).build();
            }
        }
    }
}
