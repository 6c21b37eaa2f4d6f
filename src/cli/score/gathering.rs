//! Evaluations on their way to the rows; what waits for judges is asked before it grows large.

use super::replies::{CommandJudges, INQUIRIES_BYTES_MAX};
use super::rows::ScoreRows;
use super::silence::Heard;
use super::tally::{Tallied, Tallies};
use crate::cli::CommandError;
use crate::evaluate::AskedTarget;
use crate::model::Evaluation;
use crate::pipeline::batch::{BatchError, BatchOrder, JudgedGroup};

/// What has come so far.
pub(super) struct ScoreGathering {
    pub(super) rows: ScoreRows,
    pub(super) heard: Heard,
    pub(super) tallies: Tallies,
    judges: CommandJudges,
    waiting: Vec<JudgedGroup>,
    waiting_bytes: usize,
    failure: Option<CommandError>,
}

impl ScoreGathering {
    pub(super) fn new(judges: CommandJudges, tallies: Tallies) -> Self {
        Self {
            rows: ScoreRows::new(),
            heard: Heard::default(),
            tallies,
            judges,
            waiting: Vec::new(),
            waiting_bytes: 0,
            failure: None,
        }
    }

    /// Takes what was said of one trace or session; false where no more can be taken.
    pub(super) fn take(&mut self, group: JudgedGroup) -> bool {
        let taken = if group.asked.is_empty() {
            self.keep(group.order, &group.evaluations)
        } else {
            self.waiting_bytes += group.asked.iter().map(AskedTarget::bytes).sum::<usize>();
            self.waiting.push(group);
            if self.waiting_bytes > INQUIRIES_BYTES_MAX { self.ask() } else { Ok(()) }
        };
        self.failure = taken.err();
        self.failure.is_none()
    }

    /// Asks about what still waits, and ends the rows.
    pub(super) fn finish(&mut self) -> Result<(), CommandError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.ask()?;
        self.rows.finish().map_err(|error| BatchError::Spool(error).into_command())
    }

    fn ask(&mut self) -> Result<(), CommandError> {
        self.waiting_bytes = 0;
        let mut groups = std::mem::take(&mut self.waiting);
        let counts: Vec<usize> = groups.iter().map(|group| group.asked.len()).collect();
        let asked = groups.iter_mut().flat_map(|group| std::mem::take(&mut group.asked)).collect();
        let mut answers = self.judges.ask_all(asked)?.into_iter();
        for (group, count) in groups.into_iter().zip(counts) {
            let said = answers.by_ref().take(count).flatten();
            let all: Vec<Evaluation> = group.evaluations.into_iter().chain(said).collect();
            self.keep(group.order, &all)?;
        }
        Ok(())
    }

    fn keep(&mut self, order: BatchOrder, evaluations: &[Evaluation]) -> Result<(), CommandError> {
        for evaluation in evaluations {
            self.heard.add(evaluation);
            self.tallies.add(&evaluation.evaluator.name, Tallied::of(evaluation));
        }
        let kept = self.rows.push(order, evaluations);
        kept.map_err(|error| BatchError::Spool(error).into_command())
    }
}
