//! Answer of `summarize`: counts over all evaluations.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::store::{RunStore, StoredEvaluation, StoredVerdict};
use super::tools::GroupWord;

/// Limit of rows of counts, reasons and tools in one answer; the largest come first.
const ROWS_MAX: usize = 50;

/// Counts of evaluations by verdict.
#[derive(Default)]
struct VerdictCounts {
    by_verdict: BTreeMap<StoredVerdict, u64>,
    sum: f64,
}

impl VerdictCounts {
    fn add(&mut self, evaluation: &StoredEvaluation) {
        *self.by_verdict.entry(evaluation.verdict).or_default() += 1;
        self.sum += evaluation.score.unwrap_or_default();
    }

    fn of(&self, verdict: StoredVerdict) -> u64 {
        self.by_verdict.get(&verdict).copied().unwrap_or_default()
    }

    fn all(&self) -> u64 {
        self.by_verdict.values().sum()
    }

    fn row(&self) -> Value {
        let pass = self.of(StoredVerdict::Pass);
        let fail = self.of(StoredVerdict::Fail);
        let failed = self.of(StoredVerdict::Failed);
        let share = |part: f64, all: u64| (all > 0).then(|| part / all as f64);
        json!({
            "pass": pass,
            "fail": fail,
            "not_evaluable": self.of(StoredVerdict::NotEvaluable),
            "failed": failed,
            "not_asked": self.of(StoredVerdict::NotAsked),
            "mean_score": share(self.sum, pass + fail),
            "pass_rate": share(pass as f64, pass + fail + failed),
        })
    }
}

/// Answers `summarize`.
pub(super) fn summary(store: &RunStore, group_by: GroupWord) -> Value {
    let mut all = VerdictCounts::default();
    let mut groups: BTreeMap<(&str, &str), VerdictCounts> = BTreeMap::new();
    let mut reasons: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut cost_usd = 0.0;
    for evaluation in &store.evaluations {
        let name = evaluation.evaluator.name.as_str();
        all.add(evaluation);
        groups.entry((group_of(evaluation, group_by), name)).or_default().add(evaluation);
        if let Some(reason) = evaluation.reason {
            *reasons.entry((name, reason)).or_default() += 1;
        }
        cost_usd += evaluation.cost_usd;
    }
    let mut rows: Vec<_> = groups.iter().collect();
    rows.sort_by_key(|(_, counts)| Reverse(counts.all()));
    let shown = rows.iter().take(ROWS_MAX).map(|((group, evaluator), counts)| {
        let mut row = counts.row();
        if let (Some(map), Some(word)) = (row.as_object_mut(), word_of(group_by)) {
            map.shift_insert(0, word.to_owned(), Value::from(*group));
        }
        if let Some(map) = row.as_object_mut() {
            map.shift_insert(0, "evaluator".to_owned(), Value::from(*evaluator));
        }
        row
    });
    let groups: Vec<Value> = shown.collect();
    json!({
        "traces": store.traces.len(),
        "evaluations": store.evaluations.len(),
        "all": all.row(),
        "groups": groups,
        "groups_left_out": rows.len().saturating_sub(ROWS_MAX),
        "not_scored": reason_rows(&reasons),
        "tools": tool_rows(store),
        "judges_cost_usd": cost_usd,
        "not_judged": store.silence,
        "all_could_be_read": !store.is_broken,
    })
}

fn word_of(group_by: GroupWord) -> Option<&'static str> {
    match group_by {
        GroupWord::Evaluator => None,
        GroupWord::Agent => Some("agent_name"),
        GroupWord::Service => Some("service_name"),
        GroupWord::Session => Some("session_id"),
    }
}

fn group_of(evaluation: &StoredEvaluation, group_by: GroupWord) -> &str {
    let target = &evaluation.target;
    match group_by {
        GroupWord::Evaluator => "",
        GroupWord::Agent => target.agent_name.as_deref().unwrap_or_default(),
        GroupWord::Service => &target.resource.service_name,
        GroupWord::Session => target.session_id.as_deref().unwrap_or_default(),
    }
}

fn reason_rows(reasons: &BTreeMap<(&str, &str), u64>) -> Vec<Value> {
    let mut rows: Vec<_> = reasons.iter().collect();
    rows.sort_by_key(|(_, count)| Reverse(**count));
    let mut shown = Vec::new();
    for ((evaluator, reason), count) in rows.into_iter().take(ROWS_MAX) {
        shown.push(json!({"evaluator": evaluator, "reason": reason, "count": count}));
    }
    shown
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
