//! The books of the forwards as metrics.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::{Accounts, ForwardBooks, ForwardLoss, ForwardTally, TallyPart};
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::Signal;

/// All that there are.
type Books = Arc<RwLock<Vec<Arc<ForwardBooks>>>>;

/// Shows the books of all forwards whenever metrics are read; `share` is that of all of them.
pub(super) fn show(meter: &Meter, share: &Arc<MemoryQuota>, all: &Books) {
    let sums: [CounterLine; 3] = [
        ("accepted", "given to a forward", |it| &it.accepted),
        ("enqueued", "that entered the queue of a forward", |it| &it.enqueued),
        ("sent", "that the backend of a forward took", |it| &it.sent),
    ];
    for (word, about, of) in sums {
        counter(meter, word, about, all, move |accounts, what, emit| {
            emit(of(accounts).read(what), None);
        });
    }
    counter(meter, "unchosen", "of traces that a forward does not pass on", all, |it, what, to| {
        to(it.unchosen.read(what), None);
    });
    for (word, about, is_drop) in [
        ("dropped", "that a forward never sent, by reason", true),
        ("failed", "that a forward gave up sending, by reason", false),
    ] {
        counter(meter, word, about, all, move |accounts, what, emit| {
            for reason in ForwardLoss::ALL.into_iter().filter(|it| it.is_drop() == is_drop) {
                emit(accounts.lost[reason as usize].read(what), Some(reason.as_str()));
            }
        });
    }
    show_gauges(meter, share, all);
}

/// A counter: its word, what it counts, and its tally.
type CounterLine = (&'static str, &'static str, fn(&Accounts) -> &ForwardTally);
/// A gauge: its name, its unit, what it shows, and its value.
type GaugeLine = (&'static str, &'static str, &'static str, fn(&Accounts) -> u64);
type Emit<'a> = &'a mut dyn FnMut(u64, Option<&'static str>);

/// The same counter in requests and in items.
fn counter(
    meter: &Meter,
    word: &str,
    about: &str,
    all: &Books,
    read: impl Fn(&Accounts, TallyPart, Emit<'_>) + Copy + Send + Sync + 'static,
) {
    let units =
        [("requests", "{request}", TallyPart::Requests), ("items", "{item}", TallyPart::Items)];
    for (plural, unit, what) in units {
        if word == "unchosen" && plural == "requests" {
            continue;
        }
        let all = Arc::clone(all);
        let subject =
            if plural == "items" { "Spans, log records or data points" } else { "Requests" };
        meter
            .u64_observable_counter(format!("spanscore.forward.{word}_{plural}"))
            .with_unit(unit)
            .with_description(format!("{subject} {about}."))
            .with_callback(move |counter| {
                for (books, signal) in each(&read_all(&all), Shown::Counters) {
                    read(books.of(signal), what, &mut |value, reason| {
                        let mut labels = labels(books, signal);
                        labels.extend(reason.map(|reason| KeyValue::new("reason", reason)));
                        counter.observe(value, &labels);
                    });
                }
            })
            .build();
    }
}

fn show_gauges(meter: &Meter, share: &Arc<MemoryQuota>, all: &Books) {
    let gauges: [GaugeLine; 4] = [
        (
            "queued_requests",
            "{request}",
            "Requests in the queue of a forward, or on their way.",
            |it| it.queued.read(TallyPart::Requests),
        ),
        ("queued_items", "{item}", "Items of these requests.", |it| {
            it.queued.read(TallyPart::Items)
        }),
        ("requests_in_log", "{request}", "Queued requests that are in the log alone.", |it| {
            it.in_log.read(TallyPart::Requests)
        }),
        ("held_items", "{item}", "Items that wait until their traces are judged.", |it| {
            it.held.read(TallyPart::Items)
        }),
    ];
    for (name, unit, about, read) in gauges {
        let all = Arc::clone(all);
        meter
            .u64_observable_gauge(format!("spanscore.forward.{name}"))
            .with_unit(unit)
            .with_description(about)
            .with_callback(move |gauge| {
                for (books, signal) in each(&read_all(&all), Shown::Gauges) {
                    gauge.observe(read(books.of(signal)), &labels(books, signal));
                }
            })
            .build();
    }
    let forward = |books: &ForwardBooks| [KeyValue::new("forward", books.name.clone())];
    let held = Arc::clone(all);
    meter
        .u64_observable_gauge("spanscore.forward.queue_size")
        .with_unit("By")
        .with_description("Bytes held for a forward: waiting, on their way, or until judged.")
        .with_callback(move |gauge| {
            for books in read_all(&held).iter().filter(|it| it.has(Shown::Gauges)) {
                gauge.observe(books.bytes.load(Ordering::Relaxed) as u64, &forward(books));
            }
        })
        .build();
    let share = Arc::clone(share);
    let all = Arc::clone(all);
    meter
        .u64_observable_gauge("spanscore.forward.queue_capacity")
        .with_unit("By")
        .with_description("Most bytes held for a forward.")
        .with_callback(move |gauge| {
            for books in read_all(&all).iter().filter(|it| it.has(Shown::Gauges)) {
                let most = books.bytes_max.load(Ordering::Relaxed).min(share.largest());
                gauge.observe(most as u64, &forward(books));
            }
        })
        .build();
}

/// Metrics shown of a forward: its counters for as long as they are known, its gauges while it
/// runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Counters,
    Gauges,
}

impl ForwardBooks {
    fn has(&self, shown: Shown) -> bool {
        shown == Shown::Counters || !self.is_gone.load(Ordering::Relaxed)
    }
}

fn read_all(all: &Books) -> RwLockReadGuard<'_, Vec<Arc<ForwardBooks>>> {
    all.read().unwrap_or_else(PoisonError::into_inner)
}

fn each(all: &[Arc<ForwardBooks>], shown: Shown) -> impl Iterator<Item = (&ForwardBooks, Signal)> {
    let all = all.iter().filter(move |books| books.has(shown));
    all.flat_map(|books| Signal::ALL.map(|signal| (&**books, signal)))
}

fn labels(books: &ForwardBooks, signal: Signal) -> Vec<KeyValue> {
    let word = match signal {
        Signal::Traces => "traces",
        Signal::Logs => "logs",
        Signal::Metrics => "metrics",
    };
    vec![KeyValue::new("forward", books.name.clone()), KeyValue::new("signal", word)]
}
