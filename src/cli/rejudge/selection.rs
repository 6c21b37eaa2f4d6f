//! Selection of evaluations to ask about again: unanswered ones, and those by a version of the
//! evaluator that is no longer in the config.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashSet;

use super::earlier::{EarlierKey, EarlierVerdict, RejudgedBefore, key_of, place_of};
use spanscore_base::model::{ClientGroup, Evaluation, Level};
use spanscore_engine::batch::JudgedGroup;
use spanscore_evaluate::engine::run::{Against, Configured};
use spanscore_evaluate::{AskedTarget, JudgeRequest};

/// Selected evaluations of one trace or session, each with its earlier verdict.
#[derive(Default)]
pub(super) struct SelectedGroup {
    /// Evaluations that need no judge on the present evidence.
    pub(super) known: Vec<(EarlierVerdict, Evaluation)>,
    /// Evaluations that need one.
    pub(super) asked: Vec<(EarlierVerdict, JudgeRequest)>,
}

/// Earlier verdict whose target was not judged again.
pub(super) struct MissingVerdict {
    pub(super) key: EarlierKey,
    pub(super) reason: &'static str,
    /// True if the present version of the evaluator may have given it.
    pub(super) may_be_current: bool,
}

/// Earlier verdicts that have not been matched.
#[derive(Clone, Default)]
pub(super) struct RejudgeSelection {
    earlier: BTreeMap<EarlierKey, EarlierVerdict>,
    /// True if the evidence names client groups, unlike recordings.
    tells_groups: bool,
    /// Verdicts of several client groups on a trace that may belong to any of them.
    ambiguous: BTreeSet<EarlierKey>,
    /// Verdicts by present versions of evaluators.
    pub(super) unchanged: usize,
}

impl RejudgeSelection {
    /// Creates the selection from verdicts of judging evaluators, for evidence with or without
    /// client groups.
    pub(super) fn new(
        earlier: RejudgedBefore,
        evaluators: &[Configured],
        tells_groups: bool,
    ) -> Self {
        let mut earlier = earlier.kept;
        earlier.retain(|(name, _, span_id, _), _| {
            let of = evaluators.iter().find(|it| it.info.name == *name);
            let of = of.filter(|it| it.asks && !it.is_external());
            // Judged kinds also give rows for calls, which come with that of the trace.
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

    /// Removes the verdicts with these ids.
    pub(super) fn leave_out(&mut self, ids: &HashSet<String>) {
        self.earlier.retain(|_, it| !ids.contains(&it.id.to_string()));
    }

    /// Returns the evaluations of a trace or session to ask about again, in the places of their
    /// earlier verdicts.
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
        for mut asked in AskedTarget::by_dispatcher(group.asked).0 {
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

    /// Returns the key of the only earlier verdict that the evaluation may revise.
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

    /// Returns the unmatched verdicts; those by a present version of an evaluator count as
    /// unchanged.
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
        // Their version includes the criteria, which are known only with the trace.
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
