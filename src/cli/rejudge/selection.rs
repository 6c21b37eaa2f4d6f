//! Selection of what is asked again: evaluations that judges did not answer, and those by a version
//! of the evaluator that the config has no more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashSet;

use super::earlier::{EarlierKey, EarlierVerdict, RejudgedBefore, key_of, place_of};
use spanscore_base::model::{ClientGroup, Evaluation, Level};
use spanscore_engine::batch::JudgedGroup;
use spanscore_evaluate::engine::run::{Against, Configured};
use spanscore_evaluate::{AskedTarget, JudgeRequest};

/// Evaluations of one trace or session that are asked again, each with its earlier verdict.
#[derive(Default)]
pub(super) struct SelectedGroup {
    /// Those that need no judge on the evidence of today.
    pub(super) known: Vec<(EarlierVerdict, Evaluation)>,
    /// Those that ask one.
    pub(super) asked: Vec<(EarlierVerdict, JudgeRequest)>,
}

/// Earlier verdict whose target was not judged again.
pub(super) struct MissingVerdict {
    pub(super) key: EarlierKey,
    pub(super) reason: &'static str,
    /// True if it may be by the evaluator that the config has.
    pub(super) may_be_current: bool,
}

/// Earlier verdicts that were not met yet.
#[derive(Clone, Default)]
pub(super) struct RejudgeSelection {
    earlier: BTreeMap<EarlierKey, EarlierVerdict>,
    /// True if the evidence tells which clients sent it, which recordings do not.
    tells_groups: bool,
    /// Verdicts of several groups of clients on a trace that may be of any of them.
    ambiguous: BTreeSet<EarlierKey>,
    /// Verdicts by the evaluators that the config has.
    pub(super) unchanged: usize,
}

impl RejudgeSelection {
    /// Takes the verdicts of evaluators that ask a judge, for evidence that tells the groups of its
    /// clients, or does not.
    pub(super) fn new(
        earlier: RejudgedBefore,
        evaluators: &[Configured],
        tells_groups: bool,
    ) -> Self {
        let mut earlier = earlier.kept;
        earlier.retain(|(name, _, span_id, _), _| {
            let of = evaluators.iter().find(|it| it.info.name == *name);
            let of = of.filter(|it| it.asks && !it.is_external());
            // Judged kinds give rows of calls beside that of the trace, with which they come.
            of.is_some_and(|it| (it.info.level == Level::Call) == span_id.is_some())
        });
        Self { earlier, tells_groups, ..Self::default() }
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
            if let Some((earlier, group)) = self.earlier_of(&evaluation) {
                of_group(&mut evaluation, group);
                (evaluation.revision, evaluation.revises) = place_of(&earlier, &evaluation);
                evaluation.supersedes = Some(earlier.verdict);
                selected.known.push((earlier, evaluation));
            }
        }
        for mut asked in AskedTarget::by_lane(group.asked).0 {
            let Some((earlier, group)) = self.earlier_of(&asked.evaluation) else { continue };
            let all = std::iter::once(&mut asked.evaluation).chain(&mut asked.calls);
            all.for_each(|it| of_group(it, group));
            let (revision, revises) = place_of(&earlier, &asked.evaluation);
            asked.take_place_of((revision, revises, &[]));
            asked.evaluation.supersedes = Some(earlier.verdict);
            selected.asked.push((earlier, asked));
        }
        selected
    }

    fn earlier_of(&mut self, evaluation: &Evaluation) -> Option<(EarlierVerdict, ClientGroup)> {
        let key = self.key_met_by(evaluation)?;
        let earlier = self.earlier.remove(&key)?;
        let is_touched = earlier.is_unanswered || earlier.version != evaluation.evaluator.digest;
        self.unchanged += usize::from(!is_touched);
        is_touched.then_some((earlier, key.3))
    }

    /// Returns the key of the only earlier verdict that the evaluation can be a revision of.
    fn key_met_by(&mut self, evaluation: &Evaluation) -> Option<EarlierKey> {
        let key = key_of(evaluation);
        if self.tells_groups {
            return Some(key);
        }
        let [first, last] = [[0; 8], [u8::MAX; 8]].map(ClientGroup::from_bytes);
        let of = |group| (key.0.clone(), key.1, key.2, group);
        let mut found: Vec<_> =
            self.earlier.range(of(first)..=of(last)).map(|(key, _)| key.clone()).collect();
        if found.len() > 1 {
            self.ambiguous.extend(found);
            return None;
        }
        found.pop()
    }

    /// Returns the verdicts whose target was not met; those of an evaluator that the config has in
    /// that version are unchanged.
    pub(super) fn missing(&mut self, evaluators: &[Configured]) -> Vec<MissingVerdict> {
        let earlier = std::mem::take(&mut self.earlier);
        let is_current = |name: &str, earlier: &EarlierVerdict| {
            let versions = evaluators.iter().filter(|it| it.info.name == name);
            versions.into_iter().any(|it| it.info.digest == earlier.version)
        };
        let (current, missing): (Vec<_>, Vec<_>) = earlier
            .into_iter()
            .partition(|((name, ..), it)| !it.is_unanswered && is_current(name, it));
        self.unchanged += current.len();
        // Their version has the criteria in it, too, and those are known with the trace alone.
        let is_known = |name: &str| {
            let of = evaluators.iter().find(|it| it.info.name == name);
            of.is_none_or(|it| matches!(it.against, Against::Settings(_)))
        };
        let missing = missing.into_iter().map(|(key, earlier)| {
            let is_ambiguous = self.ambiguous.contains(&key);
            let may_be_current = !earlier.is_unanswered && !is_ambiguous && !is_known(&key.0);
            let reason = if is_ambiguous {
                "several groups of clients have verdicts on the trace, and files do not tell whose \
                 it is: judge the runs of the store"
            } else if may_be_current {
                "its trace is missing, without which a change of its expectation is not known"
            } else {
                "its trace is missing, or the evaluator does not see it"
            };
            MissingVerdict { key, reason, may_be_current }
        });
        missing.collect()
    }
}

fn of_group(evaluation: &mut Evaluation, group: ClientGroup) {
    if evaluation.target.sender.group != group {
        Arc::make_mut(&mut evaluation.target).sender.group = group;
    }
}
