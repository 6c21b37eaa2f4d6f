//! Store within the pipeline: start, end, metrics, and its needs of the stages.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use spanscore_base::model::{Facts, Want};
use spanscore_base::value::Value;
use spanscore_emit::{ContentFilter, ShownContent};
use spanscore_evaluate::engine::run::{Configured, Evaluators};
use spanscore_net::metrics::{KeyValue, Meter, Scraped};
use spanscore_net::readings;
use spanscore_store::{RedactValues, Store, StoreCount, StoreCounters, StoreSettings};

/// Redactor of all stores of the process. A writer's thread builds its expressions at the first
/// text.
static FILTER: OnceLock<ContentFilter> = OnceLock::new();

/// Starts the store; `None` if the system refuses a thread or folder: the collector continues
/// without it.
pub(crate) fn start(
    settings: StoreSettings,
    data_dir: Option<&Path>,
    meter: &Meter,
) -> Option<Arc<Store>> {
    match open(settings, data_dir, meter) {
        Ok(store) => {
            let is_kept = data_dir.is_some();
            let path = store.view().path().display();
            tracing::info!(%path, is_kept, "runs and scores are stored");
            Some(Arc::new(store))
        }
        Err(error) => {
            tracing::error!(
                %error,
                "the store cannot start; the collector runs on without it: name a folder that can \
                 be written in `data_dir` or TMPDIR, or set `store: false`"
            );
            None
        }
    }
}

/// Opens the store and shows its counters.
pub(crate) fn open(
    settings: StoreSettings,
    data_dir: Option<&Path>,
    meter: &Meter,
) -> std::io::Result<Store> {
    let redact: RedactValues = Arc::new(|trace, values: &[&Value<'_>]| {
        let filter = FILTER.get_or_init(|| ContentFilter::of(ShownContent::Redacted));
        filter.trace(trace).shown(values)
    });
    let store = Store::start(settings, data_dir, redact)?;
    show(meter, store.view().counters());
    Ok(store)
}

/// Builds evaluators with the results that exporters and the store show.
pub(crate) fn evaluators(
    configured: Vec<Configured>,
    want: Want,
    store: &Option<Arc<Store>>,
) -> Evaluators {
    Evaluators::new(configured, if store.is_some() { Want::ALL } else { want })
}

/// Returns the facts that evaluators and the store read.
pub(crate) fn facts(evaluators: &Evaluators, store: &Option<Arc<Store>>) -> Facts {
    let stored = store.as_ref().map(|store| store.facts()).unwrap_or_default();
    evaluators.facts().union(&stored)
}

/// Writes waiting data and closes the file; gives up after `time`.
pub(crate) async fn close(store: Option<Arc<Store>>, time: impl Future<Output = ()>) {
    let Some(store) = store else { return };
    let closing = tokio::task::spawn_blocking(move || store.close());
    tokio::select! {
        _ = closing => {}
        () = time => tracing::warn!("the store could not write all in time"),
    }
}

/// Labels of counts within a shared instrument.
type CountLabels = &'static [(StoreCount, &'static str)];

/// Counters: name, unit, description, label, counts.
const COUNTERS: [(&str, &str, &str, &str, CountLabels); 6] = [
    (
        "spanscore.store.written",
        "{record}",
        "Runs and evaluations that were written to the store.",
        "what",
        &[(StoreCount::Trajectories, "trajectories"), (StoreCount::Evaluations, "evaluations")],
    ),
    (
        "spanscore.store.shed",
        "{record}",
        "Records that were not stored whole, since the store's queue filled.",
        "what",
        &[
            (StoreCount::ShedContent, "content"),
            (StoreCount::ShedCalls, "calls"),
            (StoreCount::ShedTrajectories, "trajectories"),
            (StoreCount::ShedEvaluations, "evaluations"),
        ],
    ),
    (
        "spanscore.store.inexact",
        "{evaluation}",
        "Evaluations by which the sums of the store may be wrong.",
        "reason",
        &[
            (StoreCount::Lost, "lost"),
            (StoreCount::Uncorrected, "uncorrected"),
            (StoreCount::RepeatedUnseen, "repeated_unseen"),
        ],
    ),
    (
        "spanscore.store.collected",
        "{evaluation}",
        "Evaluations of other processes: stored, of these not current beside own ones, and left \
         out, as their trace has too many, the queue had no room, or they are malformed.",
        "what",
        &[
            (StoreCount::Collected, "stored"),
            (StoreCount::CollectedBesideOwn, "beside_own"),
            (StoreCount::CollectedBeyond, "beyond_limit"),
            (StoreCount::CollectedUnstored, "no_room"),
            (StoreCount::CollectedMalformed, "malformed"),
        ],
    ),
    (
        "spanscore.store.deleted",
        "{trajectory}",
        "Runs that were deleted from the store.",
        "reason",
        &[(StoreCount::DeletedForAge, "age"), (StoreCount::DeletedForSize, "size")],
    ),
    (
        "spanscore.store.events",
        "{event}",
        "Repeats that were ignored, lesser parts of runs that were left out, transactions that \
         failed, damaged files that were set aside, contents that were withheld, runs whose \
         definitions of tools are not stored whole, new names that share a row, as their sender \
         has its part of the table.",
        "event",
        &[
            (StoreCount::Repeated, "repeated"),
            (StoreCount::Fragments, "fragment"),
            (StoreCount::Failures, "failed"),
            (StoreCount::SetAside, "set_aside"),
            (StoreCount::Withheld, "withheld"),
            (StoreCount::DefinitionsLeftOut, "definitions_left_out"),
            (StoreCount::NamesLeftOut, "names_left_out"),
        ],
    ),
];

readings! {
    const GAUGES: Arc<StoreCounters> {
        gauge("spanscore.store.queue.held", "By",
            "Memory that waits to be written to the store.", |all| all.get(StoreCount::QueueBytes));
        gauge("spanscore.store.file.size", "By", "Size of the store's file.",
            |all| all.get(StoreCount::FileBytes));
        gauge("spanscore.store.wal.size", "By", "Size of the write-ahead file beside it.",
            |all| all.get(StoreCount::WalBytes));
        gauge("spanscore.store.working", "{store}", "1 while the store can be written, else 0.",
            |all| all.get(StoreCount::IsWorking));
    }
}

fn show(meter: &Meter, counters: &Arc<StoreCounters>) {
    for (name, unit, about, label, counts) in COUNTERS {
        let counters = Arc::clone(counters);
        let sum = Scraped::sum([name, unit, about], |count| *count);
        Scraped::show_all(&[sum], meter, move |see| {
            for (count, word) in counts {
                see(&counters.get(*count), &[KeyValue::new(label, *word)]);
            }
        });
    }
    let counters = Arc::clone(counters);
    Scraped::show_all(GAUGES, meter, move |see| see(&counters, &[]));
}
