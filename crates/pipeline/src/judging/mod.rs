//! Dispatchers of judges and external evaluators within the pipeline.

mod calls;
mod outlet;
mod pending;
mod unanswered;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use opentelemetry::metrics::Meter;

use super::journal::Journal;
use super::metrics::PipelineMetrics;
use super::{CollectorStartError, Outlet};
use spanscore_ask::external::{ExternalDispatcher, ExternalHandle, ExternalSettings};
use spanscore_ask::judge::{
    AnswerLog, JudgeDispatcher, JudgeHandle, JudgeParts, JudgeSettings, JudgeStartError,
    JudgesChange, JudgingSettings,
};
use spanscore_base::model::{Evaluation, Receipt, Sender};
use spanscore_emit::forward::Forwards;
use spanscore_evaluate::AskedTarget;
use spanscore_evaluate::engine::run::Evaluators;
use spanscore_telemetry::OwnSpans;

use outlet::AskedOutlet;
pub(super) use pending::PendingTraces;
pub use unanswered::UNANSWERED_FILE;
use unanswered::{KeptLetters, UnansweredLetters};

/// Name of the spending file of judges, in `data_dir`.
const SPENT_FILE: &str = "judges.json";

/// Destinations of the dispatcher's persistent state and telemetry, each optional.
#[derive(Clone, Copy)]
pub(super) struct JudgePlaces<'a> {
    /// Log of answers.
    pub(super) journal: Option<&'a Arc<Journal>>,
    /// Folder of the spending file and the dead letters.
    pub(super) data_dir: Option<&'a Path>,
    /// Exporter of spans of requests.
    pub(super) spans: Option<&'a OwnSpans>,
}

/// Senders to both dispatchers. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Dispatchers {
    pub(super) judge: Option<JudgeHandle>,
    pub(super) external: Option<ExternalHandle>,
    pending: Option<Arc<PendingTraces>>,
}

impl Dispatchers {
    /// Sends inquiries about a sender's data to their dispatchers, without waiting.
    pub(super) fn ask(&self, asked: Vec<AskedTarget>, receipt: Option<&Receipt>, sender: Sender) {
        let (judged, external) = AskedTarget::by_dispatcher(asked);
        if let Some(dispatcher) = &self.judge {
            dispatcher.ask(judged, receipt, sender);
        }
        if let Some(dispatcher) = &self.external {
            dispatcher.ask(external, receipt, sender);
        }
    }

    /// Returns the inquiries with a dispatcher; adds an evaluation to `out` for each other.
    pub(super) fn unless_unasked(
        &self,
        asked: Vec<AskedTarget>,
        out: &mut Vec<Evaluation>,
    ) -> Vec<AskedTarget> {
        let (asked, unasked): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|asked| self.has_dispatcher(asked));
        out.extend(unasked.into_iter().map(AskedTarget::unasked));
        asked
    }

    /// Returns true if one of the inquiries has a dispatcher.
    pub(super) fn answers_any(&self, asked: &[AskedTarget]) -> bool {
        asked.iter().any(|asked| self.has_dispatcher(asked))
    }

    /// Returns the traces whose verdict waits for a dispatcher.
    pub(super) fn pending(&self) -> Option<&PendingTraces> {
        self.pending.as_deref()
    }

    fn has_dispatcher(&self, asked: &AskedTarget) -> bool {
        match asked {
            AskedTarget::Judge(_) => self.judge.is_some(),
            AskedTarget::External(_) => self.external.is_some(),
        }
    }
}

/// Running dispatchers.
pub(super) struct RunningDispatchers {
    judge: JudgeDispatcher,
    external: ExternalDispatcher,
    pending: Arc<PendingTraces>,
    kept: KeptLetters,
    /// True if a log stores inquiries that are unanswered at shutdown.
    leaves: bool,
}

impl RunningDispatchers {
    /// Starts both dispatchers, even without an evaluator for them: a reload may add one.
    pub(super) fn start(
        judges: (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
        places: JudgePlaces<'_>,
        evaluators: &Evaluators,
        (outlet, metrics, forwards): (&Outlet, &Arc<PipelineMetrics>, &Arc<Forwards>),
        meter: &Meter,
    ) -> Result<Self, CollectorStartError> {
        let pending = Arc::new(PendingTraces::new(Arc::clone(forwards)));
        let counted = |letters| AskedOutlet::new(metrics, outlet, &pending, letters).into_outlet();
        let kept = KeptLetters::new(judges.1.dead_letter);
        let letters = UnansweredLetters::start(places.data_dir, kept.clone(), meter);
        let none = BTreeMap::new();
        let asked = if evaluators.asks_judges() { judges.0 } else { &none };
        let own = (places, asking(evaluators));
        let judge = start((asked, judges.1), own, &counted(letters), meter)?;
        let leaves = places.journal.is_some();
        let settings = external_settings(judges.1, leaves);
        let external =
            ExternalDispatcher::start(evaluators.external(), &settings, counted(None), meter)?;
        Ok(Self { judge, external, pending, kept, leaves })
    }

    /// Returns senders to both dispatchers.
    pub(super) fn handles(&self) -> Dispatchers {
        Dispatchers {
            judge: Some(self.judge.handle()),
            external: Some(self.external.handle()),
            pending: Some(Arc::clone(&self.pending)),
        }
    }

    /// Builds clients for new judges, if an evaluator uses one; sends nothing.
    pub(super) fn prepare(
        &self,
        (judges, judging): (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
        evaluators: &Evaluators,
    ) -> Result<Option<JudgesChange>, JudgeStartError> {
        let prepare = || self.judge.prepare(judges, asking(evaluators), judging);
        evaluators.asks_judges().then(prepare).transpose()
    }

    /// Applies a prepared reload, with its waiting times and limits.
    pub(super) fn take(&self, change: Option<JudgesChange>, judging: &JudgingSettings) {
        self.kept.change(judging.dead_letter);
        if let Some(change) = change {
            self.judge.take(change, judging);
        }
        self.external.limit(&external_settings(judging, self.leaves));
    }

    /// Closes both dispatchers, and waits for running requests until `no_more_time`.
    pub(super) async fn shutdown<F: Future<Output = ()>>(self, no_more_time: impl Fn() -> F) {
        tokio::join!(self.judge.shutdown(no_more_time()), self.external.shutdown(no_more_time()));
    }
}

/// Returns the evaluators that use a judge, each with its judge.
fn asking(evaluators: &Evaluators) -> Vec<(String, String)> {
    evaluators.judges().map(|(by, judge)| (by.to_owned(), judge.to_owned())).collect()
}

fn external_settings(judging: &JudgingSettings, leaves: bool) -> ExternalSettings {
    ExternalSettings {
        deadline: judging.deadline.0,
        waiting_max: judging.waiting_max as usize,
        waiting_bytes_max: (judging.waiting_mib as usize) << 20,
        leaves,
    }
}

/// Starts the dispatcher of judges.
fn start(
    (judges, judging): (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
    (places, asking): (JudgePlaces<'_>, Vec<(String, String)>),
    outlet: &Outlet,
    meter: &Meter,
) -> Result<JudgeDispatcher, JudgeStartError> {
    let has_budget = judges.values().any(|judge| judge.budget != Default::default());
    if has_budget && places.data_dir.is_none() {
        tracing::warn!("budgets of judges start anew with the process: there is no `data_dir`");
    }
    let log = places.journal.map(|journal| Arc::clone(journal) as Arc<dyn AnswerLog>);
    let settings = JudgeParts {
        judges,
        asking,
        recording: None,
        spent_file: places.data_dir.map(|folder| folder.join(SPENT_FILE)),
        log,
        watch: places.spans.map(|spans| calls::watch(spans.clone())),
        watches_content: places.spans.is_some_and(OwnSpans::holds_content),
        budget_usd: None,
    };
    JudgeDispatcher::start(settings, judging, Arc::clone(outlet), meter)
}
