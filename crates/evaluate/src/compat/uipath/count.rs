//! `tool_call_count` with the package's scores.
//!
//! Rules are checked in the order written. An unknown operator is an error only when reached; a
//! trace without calls scores 0 by any rule.

use std::cmp::Ordering;

use super::answer::{self, mark};
use super::definition::{Definition, Flag, missing, required_text};
use super::lax;
use super::spans::{self, UipathCall, sanitize};
use crate::evaluator::{CodeEvaluator, Early, Evaluator};
use crate::shared::names::NameMap;
use crate::shared::report;
use spanscore_base::model::{Facts, Outcome, Trajectory, Want};
use spanscore_base::settings::{Key, Node, NodeKind, SettingsError};
use spanscore_base::value::python::PyValue;
use spanscore_base::value::{Map, Number, Value};

/// Builds the evaluator.
pub(crate) fn build(definition: &Definition) -> Result<Evaluator, SettingsError> {
    let strict = definition.flag(Flag("strict", "strict"))?;
    let rules = definition.criteria(|criteria| {
        let snake = "tool_calls_count";
        let map = lax::field(criteria, snake, "toolCallsCount")
            .ok_or_else(|| missing(snake, criteria))?;
        match &map.kind {
            NodeKind::Map(entries) => entries.iter().map(read_rule).collect(),
            _ => Err(SettingsError::new(format!("`{snake}` must be a map")).at(map.place)),
        }
    })?;
    Ok(Evaluator::code(UipathCount { strict, rules }))
}

fn read_rule((key, node): &(Key, Node)) -> Result<UipathCountRule, SettingsError> {
    let NodeKind::List(items) = &node.kind else {
        let message = format!("the rule of `{}` must be an operator and a count", key.text);
        return Err(SettingsError::new(message).at(node.place));
    };
    let [operator, count] = items.as_slice() else {
        let message = format!("the rule of `{}` must have two parts", key.text);
        return Err(SettingsError::new(message).at(node.place));
    };
    let count = lax::integer(count).ok_or_else(|| {
        SettingsError::new(format!("the count of `{}` must be an integer", key.text))
            .at(count.place)
    })?;
    Ok(UipathCountRule {
        sanitized: sanitize(&key.text).into_owned(),
        name: key.text.clone(),
        operator: required_text(operator, "operator")?,
        count,
    })
}

struct UipathCount {
    strict: bool,
    rules: Vec<UipathCountRule>,
}

struct UipathCountRule {
    name: String,
    sanitized: String,
    operator: String,
    count: Number,
}

impl UipathCountRule {
    /// Returns true if the count is already too high, which no later call can change.
    fn is_passed(&self, actual: i64) -> bool {
        let order = Number::Int(actual).partial_cmp(&self.count);
        match self.operator.as_str() {
            "=" | "==" | "<=" => order == Some(Ordering::Greater),
            "<" => order.is_some_and(Ordering::is_ge),
            _ => false,
        }
    }

    /// Returns true if a count satisfies the rule; `None` for an unknown operator.
    fn holds(&self, actual: i64) -> Option<bool> {
        let order = Number::Int(actual).partial_cmp(&self.count)?;
        Some(match self.operator.as_str() {
            "=" | "==" => order == Ordering::Equal,
            "!=" => order != Ordering::Equal,
            ">" => order == Ordering::Greater,
            "<" => order == Ordering::Less,
            ">=" => order != Ordering::Less,
            "<=" => order != Ordering::Greater,
            _ => return None,
        })
    }
}

/// Returns the number of calls by id, or by name for a call without one; in order of first calls.
fn counts_of(calls: &[UipathCall<'_>]) -> NameMap<i64> {
    let mut counts = NameMap::default();
    for call in calls {
        *counts.get_or_insert_with(call.id.as_deref().unwrap_or(&call.name), || 0) += 1;
    }
    counts
}

impl CodeEvaluator for UipathCount {
    /// Returns false: the package reads spans, not our calls.
    fn reads_calls(&self) -> bool {
        false
    }

    fn facts(&self) -> Facts {
        super::facts()
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = spans::calls(trajectory);
        let counts = counts_of(&calls);
        let (score, kept, explained) =
            match answer::empty(self.rules.is_empty(), calls.is_empty(), "") {
                Some((score, explained)) => (score, 0, explained),
                None => match self.hold(&counts, want) {
                    Ok(held) => held,
                    Err(operator) => return answer::failed(PyValue::text(operator).repr()),
                },
            };
        answer::scored(
            score,
            want,
            || format!("{kept} of {} counts are as expected", self.rules.len()),
            || {
                let count = |count: &i64| PyValue::from(Value::from(*count));
                let actual = counts.iter().map(|(key, value)| (key, count(value)));
                [
                    ("expected", self.printed()),
                    ("actual", printed(actual)),
                    ("explained_tool_calls_count", explained),
                ]
            },
        )
    }

    /// Judges by counts that are already too high, as counts only grow. Names found only in
    /// sanitized form are excluded: a later call of the original name would replace them.
    fn early(&self, trajectory: &Trajectory<'_>, want: Want) -> Option<Early> {
        if self.rules.iter().any(|rule| rule.holds(0).is_none()) {
            return None;
        }
        let calls = spans::calls(trajectory);
        let counts = counts_of(&calls);
        let passed =
            |rule: &&UipathCountRule| counts.get(&rule.name).is_some_and(|n| rule.is_passed(*n));
        let first = self.rules.iter().find(passed)?;
        let rest = self.rules.len() - self.rules.iter().filter(passed).count();
        let best = if self.strict { 0.0 } else { rest as f64 / self.rules.len() as f64 };
        let explain = || {
            let UipathCountRule { name, operator, count, .. } = first;
            let actual = counts.get(name).unwrap_or(&0);
            format!("{name} was called {actual} times, expected {operator} {count}")
        };
        let outcome = report::scored(best, want, explain, Map::new);
        Some(Early { outcome, best })
    }
}

impl UipathCount {
    /// Returns the score, the number of satisfied rules, and their explanations; or the unknown
    /// operator.
    fn hold(
        &self,
        counts: &NameMap<i64>,
        want: Want,
    ) -> Result<(f64, usize, Value<'static>), &str> {
        let mut kept = 0;
        let mut explained = Vec::new();
        for rule in &self.rules {
            let found = counts.get(&rule.name).or_else(|| counts.get(&rule.sanitized));
            let actual = found.copied().unwrap_or(0);
            let holds = rule.holds(actual).ok_or(rule.operator.as_str())?;
            let strict_failure = self.strict && !holds;
            if want.details {
                if strict_failure {
                    explained.clear();
                }
                let count = &rule.count;
                let mark = mark(holds);
                let text = format!("Actual: {actual}, Expected: {count}, Score: {mark}");
                explained.push((rule.name.clone(), Value::from(text)));
            }
            if strict_failure {
                return Ok((0.0, kept, Value::Map(explained.into_iter().collect())));
            }
            kept += usize::from(holds);
        }
        let score = kept as f64 / self.rules.len() as f64;
        Ok((score, kept, Value::Map(explained.into_iter().collect())))
    }

    fn printed(&self) -> Value<'static> {
        printed(self.rules.iter().map(|rule| {
            let count = PyValue::Number(rule.count.clone());
            (&*rule.name, PyValue::Tuple(vec![PyValue::text(&rule.operator), count]))
        }))
    }
}

/// Formats a dict as Python does.
fn printed<'a>(entries: impl Iterator<Item = (&'a str, PyValue<'a>)>) -> Value<'static> {
    let entries = entries.map(|(key, value)| (PyValue::text(key), value)).collect();
    Value::from(PyValue::Dict(entries).repr())
}
