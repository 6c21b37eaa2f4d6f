//! The plan of an agent, step by step: from an attribute of a span, or from the first call of a
//! tool that plans are written with.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluate::judged::conclude::no_score;
use crate::evaluate::shared::sentences::units;
use crate::model::{Facts, Outcome, Reason, Trajectory};
use crate::value::{Value, json};

/// Tools that agents write their plans with, where the settings name none.
const PLAN_TOOLS: [&str; 6] =
    ["write_todos", "TodoWrite", "update_plan", "create_plan", "write_plan", "make_plan"];

/// Keys under which a step says what is to be done.
const STEP_KEYS: [&str; 7] = ["step", "content", "description", "title", "task", "text", "name"];

/// Steps that are asked about; the rest of the plan is left out.
const STEPS_MAX: usize = 40;

/// Where the plan stands.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlanSource {
    /// An attribute of a span: a text with a step a line, or a list of steps.
    attribute: Option<String>,
    /// A tool whose first call holds the plan. Default: those that planning agents use.
    tool: Option<String>,
}

impl PlanSource {
    /// What reading it takes.
    pub(super) fn facts(&self) -> Facts {
        let attributes = self.attribute.iter().map(|key| vec![key.clone()]);
        Facts { attributes: attributes.collect(), ..Facts::default() }
    }
}

/// The steps of the plan.
///
/// # Errors
/// The outcome where none is recorded.
pub(super) fn steps(
    source: &PlanSource,
    trajectory: &Trajectory<'_>,
) -> Result<Vec<String>, Outcome> {
    let mut steps = Vec::new();
    if let Some(value) = of_attribute(source, trajectory) {
        add_steps(&value, &mut steps);
    } else if source.attribute.is_none() || source.tool.is_some() {
        let is_plan = |name: &str| match &source.tool {
            Some(tool) => name == tool,
            None => PLAN_TOOLS.contains(&name),
        };
        let call = trajectory.tool_calls.iter().find(|call| is_plan(&call.name));
        if let Some(arguments) = call.and_then(|call| call.arguments.value()) {
            add_steps(arguments, &mut steps);
        }
    }
    steps.truncate(STEPS_MAX);
    if steps.is_empty() {
        let words = "no plan is recorded: name its attribute or tool under `plan`";
        return Err(no_score(Reason::PlanNotRecorded, words));
    }
    Ok(steps)
}

fn of_attribute(source: &PlanSource, trajectory: &Trajectory<'_>) -> Option<Value<'static>> {
    let key = source.attribute.as_deref()?;
    let mut spans: Vec<_> = trajectory.kept_spans.iter().collect();
    spans.sort_by_key(|span| span.start_ns);
    let found = spans.iter().find_map(|span| {
        let (_, value) = span.attributes.iter().find(|(own, _)| *own == key)?;
        value.to_value().ok()
    })?;
    Some(match &found {
        Value::String(text) => match json::parse(text) {
            Ok(parsed @ (Value::List(_) | Value::Map(_))) => parsed.into_owned(),
            _ => found.into_owned(),
        },
        _ => found.into_owned(),
    })
}

/// Adds the steps that a value lists: a list's items, an object's longest list, a text's lines.
fn add_steps(value: &Value<'_>, steps: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let lines = units(text).into_iter();
            let lines = lines.filter_map(|unit| text.get(unit.start as usize..unit.end as usize));
            steps.extend(lines.map(|line| line.trim().to_owned()));
        }
        Value::List(list) => steps.extend(list.iter().filter_map(step)),
        Value::Map(map) => {
            let lists = map.iter().filter_map(|(_, item)| item.as_list());
            match lists.max_by_key(|list| list.len()) {
                Some(list) => steps.extend(list.iter().filter_map(step)),
                None => {
                    let texts = map.iter().filter(|(_, item)| item.as_str().is_some());
                    if let Some((_, text)) =
                        texts.max_by_key(|(_, item)| item.as_str().map(str::len))
                    {
                        add_steps(text, steps);
                    }
                }
            }
        }
        _ => {}
    }
}

fn step(item: &Value<'_>) -> Option<String> {
    let text = match item {
        Value::String(text) => text.to_string(),
        Value::Map(map) => match STEP_KEYS.iter().find_map(|key| map.get(key)?.as_str()) {
            Some(text) => text.to_owned(),
            None => item.to_string(),
        },
        other => other.to_string(),
    };
    (!text.trim().is_empty()).then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(plan: &str, expected: &[&str]) {
        let mut steps = Vec::new();
        add_steps(&json::parse(plan).unwrap(), &mut steps);
        assert_eq!(steps, expected, "{plan}");
    }

    #[test]
    fn steps_are_read_as_agents_write_plans() {
        check(r#""1. Look up\n2. Refund""#, &["1. Look up", "2. Refund"]);
        check(r#"["Look up","Refund"]"#, &["Look up", "Refund"]);
        let todos = r#"{"todos":[{"content":"Look up","status":"pending"},{"content":"Refund"}]}"#;
        check(todos, &["Look up", "Refund"]);
        check(r#"{"explanation":"x","plan":[{"step":"Look up"}]}"#, &["Look up"]);
        check(r#"{"plan":"Look up.\nRefund."}"#, &["Look up.", "Refund."]);
        check("7", &[]);
    }
}
