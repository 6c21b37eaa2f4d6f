//! Collection of evaluations into rows; judges are asked in batches of bounded size.

use std::io;

use super::pages::ScorePages;
use super::replies::{CommandJudges, INQUIRIES_BYTES_MAX};
use super::rows::{RowPlace, RowSpool};
use super::silence::Heard;
use super::tally::Tallies;
use crate::cli::CommandError;
use spanscore_base::model::Evaluation;
use spanscore_engine::batch::{BatchError, JudgedGroup};
use spanscore_evaluate::AskedTarget;

/// Spool of the rows, and pages that show them.
pub(super) type ScoreSinks<'s> = (&'s RowSpool, Option<&'s ScorePages>);

/// Scores of some traces, prepared on the thread that judged them.
pub(super) struct PreparedScores {
    places: io::Result<Vec<RowPlace>>,
    heard: Heard,
    tallies: Tallies,
    /// Groups with inquiries to judges.
    waiting: Vec<JudgedGroup>,
}

impl PreparedScores {
    /// Writes all groups without inquiries, and counts them, starting from `empty`.
    pub(super) fn new(
        (spool, pages): ScoreSinks<'_>,
        empty: &Tallies,
        groups: Vec<JudgedGroup>,
    ) -> Self {
        let (said, waiting): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.asked.is_empty());
        let mut heard = Heard::default();
        let mut tallies = empty.clone();
        for evaluation in said.iter().flat_map(|group| &group.evaluations) {
            heard.add(evaluation);
            tallies.add_evaluation(evaluation);
        }
        for (pages, group) in pages.iter().flat_map(|pages| said.iter().map(move |it| (pages, it)))
        {
            pages.keep_evaluations(&group.evaluations);
        }
        let records = said.iter().map(|group| (group.order, group.evaluations.as_slice()));
        Self { places: spool.write(records), heard, tallies, waiting }
    }
}

/// Rows, counts and pending inquiries so far.
pub(super) struct ScoreGathering<'s> {
    pub(super) places: Vec<RowPlace>,
    pub(super) heard: Heard,
    pub(super) tallies: Tallies,
    /// Empty counts, the start of all others.
    empty: &'s Tallies,
    sinks: ScoreSinks<'s>,
    judges: CommandJudges,
    waiting: Vec<JudgedGroup>,
    waiting_bytes: usize,
    failure: Option<CommandError>,
}

impl<'s> ScoreGathering<'s> {
    pub(super) fn new(judges: CommandJudges, empty: &'s Tallies, sinks: ScoreSinks<'s>) -> Self {
        Self {
            places: Vec::new(),
            heard: Heard::default(),
            tallies: empty.clone(),
            empty,
            sinks,
            judges,
            waiting: Vec::new(),
            waiting_bytes: 0,
            failure: None,
        }
    }

    /// Takes prepared scores; returns false to stop.
    pub(super) fn take(&mut self, prepared: PreparedScores) -> bool {
        let mut taken = self.keep(prepared.places, prepared.heard, &prepared.tallies);
        for group in prepared.waiting {
            self.waiting_bytes += group.asked.iter().map(AskedTarget::bytes).sum::<usize>();
            self.waiting.push(group);
            if taken.is_ok() && self.waiting_bytes > INQUIRIES_BYTES_MAX {
                taken = self.ask();
            }
        }
        self.failure = taken.err();
        self.failure.is_none()
    }

    /// Asks the remaining inquiries.
    pub(super) fn finish(&mut self) -> Result<(), CommandError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.ask(),
        }
    }

    fn ask(&mut self) -> Result<(), CommandError> {
        self.waiting_bytes = 0;
        let mut groups = std::mem::take(&mut self.waiting);
        let counts: Vec<usize> = groups.iter().map(|group| group.asked.len()).collect();
        let asked = groups.iter_mut().flat_map(|group| std::mem::take(&mut group.asked)).collect();
        let mut answers = self.judges.ask_all(asked)?.into_iter();
        for (group, count) in groups.iter_mut().zip(counts) {
            let said: Vec<Evaluation> = answers.by_ref().take(count).flatten().collect();
            group.evaluations.extend(said);
        }
        let PreparedScores { places, heard, tallies, .. } =
            PreparedScores::new(self.sinks, self.empty, groups);
        self.keep(places, heard, &tallies)
    }

    fn keep(
        &mut self,
        places: io::Result<Vec<RowPlace>>,
        heard: Heard,
        tallies: &Tallies,
    ) -> Result<(), CommandError> {
        self.heard.merge(heard);
        self.tallies.merge(tallies);
        let places = places.map_err(|error| CommandError::from(BatchError::Spool(error)))?;
        self.places.extend(places);
        Ok(())
    }
}
