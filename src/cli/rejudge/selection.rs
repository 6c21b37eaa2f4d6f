//! Selection of what is asked again: evaluations that judges did not answer, and those by a version
//! of the evaluator that the config has no more.

use hashbrown::HashSet;

use super::earlier::{EarlierKey, EarlierVerdict, EarlierVerdicts, key_of, place_of};
use spanscore_base::model::{Evaluation, Level};
use spanscore_engine::batch::JudgedGroup;
use spanscore_evaluate::engine::run::Configured;
use spanscore_evaluate::{AskedTarget, JudgeRequest};

/// Evaluations of one trace or session that are asked again, each with its earlier verdict.
#[derive(Default)]
pub(super) struct SelectedGroup {
    /// Those that need no judge on the evidence of today.
    pub(super) known: Vec<(EarlierVerdict, Evaluation)>,
    /// Those that ask one.
    pub(super) asked: Vec<(EarlierVerdict, JudgeRequest)>,
}

/// Earlier verdicts that were not met yet.
#[derive(Clone, Default)]
pub(super) struct Selection {
    earlier: EarlierVerdicts,
    /// Verdicts by the evaluators that the config has.
    pub(super) unchanged: usize,
}

impl Selection {
    /// Takes the verdicts of evaluators that ask a judge.
    pub(super) fn new(mut earlier: EarlierVerdicts, evaluators: &[Configured]) -> Self {
        earlier.retain(|(name, _, span_id), _| {
            let of = evaluators.iter().find(|it| it.info.name == *name);
            let of = of.filter(|it| it.asks && !it.is_external());
            // Judged kinds give rows of calls beside that of the trace, with which they come.
            of.is_some_and(|it| (it.info.level == Level::Call) == span_id.is_some())
        });
        Self { earlier, unchanged: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.earlier.is_empty()
    }

    /// Returns the ids of all earlier verdicts.
    pub(super) fn ids(&self) -> Vec<String> {
        self.earlier.values().map(|it| it.id.to_string()).collect()
    }

    /// Leaves out the verdicts of these ids.
    pub(super) fn leave_out(&mut self, ids: &HashSet<String>) {
        self.earlier.retain(|_, it| !ids.contains(&it.id.to_string()));
    }

    /// Returns what is asked again of a trace or session, in the place of its earlier verdicts.
    pub(super) fn take(&mut self, group: JudgedGroup) -> SelectedGroup {
        let mut selected = SelectedGroup::default();
        for mut evaluation in group.evaluations {
            if let Some(earlier) = self.earlier_of(&evaluation) {
                (evaluation.revision, evaluation.revises) = place_of(&earlier, &evaluation);
                evaluation.supersedes = Some(earlier.verdict);
                selected.known.push((earlier, evaluation));
            }
        }
        for mut asked in AskedTarget::by_lane(group.asked).0 {
            let Some(earlier) = self.earlier_of(&asked.evaluation) else { continue };
            let (revision, revises) = place_of(&earlier, &asked.evaluation);
            asked.take_place_of((revision, revises, &[]));
            asked.evaluation.supersedes = Some(earlier.verdict);
            selected.asked.push((earlier, asked));
        }
        selected
    }

    fn earlier_of(&mut self, evaluation: &Evaluation) -> Option<EarlierVerdict> {
        let earlier = self.earlier.remove(&key_of(evaluation))?;
        let is_touched = earlier.is_unanswered || earlier.version != evaluation.evaluator.digest;
        self.unchanged += usize::from(!is_touched);
        is_touched.then_some(earlier)
    }

    /// Returns the verdicts whose target was not met; those of an evaluator that the config has in
    /// that version are unchanged.
    pub(super) fn missing(&mut self, evaluators: &[Configured]) -> Vec<EarlierKey> {
        let earlier = std::mem::take(&mut self.earlier);
        let is_current = |name: &str, earlier: &EarlierVerdict| {
            let versions = evaluators.iter().filter(|it| it.info.name == name);
            versions.into_iter().any(|it| it.info.digest == earlier.version)
        };
        let (current, missing): (Vec<_>, Vec<_>) = earlier
            .into_iter()
            .partition(|((name, ..), it)| !it.is_unanswered && is_current(name, it));
        self.unchanged += current.len();
        missing.into_iter().map(|(key, _)| key).collect()
    }
}
