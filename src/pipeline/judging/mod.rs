//! The lane of judges, joined to the pipeline.

mod pending;
mod unanswered;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::metrics::Meter;

use super::journal::Journal;
use super::metrics::PipelineMetrics;
use super::{Outlet, PipelineLinks};
use crate::emit::forward::Forwards;
use crate::evaluate::AskedInquiry;
use crate::evaluate::engine::run::Evaluators;
use crate::judge::{
    AnswerLog, JudgeLane, JudgeSettings, JudgeStartError, JudgingSettings, LaneHandle, LaneSettings,
};
use crate::model::{Evaluation, EvaluationId, GivenVerdict, Receipt, Recent};

pub(super) use pending::PendingTraces;
use unanswered::UnansweredLetters;
pub use unanswered::{UNANSWERED_FILE, UNANSWERED_REASONS};

/// Verdicts of judges that are remembered, to say what a revision takes back.
const GIVEN_MAX: usize = 65_536;

/// The file, in the folder of the data, that holds what judges cost.
const SPENT_FILE: &str = "judges.json";

/// Where the lane keeps what must survive the process, if anywhere.
#[derive(Clone, Copy)]
pub(super) struct LanePlaces<'a> {
    /// For the answers.
    pub(super) journal: Option<&'a Arc<Journal>>,
    /// For what they cost.
    pub(super) data_dir: Option<&'a Path>,
}

/// What the pipeline works with beside its stages; the lane among it, where an evaluator asks a
/// judge.
pub(super) fn link(
    judges: (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
    places: LanePlaces<'_>,
    (evaluators, forwards): (&Evaluators, &Arc<Forwards>),
    outlet: &Outlet,
    meter: &Meter,
) -> Result<(PipelineLinks, Option<JudgeLane>), JudgeStartError> {
    let metrics = Arc::new(PipelineMetrics::new(meter, evaluators));
    let pending = Arc::new(PendingTraces::new(Arc::clone(forwards)));
    let lane = match evaluators.asks_judges() {
        true => {
            let outlet = JudgedOutlet {
                metrics: Arc::clone(&metrics),
                outlet: Arc::clone(outlet),
                pending: Arc::clone(&pending),
                letters: UnansweredLetters::start(places.data_dir, judges.1.dead_letter, meter),
                given: Mutex::new(Recent::new(GIVEN_MAX)),
            };
            Some(start(judges, places, outlet, meter)?)
        }
        false => None,
    };
    let links = PipelineLinks {
        metrics,
        journal: places.journal.cloned(),
        lane: lane.as_ref().map(|lane| LaneLink { handle: lane.handle(), pending }),
    };
    Ok((links, lane))
}

/// Starts the lane; its evaluations are counted like all others.
fn start(
    (judges, judging): (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
    places: LanePlaces<'_>,
    outlet: JudgedOutlet,
    meter: &Meter,
) -> Result<JudgeLane, JudgeStartError> {
    let has_budget = judges.values().any(|judge| judge.budget != Default::default());
    if has_budget && places.data_dir.is_none() {
        tracing::warn!("budgets of judges start anew with the process: there is no `data_dir`");
    }
    let log = places.journal.map(|journal| Arc::clone(journal) as Arc<dyn AnswerLog>);
    let settings = LaneSettings {
        judges,
        recording: None,
        spent_file: places.data_dir.map(|folder| folder.join(SPENT_FILE)),
        log,
    };
    let outlet = move |evaluations: Vec<_>, receipt| outlet.emit(evaluations, receipt);
    JudgeLane::start(settings, judging, Arc::new(outlet), meter)
}

/// The lane, as shards and sessions know it. Cheap to clone.
#[derive(Clone)]
pub(super) struct LaneLink {
    handle: LaneHandle,
    pending: Arc<PendingTraces>,
}

impl LaneLink {
    /// Hands inquiries in; never waits.
    pub(super) fn ask(&self, asked: Vec<AskedInquiry>, receipt: Option<&Receipt>) {
        self.handle.ask(asked, receipt);
    }

    /// Traces whose judged verdicts are waited for.
    pub(super) fn pending(&self) -> &PendingTraces {
        &self.pending
    }
}

/// Where the evaluations of the lane go.
struct JudgedOutlet {
    metrics: Arc<PipelineMetrics>,
    outlet: Outlet,
    pending: Arc<PendingTraces>,
    letters: Option<UnansweredLetters>,
    /// What judges said last, by evaluation.
    given: Mutex<Recent<EvaluationId, GivenVerdict>>,
}

impl JudgedOutlet {
    /// Hands out what came of one inquiry.
    fn emit(&self, mut evaluations: Vec<Evaluation>, receipt: Option<Receipt>) {
        self.supersede(&mut evaluations);
        self.metrics.evaluations(&evaluations);
        self.pending.told(&evaluations);
        if let Some(letters) = &self.letters {
            letters.keep(&evaluations);
        }
        (self.outlet)(evaluations, receipt);
    }

    /// Says of each which verdict it takes back, as far as that is remembered.
    fn supersede(&self, evaluations: &mut [Evaluation]) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        for evaluation in evaluations {
            let revised = evaluation.revises.and_then(|id| given.get(&id).copied());
            evaluation.supersedes = evaluation.supersedes.or(revised);
            given.keep(evaluation.id, evaluation.verdict(), 1);
        }
    }
}
