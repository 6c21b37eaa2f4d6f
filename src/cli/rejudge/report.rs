//! Report of `rejudge --changed`: the cost before any inquiry, and the verdicts that change.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::earlier::{EarlierKey, EarlierVerdict};
use super::selection::{MissingVerdict, RejudgeSelection};
use crate::cli::output;
use crate::cli::score::replies::CommandJudges;
use crate::cli::stored::backfill::judging::compared;
use crate::cli::stored::backfill::tally::EvaluatorTally;
use crate::cli::stored::backfill::{VerdictChanges, text};
use spanscore_ask::judge::{CostForecast, CostForecaster};
use spanscore_base::model::Evaluation;
use spanscore_engine::batch::JudgedGroup;
use spanscore_evaluate::engine::run::Configured;

/// Cost forecast of the inquiries for changed evaluators.
pub(super) struct ChangeForecast {
    selection: RejudgeSelection,
    touched: usize,
    /// Names of the changed evaluators.
    evaluators: BTreeSet<String>,
    forecaster: CostForecaster,
    cost: CostForecast,
}

impl ChangeForecast {
    pub(super) fn new(selection: RejudgeSelection, judges: &CommandJudges) -> Self {
        let forecaster = judges.forecaster();
        let cost = CostForecast::default();
        Self { selection, touched: 0, evaluators: BTreeSet::new(), forecaster, cost }
    }

    /// Adds a trace or session.
    pub(super) fn take(&mut self, group: JudgedGroup) {
        let selected = self.selection.take(group);
        self.touched += selected.known.len() + selected.asked.len();
        let asked: Vec<_> = selected.asked.into_iter().map(|(_, asked)| asked).collect();
        let known = selected.known.iter().map(|(_, it)| &it.evaluator.name);
        let names = known.chain(asked.iter().map(|it| &it.evaluation.evaluator.name));
        for name in names {
            if !self.evaluators.contains(name) {
                self.evaluators.insert(name.clone());
            }
        }
        self.cost.add(self.forecaster.forecast(&asked));
    }

    /// Returns the verdicts whose target was not in the evidence taken.
    pub(super) fn missing(&mut self, evaluators: &[Configured]) -> Vec<MissingVerdict> {
        self.selection.missing(evaluators)
    }

    /// Reports the forecast and the number of missing verdicts; returns false if there is nothing
    /// to ask.
    pub(super) fn tell(&self, budget_usd: Option<f64>, missing: usize) -> bool {
        if missing > 0 {
            output::note(format_args!(
                "spanscore: {missing} evaluations that are or may be touched cannot be given again"
            ));
        }
        if self.touched == 0 {
            if missing == 0 {
                output::note("spanscore: no verdict is touched by a change of its evaluator");
            }
            return false;
        }
        let Self { touched, cost, .. } = self;
        let CostForecast { requests, input_tokens, usd_min, usd_max } = cost;
        let names: Vec<_> = self.evaluators.iter().map(String::as_str).collect();
        output::note(format_args!(
            "spanscore: {touched} evaluations of {} are touched: {requests} requests, some \
             {input_tokens} tokens of prompts, USD {usd_min:.4} to {usd_max:.4} (without repairs \
             and further votes)",
            names.join(", ")
        ));
        if let Some(budget) = budget_usd.filter(|budget| budget < usd_max) {
            output::note(format_args!(
                "spanscore: --budget {budget} may not suffice: what does not fit is not asked, and \
                 stays `budget_exhausted`"
            ));
        }
        true
    }
}

/// Comparison of new verdicts with the earlier ones, by evaluator.
#[derive(Default)]
pub(super) struct ChangeReport {
    tallies: BTreeMap<String, EvaluatorTally>,
    changes: VerdictChanges,
}

impl ChangeReport {
    /// Adds a new verdict.
    pub(super) fn add(&mut self, earlier: &EarlierVerdict, evaluation: &Evaluation) {
        let tally = self.tally(&evaluation.evaluator.name);
        tally.runs += 1;
        let before = (earlier.verdict.as_str(), earlier.score);
        let verdict = compared(evaluation, Some(before), tally);
        self.changes.add(verdict);
    }

    /// Adds verdicts that could not be repeated.
    pub(super) fn add_missing(
        &mut self,
        missing: &[MissingVerdict],
        reasons: &HashMap<EarlierKey, String>,
    ) {
        for MissingVerdict { key, reason, .. } in missing {
            let reason = reasons.get(key).map_or(*reason, String::as_str);
            self.tally(&key.0).add_not_judged(reason, 1);
        }
    }

    fn tally(&mut self, name: &str) -> &mut EvaluatorTally {
        self.tallies.entry(name.to_owned()).or_insert_with(|| EvaluatorTally::new(name))
    }

    /// Prints the tables on standard error, since standard output has the records.
    pub(super) fn tell(self) {
        let tallies: Vec<_> = self.tallies.into_values().collect();
        if !tallies.is_empty() {
            output::note(text(&tallies, &self.changes));
        }
    }
}
