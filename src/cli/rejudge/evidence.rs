//! Evidence to judge again: recordings, or runs in the store.

use std::path::PathBuf;

use hashbrown::HashMap;

use super::earlier::{EarlierKey, EarlierVerdict, RejudgedBefore, is_unanswered};
use crate::cli::stored::backfill::needs::EvaluatorNeeds;
use crate::cli::stored::filter::FilterArgs;
use crate::cli::stored::{StoreArgs, pages};
use crate::cli::{CommandError, output};
use crate::config::ResolvedConfig;
use spanscore_base::model::{Completion, GivenVerdict};
use spanscore_base::visible;
use spanscore_engine::batch::{Batch, BatchOrder, BatchPlan, BatchProgress, JudgedGroup};
use spanscore_evaluate::engine::run::{Evaluators, Evidence};
use spanscore_net::clock::now_ns;
use spanscore_pipeline::recordings;
use spanscore_store::query::{KnownVerdict, RestoredRun, StoreFilter, StoreReader};

/// Stored runs read at once.
const PAGE_RUNS: usize = 200;
/// Limit on verdicts whose reason for not being judged is remembered.
const UNMET_MAX: usize = 100_000;

/// Callback for the evaluations and inquiries of each trace or session.
pub(super) type GroupVisit<'a> = &'a mut dyn FnMut(JudgedGroup) -> Result<(), CommandError>;

/// Judges the files, and reports their problems the first time; returns true if a part could not be
/// read.
pub(super) fn judge_files(
    settings: BatchPlan<'_>,
    (files, is_told): (&[PathBuf], bool),
    visit: GroupVisit<'_>,
) -> Result<bool, CommandError> {
    let mut is_broken = false;
    let mut problem = |said: String| {
        if !is_told {
            output::note(format_args!("spanscore: {}", visible::line(said)));
        }
        is_broken = true;
    };
    let progress = BatchProgress::default();
    let mut batch = Batch::new(settings);
    recordings::read(&mut batch, files, &progress, &mut problem).map_err(anyhow::Error::new)?;
    let mut failure = None;
    let judged = batch.judge(&progress, &mut |group| {
        failure = visit(group).err();
        failure.is_none()
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    judged.map_err(anyhow::Error::new)?;
    Ok(is_broken)
}

/// Stored runs that match a filter.
pub(super) struct StoredEvidence {
    reader: StoreReader,
    filter: StoreFilter,
    /// Step limit of each run.
    steps: u64,
    now_ns: u64,
}

impl StoredEvidence {
    /// Opens the store.
    pub(super) fn open(
        store: &StoreArgs,
        filter: &FilterArgs,
        plan: &ResolvedConfig,
    ) -> Result<Self, CommandError> {
        Ok(Self {
            filter: filter.read(&[])?,
            reader: store.open_in(&plan.config)?,
            steps: u64::from(plan.config.limits.trace_steps),
            now_ns: now_ns(),
        })
    }

    fn each(
        &self,
        mut visit: impl FnMut(&RestoredRun) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let read = |after| self.reader.restored_runs(&self.filter, after, PAGE_RUNS);
        pages(read, |run| visit(&run))
    }

    /// Reads the verdicts on all runs.
    pub(super) fn earlier(&self, into: &mut RejudgedBefore) -> Result<(), CommandError> {
        self.each(|run| {
            for known in &run.verdicts {
                into.insert(key_of(run, known), earlier(known));
            }
            Ok(())
        })
    }

    /// Judges the runs; returns the reasons for those that an evaluator cannot judge.
    pub(super) fn judge(
        &self,
        evaluators: &Evaluators,
        visit: GroupVisit<'_>,
    ) -> Result<HashMap<EarlierKey, String>, CommandError> {
        let needs = evaluators.evaluators().iter().filter(|it| it.asks);
        let needs: HashMap<&str, _> =
            needs.map(|it| (&*it.info.name, EvaluatorNeeds::of_judged(it))).collect();
        let mut all_unmet = HashMap::new();
        self.each(|run| {
            let mut group = JudgedGroup {
                order: BatchOrder::Trace(0),
                evaluations: Vec::new(),
                asked: Vec::new(),
            };
            let cannot = match run.trajectory(self.steps) {
                Err(reason) => Some(reason),
                Ok(mut trajectory) => {
                    // Equal for the same run, in any order and at each judging.
                    let evidence =
                        Evidence::first(run.trace_id.0, Completion::EndOfInput, self.now_ns);
                    let evidence = Evidence { is_partial: true, ..evidence };
                    let JudgedGroup { evaluations, asked, .. } = &mut group;
                    let reported = &mut Vec::new();
                    evaluators
                        .evaluate_or_ask(&mut trajectory, evidence, reported, evaluations, asked);
                    None
                }
            };
            let unmet = |needs: &Result<EvaluatorNeeds, &str>| match (cannot, needs) {
                (Some(reason), _) => Some(reason.to_owned()),
                (None, Err(reason)) => Some((*reason).to_owned()),
                (None, Ok(needs)) => needs.unmet_by(run),
            };
            let unmet: HashMap<&str, String> =
                needs.iter().filter_map(|(name, its)| Some((*name, unmet(its)?))).collect();
            group.evaluations.retain(|it| !unmet.contains_key(&*it.evaluator.name));
            group.asked.retain(|it| !unmet.contains_key(it.evaluator()));
            for known in &run.verdicts {
                if let Some(reason) = unmet.get(&*known.evaluator)
                    && all_unmet.len() < UNMET_MAX
                {
                    all_unmet.insert(key_of(run, known), reason.clone());
                }
            }
            visit(group)
        })?;
        Ok(all_unmet)
    }
}

fn key_of(run: &RestoredRun, known: &KnownVerdict) -> EarlierKey {
    let span_id = known.is_of_call.then_some(known.span_id);
    (known.evaluator.clone(), run.trace_id, span_id, run.group)
}

fn earlier(known: &KnownVerdict) -> EarlierVerdict {
    let verdict = known.verdict.parse().unwrap_or(GivenVerdict::Failed);
    EarlierVerdict {
        id: known.id,
        verdict,
        score: known.score,
        is_unanswered: is_unanswered(verdict, known.reason.as_deref()),
        version: known.version,
        revision: known.revision,
        // The revised id is not needed: an evaluation of stored evidence is a revision of it.
        revises: None,
    }
}
