//! Answer of `summarize`: counts over all evaluations.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answers::McpAnswer;
use super::store::{RunStore, StoredEvaluation};
use super::tools::{GroupWord, SummarizeArgs};
use super::trim::{ANSWER_BYTES_MAX, fitted};

/// Limit on rows of counts, reasons and tools in one answer; the largest come first.
const ROWS_MAX: usize = 50;
/// Limit on each text of a summary, bytes.
pub(super) const SUMMARY_TEXT_BYTES: usize = 1_000;

/// Counts of evaluations by verdict.
#[derive(Default)]
struct VerdictCounts {
    by_outcome: BTreeMap<&'static str, u64>,
    sum: f64,
}

impl VerdictCounts {
    fn add(&mut self, evaluation: &StoredEvaluation) {
        *self.by_outcome.entry(evaluation.outcome()).or_default() += 1;
        self.sum += evaluation.score.unwrap_or_default();
    }

    fn of(&self, outcome: &str) -> u64 {
        self.by_outcome.get(outcome).copied().unwrap_or_default()
    }

    fn all(&self) -> u64 {
        self.by_outcome.values().sum()
    }

    fn row(&self) -> Map<String, Value> {
        let pass = self.of("pass");
        let fail = self.of("fail");
        let failed = self.of("failed");
        let share = |part: f64, all: u64| (all > 0).then(|| part / all as f64);
        let figures = [
            ("pass", pass.into()),
            ("fail", fail.into()),
            ("not_evaluable", self.of("not_evaluable").into()),
            ("failed", failed.into()),
            ("not_asked", self.of("not_asked").into()),
            ("mean_score", share(self.sum, pass + fail).into()),
            ("pass_rate", share(pass as f64, pass + fail + failed).into()),
        ];
        figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
    }
}

/// Answers `summarize`.
pub(super) fn summary(store: &RunStore, args: &SummarizeArgs) -> McpAnswer {
    let mut all = VerdictCounts::default();
    let mut groups: BTreeMap<(Option<SummaryGroup<'_>>, &str), VerdictCounts> = BTreeMap::new();
    let mut reasons: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut cost_usd = 0.0;
    for evaluation in &store.evaluations {
        let name = evaluation.evaluator.name.as_str();
        all.add(evaluation);
        groups.entry((group_of(evaluation, args.group_by), name)).or_default().add(evaluation);
        if let Some(reason) = evaluation.reason {
            *reasons.entry((name, reason)).or_default() += 1;
        }
        cost_usd += evaluation.cost_usd;
    }
    let mut rows: Vec<_> = groups.iter().collect();
    rows.sort_by_key(|(_, counts)| Reverse(counts.all()));
    let shown = rows.iter().take(ROWS_MAX).map(|((group, evaluator), counts)| {
        let mut row = Map::from_iter([("evaluator".to_owned(), Value::from(*evaluator))]);
        row.extend(group.map(|(word, name)| (word.to_owned(), Value::from(name))));
        row.extend(counts.row());
        row
    });
    let summary = json!({
        "traces": store.traces.len(),
        "evaluations": store.evaluations.len(),
        "all": all.row(),
        "groups": shown.collect::<Vec<_>>(),
        "groups_left_out": rows.len().saturating_sub(ROWS_MAX),
        "not_scored": reason_rows(&reasons),
        "tools": tool_rows(store),
        "judges_cost_usd": cost_usd,
        "not_judged": store.silence,
        "all_could_be_read": !store.is_broken,
    });
    Ok(fitted(&summary, SUMMARY_TEXT_BYTES, ANSWER_BYTES_MAX))
}

/// Key of a group in its row, and its name.
type SummaryGroup<'a> = (&'static str, &'a str);

fn group_of(evaluation: &StoredEvaluation, group_by: GroupWord) -> Option<SummaryGroup<'_>> {
    let target = &evaluation.target;
    Some(match group_by {
        GroupWord::Evaluator => return None,
        GroupWord::Agent => ("agent_name", target.agent_name.as_deref().unwrap_or_default()),
        GroupWord::Service => ("service_name", &target.resource.service_name),
        GroupWord::Session => ("session_id", target.session_id.as_deref().unwrap_or_default()),
    })
}

fn reason_rows(reasons: &BTreeMap<(&str, &str), u64>) -> Vec<Value> {
    let mut rows: Vec<_> = reasons.iter().collect();
    rows.sort_by_key(|(_, count)| Reverse(**count));
    let row = |(key, count): (&(&str, &str), &u64)| {
        let (evaluator, reason) = key;
        json!({"evaluator": evaluator, "reason": reason, "count": count})
    };
    rows.into_iter().take(ROWS_MAX).map(row).collect()
}

fn tool_rows(store: &RunStore) -> Vec<Value> {
    let mut rows: Vec<_> = store.tools.iter().collect();
    rows.sort_by_key(|(name, (calls, _))| (Reverse(*calls), name.as_str()));
    let row = |(name, counts): (&String, &(u64, u64))| {
        let (calls, failed) = counts;
        json!({"name": name, "calls": calls, "failed": failed})
    };
    rows.into_iter().take(ROWS_MAX).map(row).collect()
}
