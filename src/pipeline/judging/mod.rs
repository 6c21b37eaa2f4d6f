//! The lanes of judges and of evaluators outside of this process, joined to the pipeline.

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
use super::{CollectorStartError, Outlet, PipelineLinks};
use crate::emit::forward::Forwards;
use crate::evaluate::AskedTarget;
use crate::evaluate::engine::run::Evaluators;
use crate::external::{ExternalHandle, ExternalLane, ExternalSettings};
use crate::judge::{
    AnswerLog, JudgeLane, JudgeSettings, JudgeStartError, JudgesChange, JudgingSettings,
    LaneHandle, LaneSettings,
};
use crate::model::{Evaluation, Receipt};
use crate::telemetry::OwnSpans;

use outlet::AskedOutlet;
pub(super) use pending::PendingTraces;
pub use unanswered::UNANSWERED_FILE;
use unanswered::{KeptLetters, UnansweredLetters};

/// The file, in the folder of the data, that holds what judges cost.
const SPENT_FILE: &str = "judges.json";

/// Where the lane keeps what must survive the process, if anywhere.
#[derive(Clone, Copy)]
pub(super) struct LanePlaces<'a> {
    /// For the answers.
    pub(super) journal: Option<&'a Arc<Journal>>,
    /// For what they cost.
    pub(super) data_dir: Option<&'a Path>,
    /// For spans of the requests.
    pub(super) spans: Option<&'a OwnSpans>,
}

/// Where inquiries are handed in. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Lanes {
    pub(super) judge: Option<LaneHandle>,
    pub(super) external: Option<ExternalHandle>,
    pending: Option<Arc<PendingTraces>>,
}

impl Lanes {
    /// Hands inquiries in, each to whom it is for; never waits.
    pub(super) fn ask(&self, asked: Vec<AskedTarget>, receipt: Option<&Receipt>) {
        let (judged, external) = AskedTarget::by_lane(asked);
        if let Some(lane) = &self.judge {
            lane.ask(judged, receipt);
        }
        if let Some(lane) = &self.external {
            lane.ask(external, receipt);
        }
    }

    /// What is to be asked, where there is a lane for it; else that is said of each.
    pub(super) fn unless_unasked(
        &self,
        asked: Vec<AskedTarget>,
        out: &mut Vec<Evaluation>,
    ) -> Vec<AskedTarget> {
        let (asked, unasked): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|asked| self.has_lane(asked));
        out.extend(unasked.into_iter().map(AskedTarget::unasked));
        asked
    }

    /// Whether there is anybody who may be asked about one of these.
    pub(super) fn answers_any(&self, asked: &[AskedTarget]) -> bool {
        asked.iter().any(|asked| self.has_lane(asked))
    }

    /// Traces whose verdicts are waited for.
    pub(super) fn pending(&self) -> Option<&PendingTraces> {
        self.pending.as_deref()
    }

    fn has_lane(&self, asked: &AskedTarget) -> bool {
        match asked {
            AskedTarget::Judge(_) => self.judge.is_some(),
            AskedTarget::External(_) => self.external.is_some(),
        }
    }
}

/// The lanes that run.
pub(super) struct RunningLanes {
    judge: Option<JudgeLane>,
    external: Option<ExternalLane>,
    pending: Arc<PendingTraces>,
    kept: KeptLetters,
    /// Whether there is a log, for what is not answered at the end.
    leaves: bool,
}

impl RunningLanes {
    /// Where inquiries are handed in.
    pub(super) fn handles(&self) -> Lanes {
        Lanes {
            judge: self.judge.as_ref().map(JudgeLane::handle),
            external: self.external.as_ref().map(ExternalLane::handle),
            pending: Some(Arc::clone(&self.pending)),
        }
    }

    /// Makes clients for other judges, where an evaluator asks any, without asking anybody.
    pub(super) fn prepare(
        &self,
        (judges, judging): (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
        evaluators: &Evaluators,
    ) -> Result<Option<JudgesChange>, JudgeStartError> {
        let lane = self.judge.as_ref().filter(|_| evaluators.asks_judges());
        lane.map(|lane| lane.prepare(judges, asking(evaluators), judging)).transpose()
    }

    /// Asks those from now on, as patiently as this says.
    pub(super) fn take(&self, change: Option<JudgesChange>, judging: &JudgingSettings) {
        self.kept.change(judging.dead_letter);
        if let (Some(lane), Some(change)) = (&self.judge, change) {
            lane.take(change, judging);
        }
        if let Some(lane) = &self.external {
            lane.limit(&external_settings(judging, self.leaves));
        }
    }

    /// Both take no more, and wait for what is under way until there is no more time.
    pub(super) async fn shutdown<F: Future<Output = ()>>(self, no_more_time: impl Fn() -> F) {
        let judge = async {
            if let Some(lane) = self.judge {
                lane.shutdown(no_more_time()).await;
            }
        };
        let external = async {
            if let Some(lane) = self.external {
                lane.shutdown(no_more_time()).await;
            }
        };
        tokio::join!(judge, external);
    }
}

/// What the pipeline works with beside its stages, the lanes among it. They run also where no
/// evaluator asks anybody: one that does may come with another config.
pub(super) fn link(
    judges: (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
    places: LanePlaces<'_>,
    (evaluators, forwards): (&Evaluators, &Arc<Forwards>),
    outlet: &Outlet,
    meter: &Meter,
) -> Result<(PipelineLinks, RunningLanes), CollectorStartError> {
    let metrics = Arc::new(PipelineMetrics::new(meter, evaluators));
    let pending = Arc::new(PendingTraces::new(Arc::clone(forwards)));
    let counted = |letters| AskedOutlet::new(&metrics, outlet, &pending, letters).into_outlet();
    let kept = KeptLetters::new(judges.1.dead_letter);
    let letters = UnansweredLetters::start(places.data_dir, kept.clone(), meter);
    let none = BTreeMap::new();
    let asked = if evaluators.asks_judges() { judges.0 } else { &none };
    let own = (places, asking(evaluators));
    let judge = Some(start((asked, judges.1), own, &counted(letters), meter)?);
    let leaves = places.journal.is_some();
    let settings = external_settings(judges.1, leaves);
    let external = ExternalLane::start(evaluators.external(), &settings, counted(None), meter)?;
    let lanes = RunningLanes { judge, external: Some(external), pending, kept, leaves };
    let journal = places.journal.cloned();
    let links = PipelineLinks { metrics, journal, lanes: lanes.handles() };
    Ok((links, lanes))
}

/// The evaluators that are known to ask a judge, each with its judge.
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

/// Starts the lane of the judges; its evaluations are counted like all others.
fn start(
    (judges, judging): (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
    (places, asking): (LanePlaces<'_>, Vec<(String, String)>),
    outlet: &Outlet,
    meter: &Meter,
) -> Result<JudgeLane, JudgeStartError> {
    let has_budget = judges.values().any(|judge| judge.budget != Default::default());
    if has_budget && places.data_dir.is_none() {
        tracing::warn!("budgets of judges start anew with the process: there is no `data_dir`");
    }
    let log = places.journal.map(|journal| Arc::clone(journal) as Arc<dyn AnswerLog>);
    let settings = LaneSettings {
        judges,
        asking,
        recording: None,
        spent_file: places.data_dir.map(|folder| folder.join(SPENT_FILE)),
        log,
        watch: places.spans.map(|spans| calls::watch(spans.clone())),
    };
    JudgeLane::start(settings, judging, Arc::clone(outlet), meter)
}
