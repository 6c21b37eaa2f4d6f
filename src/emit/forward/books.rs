//! What the forwards tell of themselves, in requests and in items: spans, log records, data points.
//!
//! ```text
//! accepted items    = sent + failed by reason + dropped by reason + unchosen + held + queued
//! enqueued requests = sent + failed by reason + dropped at shutdown + queued
//! ```
//!
//! A request of chosen traces is one that is made here, so requests are counted from the queue on,
//! and items from the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::emit::counters::Seldom;
use crate::otlp::Signal;

/// Why items did not reach the backend of a forward: a closed set, for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ForwardLoss {
    /// The queue was full, and there is no log.
    QueueFull,
    /// There was no room to hold them until their traces are judged, and there is no log.
    HoldFull,
    /// Their traces were not judged in time.
    Undecided,
    /// They came while the process was shutting down.
    ShuttingDown,
    /// The backend refused the request for good.
    Refused,
    /// The backend took the rest of the request (OTLP partial success).
    RejectedPartly,
    /// The time for trying ran out.
    RetriesExhausted,
    /// The log could not be read.
    Unreadable,
    /// Passing them on met a fault of ours.
    Fault,
    /// They were still waiting when the time for shutting down ran out.
    ShutdownDeadline,
}

impl ForwardLoss {
    const ALL: [Self; 10] = [
        Self::QueueFull,
        Self::HoldFull,
        Self::Undecided,
        Self::ShuttingDown,
        Self::Refused,
        Self::RejectedPartly,
        Self::RetriesExhausted,
        Self::Unreadable,
        Self::Fault,
        Self::ShutdownDeadline,
    ];

    /// Whether it happens before anything is sent.
    fn is_drop(self) -> bool {
        matches!(self, Self::QueueFull | Self::HoldFull | Self::Undecided | Self::ShuttingDown)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::HoldFull => "hold_full",
            Self::Undecided => "undecided",
            Self::ShuttingDown => "shutting_down",
            Self::Refused => "refused",
            Self::RejectedPartly => "rejected_partly",
            Self::RetriesExhausted => "retries_exhausted",
            Self::Unreadable => "unreadable",
            Self::Fault => "fault",
            Self::ShutdownDeadline => "shutdown_deadline",
        }
    }
}

/// Some requests and the items in them.
#[derive(Debug, Default)]
pub(super) struct ForwardTally {
    requests: AtomicU64,
    items: AtomicU64,
}

impl ForwardTally {
    fn add(&self, requests: u64, items: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.items.fetch_add(items, Ordering::Relaxed);
    }

    fn take(&self, requests: u64, items: u64) {
        self.requests.fetch_sub(requests, Ordering::Relaxed);
        self.items.fetch_sub(items, Ordering::Relaxed);
    }

    fn read(&self, what: TallyPart) -> u64 {
        let value = match what {
            TallyPart::Requests => &self.requests,
            TallyPart::Items => &self.items,
        };
        value.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy)]
enum TallyPart {
    Requests,
    Items,
}

/// The accounts of one signal.
#[derive(Debug, Default)]
struct Accounts {
    accepted: ForwardTally,
    enqueued: ForwardTally,
    sent: ForwardTally,
    unchosen: ForwardTally,
    held: ForwardTally,
    queued: ForwardTally,
    /// Requests that wait in the queue with no more than their place in the log.
    in_log: ForwardTally,
    lost: [ForwardTally; ForwardLoss::ALL.len()],
}

/// The accounts of one forward.
#[derive(Debug)]
pub(super) struct ForwardBooks {
    pub(super) name: String,
    signals: [Accounts; 3],
    /// Bytes held, waiting and on their way.
    pub(super) bytes: std::sync::atomic::AtomicUsize,
    pub(super) full: Seldom,
    pub(super) trouble: Seldom,
    pub(super) losses: Seldom,
    pub(super) partly: Seldom,
}

impl ForwardBooks {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            signals: Default::default(),
            bytes: Default::default(),
            full: Seldom::new(),
            trouble: Seldom::new(),
            losses: Seldom::new(),
            partly: Seldom::new(),
        }
    }

    fn of(&self, signal: Signal) -> &Accounts {
        &self.signals[signal as usize]
    }

    /// Items that were offered.
    pub(super) fn accepted(&self, signal: Signal, items: u64) {
        self.of(signal).accepted.add(1, items);
    }

    /// A request entered the queue.
    pub(super) fn enqueued(&self, signal: Signal, items: u64) {
        self.of(signal).enqueued.add(1, items);
        self.of(signal).queued.add(1, items);
    }

    /// A request left the queue, whatever became of it.
    pub(super) fn dequeued(&self, signal: Signal, items: u64) {
        self.of(signal).queued.take(1, items);
    }

    /// A request waits with no more than its place in the log, or does so no longer.
    pub(super) fn in_log(&self, signal: Signal, is_in: bool) {
        if is_in {
            self.of(signal).in_log.add(1, 0);
        } else {
            self.of(signal).in_log.take(1, 0);
        }
    }

    /// Items wait until their traces are judged.
    pub(super) fn held(&self, signal: Signal, items: u64) {
        self.of(signal).held.add(0, items);
    }

    /// Items were accepted and held that nobody had counted.
    pub(super) fn more_held(&self, signal: Signal, items: u64) {
        self.of(signal).accepted.add(0, items);
        self.of(signal).held.add(0, items);
    }

    /// They do so no longer.
    pub(super) fn released(&self, signal: Signal, items: u64) {
        self.of(signal).held.take(0, items);
    }

    /// Items of traces that are not passed on.
    pub(super) fn unchosen(&self, signal: Signal, items: u64) {
        self.of(signal).unchosen.add(0, items);
    }

    /// A request arrived, with so many items that the backend took.
    pub(super) fn sent(&self, signal: Signal, items: u64) {
        self.of(signal).sent.add(1, items);
    }

    /// Requests and items were lost.
    pub(super) fn lost(&self, signal: Signal, reason: ForwardLoss, requests: u64, items: u64) {
        self.of(signal).lost[reason as usize].add(requests, items);
    }

    /// All items that were lost.
    pub(super) fn lost_items(&self) -> u64 {
        let lost = self.signals.iter().flat_map(|accounts| &accounts.lost);
        lost.map(|tally| tally.read(TallyPart::Items)).sum()
    }
}

/// Shows the books of all forwards whenever metrics are read.
pub(super) fn show(meter: &Meter, books: &[(Arc<ForwardBooks>, usize)]) {
    let all: Arc<[_]> = books.iter().map(|(books, _)| Arc::clone(books)).collect();
    let sums: [CounterLine; 3] = [
        ("accepted", "given to a forward", |it| &it.accepted),
        ("enqueued", "that entered the queue of a forward", |it| &it.enqueued),
        ("sent", "that the backend of a forward took", |it| &it.sent),
    ];
    for (word, about, of) in sums {
        counter(meter, word, about, &all, move |accounts, what, emit| {
            emit(of(accounts).read(what), None);
        });
    }
    counter(
        meter,
        "unchosen",
        "of traces that a forward does not pass on",
        &all,
        |it, what, to| {
            to(it.unchosen.read(what), None);
        },
    );
    for (word, about, is_drop) in [
        ("dropped", "that a forward never sent, by reason", true),
        ("failed", "that a forward gave up sending, by reason", false),
    ] {
        counter(meter, word, about, &all, move |accounts, what, emit| {
            for reason in ForwardLoss::ALL.into_iter().filter(|it| it.is_drop() == is_drop) {
                emit(accounts.lost[reason as usize].read(what), Some(reason.as_str()));
            }
        });
    }
    show_gauges(meter, &all, books);
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
    all: &Arc<[Arc<ForwardBooks>]>,
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
                for (books, signal) in each(&all) {
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

fn show_gauges(
    meter: &Meter,
    all: &Arc<[Arc<ForwardBooks>]>,
    books: &[(Arc<ForwardBooks>, usize)],
) {
    let gauges: [GaugeLine; 4] = [
        (
            "queued_requests",
            "{request}",
            "Requests in the queue of a forward, or on their way.",
            |it| it.queued.read(TallyPart::Requests),
        ),
        ("queued_items", "{item}", "What these requests hold.", |it| {
            it.queued.read(TallyPart::Items)
        }),
        ("requests_in_log", "{request}", "Those of them that are in the log alone.", |it| {
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
                for (books, signal) in each(&all) {
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
            for books in held.iter() {
                gauge.observe(books.bytes.load(Ordering::Relaxed) as u64, &forward(books));
            }
        })
        .build();
    let capacities: Vec<_> = books.iter().map(|(it, max)| (forward(it), *max as u64)).collect();
    meter
        .u64_observable_gauge("spanscore.forward.queue_capacity")
        .with_unit("By")
        .with_description("Most bytes held for a forward.")
        .with_callback(move |gauge| {
            capacities.iter().for_each(|(labels, max)| gauge.observe(*max, labels));
        })
        .build();
}

fn each(all: &[Arc<ForwardBooks>]) -> impl Iterator<Item = (&ForwardBooks, Signal)> {
    all.iter().flat_map(|books| Signal::ALL.map(|signal| (&**books, signal)))
}

fn labels(books: &ForwardBooks, signal: Signal) -> Vec<KeyValue> {
    let word = match signal {
        Signal::Traces => "traces",
        Signal::Logs => "logs",
        Signal::Metrics => "metrics",
    };
    vec![KeyValue::new("forward", books.name.clone()), KeyValue::new("signal", word)]
}
