//! The books of the forwards as metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;

use super::{Accounts, ForwardBooks, ForwardTally};
use crate::counters::Loss;
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::Signal;
use spanscore_net::metrics::{KeyValue, Meter, Scraped, label};
use spanscore_net::readings;

/// All that there are.
type Books = Arc<RwLock<Vec<Arc<ForwardBooks>>>>;
/// Visitor of a source with its labels.
type See<'s, S> = &'s mut dyn FnMut(&S, &[KeyValue]);

/// Shows the books of all forwards whenever metrics are read; `share` is that of all of them.
/// Counters are shown for as long as they are known, gauges while the forward runs.
pub(super) fn show(meter: &Meter, share: &Arc<MemoryQuota>, all: &Books) {
    let books = Arc::clone(all);
    Scraped::show_all(COUNTERS, meter, move |see| each_signal(&books, false, see));
    let books = Arc::clone(all);
    Scraped::show_all(GAUGES, meter, move |see| each_signal(&books, true, see));
    let books = Arc::clone(all);
    Scraped::show_all(DROPPED, meter, move |see| each_loss(&books, &Loss::BEFORE_THE_FORWARD, see));
    let books = Arc::clone(all);
    Scraped::show_all(FAILED, meter, move |see| each_loss(&books, &Loss::BEHIND_THE_FORWARD, see));
    let books = Arc::clone(all);
    let share = Arc::clone(share);
    Scraped::show_all(QUEUES, meter, move |see| {
        each(&books, true, |books| {
            let most = books.bytes_max.load(Ordering::Relaxed).min(share.largest());
            see(&(books.bytes.load(Ordering::Relaxed), most), &[label("forward", &books.name)]);
        });
    });
}

readings! {
    const COUNTERS: Accounts {
        sum("spanscore.forward.accepted_requests", "{request}",
            "Requests given to a forward.", |it| it.accepted.requests());
        sum("spanscore.forward.accepted_items", "{item}",
            "Spans, log records or data points given to a forward.", |it| it.accepted.items());
        sum("spanscore.forward.enqueued_requests", "{request}",
            "Requests that entered the queue of a forward.", |it| it.enqueued.requests());
        sum("spanscore.forward.enqueued_items", "{item}",
            "Spans, log records or data points that entered the queue of a forward.",
            |it| it.enqueued.items());
        sum("spanscore.forward.sent_requests", "{request}",
            "Requests that the backend of a forward took.", |it| it.sent.requests());
        sum("spanscore.forward.sent_items", "{item}",
            "Spans, log records or data points that the backend of a forward took.",
            |it| it.sent.items());
        sum("spanscore.forward.unchosen_items", "{item}",
            "Spans, log records or data points of traces that a forward does not pass on.",
            |it| it.unchosen.items());
    }
}

readings! {
    const DROPPED: ForwardTally {
        sum("spanscore.forward.dropped_requests", "{request}",
            "Requests that a forward never sent, by reason.", ForwardTally::requests);
        sum("spanscore.forward.dropped_items", "{item}",
            "Spans, log records or data points that a forward never sent, by reason.",
            ForwardTally::items);
    }
}

readings! {
    const FAILED: ForwardTally {
        sum("spanscore.forward.failed_requests", "{request}",
            "Requests that a forward gave up sending, by reason.", ForwardTally::requests);
        sum("spanscore.forward.failed_items", "{item}",
            "Spans, log records or data points that a forward gave up sending, by reason.",
            ForwardTally::items);
    }
}

readings! {
    const GAUGES: Accounts {
        gauge("spanscore.forward.queued_requests", "{request}",
            "Requests in the queue of a forward, or on their way.", |it| it.queued.requests());
        gauge("spanscore.forward.queued_items", "{item}",
            "Items of these requests.", |it| it.queued.items());
        gauge("spanscore.forward.requests_in_log", "{request}",
            "Queued requests that are in the log alone.", |it| it.in_log.requests());
        gauge("spanscore.forward.held_items", "{item}",
            "Items that wait until their traces are judged.", |it| it.held.items());
    }
}

readings! {
    /// Bytes that a forward holds, and most of these.
    const QUEUES: (usize, usize) {
        gauge("spanscore.forward.queue_size", "By",
            "Bytes held for a forward: waiting, on their way, or until judged.",
            |(held, _)| *held as u64);
        gauge("spanscore.forward.queue_capacity", "By",
            "Most bytes held for a forward.", |(_, most)| *most as u64);
    }
}

fn each(all: &Books, is_running: bool, mut see: impl FnMut(&ForwardBooks)) {
    let all = all.read();
    let is_shown =
        |books: &&Arc<ForwardBooks>| !is_running || !books.is_gone.load(Ordering::Relaxed);
    all.iter().filter(is_shown).for_each(|books| see(books));
}

fn each_signal(all: &Books, is_running: bool, see: See<'_, Accounts>) {
    each(all, is_running, |books| {
        for signal in Signal::ALL {
            see(books.of(signal), &labels(books, signal));
        }
    });
}

/// Visits losses of these reasons.
fn each_loss(all: &Books, reasons: &[Loss], see: See<'_, ForwardTally>) {
    each(all, false, |books| {
        for signal in Signal::ALL {
            let [forward, signal_label] = labels(books, signal);
            for reason in reasons {
                let labels = [
                    forward.clone(),
                    signal_label.clone(),
                    KeyValue::new("reason", reason.as_str()),
                ];
                see(&books.of(signal).lost[*reason as usize], &labels);
            }
        }
    });
}

fn labels(books: &ForwardBooks, signal: Signal) -> [KeyValue; 2] {
    [label("forward", &books.name), KeyValue::new("signal", signal.as_str())]
}
