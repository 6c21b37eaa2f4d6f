//! Second inquiries for the selected evaluations.

use hashbrown::HashSet;

use super::earlier::EarlierVerdict;
use super::selection::{RejudgeSelection, SelectedGroup};
use crate::cli::score::replies::{CommandJudges, INQUIRIES_BYTES_MAX};
use crate::cli::{CommandError, output};
use spanscore_base::model::Evaluation;
use spanscore_emit::record;
use spanscore_engine::batch::JudgedGroup;
use spanscore_evaluate::JudgeRequest;

/// Callback for answers: the earlier verdict and its new evaluation.
pub(super) type AnswerWatch<'a> = &'a mut dyn FnMut(&EarlierVerdict, &Evaluation);

/// Result of all second inquiries.
#[derive(Default)]
pub(super) struct Rejudged {
    /// Answered evaluations.
    pub(super) evaluations: Vec<Evaluation>,
    /// Evaluation ids of their earlier verdicts.
    pub(super) answered: HashSet<String>,
    /// Evaluations still without an answer.
    pub(super) unanswered: usize,
    /// Cost of all, US dollars.
    pub(super) cost_usd: f64,
}

/// Consumer of judged groups, which asks again about selected evaluations.
pub(super) struct Rejudging<'a> {
    pub(super) selection: RejudgeSelection,
    judges: &'a CommandJudges,
    watch: AnswerWatch<'a>,
    waiting: Vec<(EarlierVerdict, JudgeRequest)>,
    waiting_bytes: usize,
    done: Rejudged,
}

impl<'a> Rejudging<'a> {
    pub(super) fn new(
        selection: RejudgeSelection,
        judges: &'a CommandJudges,
        watch: AnswerWatch<'a>,
    ) -> Self {
        let done = Rejudged::default();
        Self { selection, judges, watch, waiting: Vec::new(), waiting_bytes: 0, done }
    }

    /// Takes the evaluations of a trace or session.
    pub(super) fn take(&mut self, group: JudgedGroup) -> Result<(), CommandError> {
        let SelectedGroup { known, asked } = self.selection.take(group);
        known.into_iter().try_for_each(|(earlier, one)| self.keep(&earlier, vec![one]))?;
        for (earlier, asked) in asked {
            self.waiting_bytes += asked.bytes();
            self.waiting.push((earlier, asked));
        }
        if self.waiting_bytes > INQUIRIES_BYTES_MAX { self.ask() } else { Ok(()) }
    }

    fn ask(&mut self) -> Result<(), CommandError> {
        self.waiting_bytes = 0;
        let (earlier, asked): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        let answers = self.judges.ask(asked)?;
        earlier.iter().zip(answers).try_for_each(|(earlier, said)| self.keep(earlier, said))
    }

    fn keep(
        &mut self,
        earlier: &EarlierVerdict,
        evaluations: Vec<Evaluation>,
    ) -> Result<(), CommandError> {
        for evaluation in &evaluations {
            let mut line = String::new();
            record::write(evaluation, true, &mut line);
            output::record(line)?;
        }
        let first = evaluations.first();
        let used = first.and_then(|it| it.judge.as_deref());
        self.done.cost_usd += used.map_or(0.0, |it| it.cost_usd);
        match first.filter(|first| !first.outcome.is_unanswered()) {
            None => self.done.unanswered += 1,
            Some(first) => {
                (self.watch)(earlier, first);
                self.done.answered.insert(earlier.id.to_string());
                self.done.evaluations.extend(evaluations);
            }
        }
        Ok(())
    }

    /// Asks the remaining inquiries.
    pub(super) fn finish(mut self) -> Result<(Rejudged, RejudgeSelection), CommandError> {
        self.ask()?;
        Ok((self.done, self.selection))
    }
}
