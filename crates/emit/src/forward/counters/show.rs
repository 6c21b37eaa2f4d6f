//! Instruments that show the counters of the forwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::RwLock;

use super::{ForwardCounters, ForwardTally, SignalCounters};
use crate::counters::Loss;
use spanscore_base::model::MemoryQuota;
use spanscore_base::otlp::Signal;
use spanscore_net::metrics::{KeyValue, Meter, Scraped, label};
use spanscore_net::readings;

/// Counters of all forwards.
type AllCounters = Arc<RwLock<Vec<Arc<ForwardCounters>>>>;
/// Callback for a source and its labels.
type See<'s, S> = &'s mut dyn FnMut(&S, &[KeyValue]);

/// Registers instruments for the counters of all forwards; `share` is their memory quota. Counters
/// are shown as long as they are known, gauges only while the forward runs.
pub(super) fn show(meter: &Meter, share: &Arc<MemoryQuota>, all: &AllCounters) {
    for (readings, is_running) in [(COUNTERS, false), (GAUGES, true)] {
        let counters = Arc::clone(all);
        Scraped::show_all(readings, meter, move |see| each_signal(&counters, is_running, see));
    }
    let dropped = (DROPPED, &Loss::BEFORE_THE_FORWARD[..]);
    for (readings, reasons) in [dropped, (FAILED, &Loss::BEHIND_THE_FORWARD)] {
        let counters = Arc::clone(all);
        Scraped::show_all(readings, meter, move |see| each_loss(&counters, reasons, see));
    }
    let counters = Arc::clone(all);
    let share = Arc::clone(share);
    Scraped::show_all(QUEUES, meter, move |see| {
        each(&counters, true, |counters| {
            let most = counters.bytes_max.load(Ordering::Relaxed).min(share.largest());
            see(
                &(counters.bytes.load(Ordering::Relaxed), most),
                &[label("forward", &counters.name)],
            );
        });
    });
}

readings! {
    const COUNTERS: SignalCounters {
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
    const GAUGES: SignalCounters {
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
    /// Bytes of a forward, and their limit.
    const QUEUES: (usize, usize) {
        gauge("spanscore.forward.queue_size", "By",
            "Bytes held for a forward: waiting, on their way, or until judged.",
            |(held, _)| *held as u64);
        gauge("spanscore.forward.queue_capacity", "By",
            "Most bytes held for a forward.", |(_, most)| *most as u64);
    }
}

fn each(all: &AllCounters, is_running: bool, mut see: impl FnMut(&ForwardCounters)) {
    let all = all.read();
    let is_shown =
        |counters: &&Arc<ForwardCounters>| !is_running || !counters.is_gone.load(Ordering::Relaxed);
    all.iter().filter(is_shown).for_each(|counters| see(counters));
}

fn each_signal(all: &AllCounters, is_running: bool, see: See<'_, SignalCounters>) {
    each(all, is_running, |counters| {
        for signal in Signal::ALL {
            see(counters.of(signal), &labels(counters, signal));
        }
    });
}

/// Visits the losses with these reasons.
fn each_loss(all: &AllCounters, reasons: &[Loss], see: See<'_, ForwardTally>) {
    each(all, false, |counters| {
        for signal in Signal::ALL {
            let [forward, signal_label] = labels(counters, signal);
            for reason in reasons {
                let labels = [
                    forward.clone(),
                    signal_label.clone(),
                    KeyValue::new("reason", reason.as_str()),
                ];
                see(&counters.of(signal).lost[*reason as usize], &labels);
            }
        }
    });
}

fn labels(counters: &ForwardCounters, signal: Signal) -> [KeyValue; 2] {
    [label("forward", &counters.name), KeyValue::new("signal", signal.as_str())]
}
