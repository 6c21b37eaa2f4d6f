//! The lane of judges, joined to the pipeline.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use opentelemetry::metrics::Meter;

use super::journal::Journal;
use super::metrics::PipelineMetrics;
use super::{Outlet, PipelineLinks};
use crate::evaluate::engine::run::Evaluators;
use crate::judge::{
    AnswerLog, JudgeLane, JudgeSettings, JudgeStartError, JudgingSettings, LaneSettings,
};

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
    evaluators: &Evaluators,
    outlet: &Outlet,
    meter: &Meter,
) -> Result<(PipelineLinks, Option<JudgeLane>), JudgeStartError> {
    let metrics = Arc::new(PipelineMetrics::new(meter, evaluators));
    let lane = match evaluators.asks_judges() {
        true => Some(start(judges, places, &metrics, outlet, meter)?),
        false => None,
    };
    let links = PipelineLinks {
        metrics,
        journal: places.journal.cloned(),
        lane: lane.as_ref().map(JudgeLane::handle),
    };
    Ok((links, lane))
}

/// Starts the lane; its evaluations are counted like all others.
fn start(
    (judges, judging): (&BTreeMap<String, JudgeSettings>, &JudgingSettings),
    places: LanePlaces<'_>,
    metrics: &Arc<PipelineMetrics>,
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
        recording: None,
        spent_file: places.data_dir.map(|folder| folder.join(SPENT_FILE)),
        log,
    };
    let (metrics, outlet) = (Arc::clone(metrics), Arc::clone(outlet));
    let counted = move |evaluations: Vec<_>, receipt| {
        metrics.evaluations(&evaluations);
        outlet(evaluations, receipt);
    };
    JudgeLane::start(settings, judging, Arc::new(counted), meter)
}
