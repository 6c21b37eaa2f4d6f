//! `tool_call_count` as the package scores it.
//!
//! Rules are held in the order written; an operator that does not exist is an error only when it
//! is reached; a trace without calls scores 0 against any rule.

use std::cmp::Ordering;

use hashbrown::HashMap;

use super::answer::{self, mark};
use super::definition::{Definition, Flag, missing, required_text};
use super::lax;
use super::spans::{self, sanitize};
use crate::evaluate::Evaluator;
use crate::model::{Facts, Outcome, Trajectory, Want};
use crate::settings::{Key, Node, NodeKind, SettingsError};
use crate::value::python::PyValue;
use crate::value::{Number, Value};

/// Builds the evaluator.
pub(in crate::evaluate) fn build(
    definition: &Definition,
) -> Result<Box<dyn Evaluator>, SettingsError> {
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
    Ok(Box::new(Count { strict, rules }))
}

fn read_rule((key, node): &(Key, Node)) -> Result<Rule, SettingsError> {
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
    Ok(Rule {
        sanitized: sanitize(&key.text).into_owned(),
        name: key.text.clone(),
        operator: required_text(operator, "operator")?,
        count,
    })
}

struct Count {
    strict: bool,
    rules: Vec<Rule>,
}

struct Rule {
    name: String,
    sanitized: String,
    operator: String,
    count: Number,
}

impl Rule {
    /// Whether a count keeps the rule; `None` for an operator that does not exist.
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

impl Evaluator for Count {
    fn facts(&self) -> Facts {
        Facts { attributes: vec![super::ATTRIBUTES], ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = spans::calls(trajectory);
        let mut counts: HashMap<&str, i64> = HashMap::new();
        let mut order: Vec<&str> = Vec::new();
        for call in &calls {
            let key = call.id.as_deref().unwrap_or(&call.name);
            let count = counts.entry(key).or_insert(0);
            if *count == 0 && want.details {
                order.push(key);
            }
            *count += 1;
        }
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
                let actual =
                    order.iter().map(|key| (*key, PyValue::from(Value::from(counts[key]))));
                [
                    ("expected", self.printed()),
                    ("actual", printed(actual)),
                    ("explained_tool_calls_count", explained),
                ]
            },
        )
    }
}

impl Count {
    /// Score, rules kept, and what explains them; the operator where one does not exist.
    fn hold(
        &self,
        counts: &HashMap<&str, i64>,
        want: Want,
    ) -> Result<(f64, usize, Value<'static>), &str> {
        let mut kept = 0;
        let mut explained = Vec::new();
        for rule in &self.rules {
            let found = counts.get(rule.name.as_str()).or_else(|| counts.get(&*rule.sanitized));
            let actual = found.copied().unwrap_or(0);
            let holds = rule.holds(actual).ok_or(rule.operator.as_str())?;
            let strict_failure = self.strict && !holds;
            if want.details {
                if strict_failure {
                    explained.clear();
                }
                let (count, mark) = (&rule.count, mark(holds));
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

/// A dict as Python prints it.
fn printed<'a>(entries: impl Iterator<Item = (&'a str, PyValue<'a>)>) -> Value<'static> {
    let entries = entries.map(|(key, value)| (PyValue::text(key), value)).collect();
    Value::from(PyValue::Dict(entries).repr())
}
