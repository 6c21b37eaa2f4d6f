//! What of recorded traces is asked again, and what comes of it.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::letters::{LetterKey, UnansweredLetter};
use crate::cli::score::replies::{CommandJudges, INQUIRIES_BYTES_MAX};
use crate::cli::{CommandError, output};
use crate::emit::record;
use crate::evaluate::{AskedInquiry, AskedTarget};
use crate::model::Evaluation;
use crate::pipeline::batch::JudgedGroup;

/// What came of all letters.
#[derive(Default)]
pub(super) struct Rejudged {
    /// What was answered.
    pub(super) evaluations: Vec<Evaluation>,
    /// The ids in the letters of those.
    pub(super) answered: HashSet<String>,
    /// Letters that have no answer again.
    pub(super) unanswered: usize,
    /// Letters that nothing in the files belongs to.
    pub(super) missing: usize,
}

/// Takes what was judged, and asks about what has a letter.
pub(super) struct Rejudging {
    letters: BTreeMap<LetterKey, UnansweredLetter>,
    judges: CommandJudges,
    waiting: Vec<(UnansweredLetter, AskedInquiry)>,
    waiting_bytes: usize,
    done: Rejudged,
    failure: Option<CommandError>,
}

impl Rejudging {
    pub(super) fn new(
        letters: BTreeMap<LetterKey, UnansweredLetter>,
        judges: CommandJudges,
    ) -> Self {
        let waiting = Vec::new();
        let done = Rejudged::default();
        Self { letters, judges, waiting, waiting_bytes: 0, done, failure: None }
    }

    /// Takes what was said of a trace or session; false where no more can be taken.
    pub(super) fn take(&mut self, group: JudgedGroup) -> bool {
        let taken = self.take_group(group);
        self.failure = taken.err();
        self.failure.is_none()
    }

    /// Why no more could be taken.
    pub(super) fn failure(&mut self) -> Result<(), CommandError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn take_group(&mut self, group: JudgedGroup) -> Result<(), CommandError> {
        // What code alone knows needs no judge.
        for mut evaluation in group.evaluations {
            if let Some(letter) = self.letter_of(&evaluation) {
                (evaluation.revision, evaluation.revises) = place_of(letter, &evaluation);
                evaluation.supersedes = Some(letter.verdict);
                self.keep(letter, vec![evaluation])?;
            }
        }
        // Letters are of judges alone.
        for mut asked in AskedTarget::by_lane(group.asked).0 {
            let Some(letter) = self.letter_of(&asked.evaluation) else { continue };
            let (revision, revises) = place_of(letter, &asked.evaluation);
            asked.take_place_of((revision, revises, &[]));
            asked.evaluation.supersedes = Some(letter.verdict);
            self.waiting_bytes += asked.bytes();
            self.waiting.push((letter, asked));
        }
        if self.waiting_bytes > INQUIRIES_BYTES_MAX { self.ask() } else { Ok(()) }
    }

    fn letter_of(&mut self, evaluation: &Evaluation) -> Option<UnansweredLetter> {
        let key = (evaluation.evaluator.name.clone(), evaluation.target.trace_id);
        self.letters.remove(&key)
    }

    fn ask(&mut self) -> Result<(), CommandError> {
        self.waiting_bytes = 0;
        let (letters, asked): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        let answers = self.judges.ask(asked)?;
        letters.into_iter().zip(answers).try_for_each(|(letter, said)| self.keep(letter, said))
    }

    fn keep(
        &mut self,
        letter: UnansweredLetter,
        evaluations: Vec<Evaluation>,
    ) -> Result<(), CommandError> {
        for evaluation in &evaluations {
            let mut line = String::new();
            record::write(evaluation, true, &mut line);
            output::record(line)?;
        }
        if evaluations.first().is_none_or(|first| first.outcome.is_unanswered()) {
            self.done.unanswered += 1;
        } else {
            self.done.answered.insert(letter.id.to_string());
            self.done.evaluations.extend(evaluations);
        }
        Ok(())
    }

    /// Asks about what still waits.
    pub(super) fn finish(mut self) -> Result<Rejudged, CommandError> {
        self.ask()?;
        self.done.missing = self.letters.len();
        Ok(self.done)
    }
}

/// Revision and what it revises: the letter's own where the evidence is the same, else the letter's
/// evaluation is revised.
fn place_of(
    letter: UnansweredLetter,
    evaluation: &Evaluation,
) -> (u32, Option<crate::model::EvaluationId>) {
    if evaluation.id == letter.id {
        (letter.revision, letter.revises)
    } else {
        (letter.revision.saturating_add(1), Some(letter.id))
    }
}
