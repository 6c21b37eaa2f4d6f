//! Selection of evaluations without an answer, and their second inquiry.

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::letters::{LetterKey, UnansweredLetter};
use crate::cli::score::replies::{CommandJudges, INQUIRIES_BYTES_MAX};
use crate::cli::{CommandError, output};
use spanscore_base::model::Evaluation;
use spanscore_emit::record;
use spanscore_engine::batch::JudgedGroup;
use spanscore_evaluate::{AskedTarget, JudgeRequest};

/// Result over all letters.
#[derive(Default)]
pub(super) struct Rejudged {
    /// Answered evaluations.
    pub(super) evaluations: Vec<Evaluation>,
    /// Evaluation ids of their letters.
    pub(super) answered: HashSet<String>,
    /// Letters that remain without an answer.
    pub(super) unanswered: usize,
    /// Letters without a matching trace in the files.
    pub(super) missing: usize,
}

/// Consumer of judged groups, which asks again about those with a letter.
pub(super) struct Rejudging {
    letters: BTreeMap<LetterKey, UnansweredLetter>,
    judges: CommandJudges,
    waiting: Vec<(UnansweredLetter, JudgeRequest)>,
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

    /// Takes the evaluations of a trace or session; returns false to stop.
    pub(super) fn take(&mut self, group: JudgedGroup) -> bool {
        let taken = self.take_group(group);
        self.failure = taken.err();
        self.failure.is_none()
    }

    /// Returns the error that stopped it, if there is one.
    pub(super) fn failure(&mut self) -> Result<(), CommandError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    fn take_group(&mut self, group: JudgedGroup) -> Result<(), CommandError> {
        // These need no judge on the evidence of today.
        for mut evaluation in group.evaluations {
            if let Some(letter) = self.letter_of(&evaluation) {
                (evaluation.revision, evaluation.revises) = place_of(letter, &evaluation);
                evaluation.supersedes = Some(letter.verdict);
                self.keep(letter, vec![evaluation])?;
            }
        }
        // Letters are written for judges only, not for external evaluators.
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

    /// Asks the remaining inquiries.
    pub(super) fn finish(mut self) -> Result<Rejudged, CommandError> {
        self.ask()?;
        self.done.missing = self.letters.len();
        Ok(self.done)
    }
}

/// Returns the revision, and the evaluation that it revises: those of the letter if the evidence is
/// the same, else a revision of the letter's evaluation.
fn place_of(
    letter: UnansweredLetter,
    evaluation: &Evaluation,
) -> (u32, Option<spanscore_base::model::EvaluationId>) {
    if evaluation.id == letter.id {
        (letter.revision, letter.revises)
    } else {
        (letter.revision.saturating_add(1), Some(letter.id))
    }
}
