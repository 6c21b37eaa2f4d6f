//! Evidence and evaluators of a command, which can be judged repeatedly.

use std::path::PathBuf;

use hashbrown::HashMap;

use super::RejudgeArgs;
use super::asking::{AnswerWatch, Rejudged, Rejudging};
use super::earlier::EarlierKey;
use super::evidence::{GroupVisit, StoredEvidence, judge_files};
use super::export::export;
use super::selection::{MissingVerdict, RejudgeSelection};
use crate::cli::score::replies::CommandJudges;
use crate::cli::{CommandError, inputs, recorded};
use crate::config::ResolvedConfig;
use spanscore_base::model::Memory;
use spanscore_evaluate::engine::run::{Configured, Evaluators};
use spanscore_extract::Resolver;

/// Evidence and evaluators of a config.
pub(super) struct PreparedRun {
    /// The config, without its evaluators.
    plan: ResolvedConfig,
    resolver: Resolver,
    evaluators: Evaluators,
    files: Vec<PathBuf>,
    stored: Option<StoredEvidence>,
    /// True once the files have been read, and their problems reported.
    is_read: bool,
}

/// Answers, and the verdicts without a new inquiry.
pub(super) struct RejudgedEvidence {
    pub(super) rejudged: Rejudged,
    /// Verdicts by unchanged evaluators.
    pub(super) unchanged: usize,
    /// Verdicts whose target was not judged again.
    pub(super) missing: Vec<MissingVerdict>,
    /// Reasons for those of the store.
    pub(super) unmet: HashMap<EarlierKey, String>,
    /// True if a part of the files could not be read.
    pub(super) is_broken: bool,
}

impl PreparedRun {
    pub(super) fn new(args: &RejudgeArgs, mut plan: ResolvedConfig) -> Result<Self, CommandError> {
        let is_stored = args.files.is_empty();
        let stored = is_stored.then(|| StoredEvidence::open(&args.store, &args.filter, &plan));
        let resolver = recorded::resolver(&plan, &recorded::facts(&plan))?;
        let evaluators = recorded::judge(std::mem::take(&mut plan.evaluators));
        let files = inputs::expand(&args.files)?;
        Ok(Self { plan, resolver, evaluators, files, stored: stored.transpose()?, is_read: false })
    }

    /// Returns the judges, within the budget of the command.
    pub(super) fn judges(&self, args: &RejudgeArgs) -> CommandJudges {
        CommandJudges::new(self.plan.config.judges.clone(), &args.replies).within(args.budget)
    }

    pub(super) fn evaluators(&self) -> &[Configured] {
        self.evaluators.evaluators()
    }

    /// Judges the evidence; returns true if a part could not be read, and the reasons for stored
    /// runs that cannot be judged. Problems of files are reported the first time.
    pub(super) fn judge(
        &mut self,
        visit: GroupVisit<'_>,
    ) -> Result<(bool, HashMap<EarlierKey, String>), CommandError> {
        if let Some(stored) = &self.stored {
            return Ok((false, stored.judge(&self.evaluators, visit)?));
        }
        let settings = recorded::batch_plan(&self.plan.config, &self.resolver, &self.evaluators);
        let is_told = std::mem::replace(&mut self.is_read, true);
        Ok((judge_files(settings, (&self.files, is_told), visit)?, HashMap::new()))
    }

    /// Judges the evidence and asks about selected evaluations; exports the answers if the
    /// arguments require it.
    pub(super) fn ask(
        &mut self,
        (selection, judges): (RejudgeSelection, &CommandJudges),
        watch: AnswerWatch<'_>,
        args: &RejudgeArgs,
    ) -> Result<RejudgedEvidence, CommandError> {
        let mut rejudging = Rejudging::new(selection, judges, watch);
        let (is_broken, unmet) = self.judge(&mut |group| rejudging.take(group))?;
        let (rejudged, mut selection) = rejudging.finish()?;
        if args.export {
            let ResolvedConfig { config, exporters, memory, .. } = &self.plan;
            let within = config.shutdown_timeout.0;
            export(exporters, &Memory::new(memory), within, &rejudged.evaluations)?;
        }
        let missing = selection.missing(self.evaluators());
        let unchanged = selection.unchanged;
        Ok(RejudgedEvidence { rejudged, unchanged, missing, unmet, is_broken })
    }
}
