//! Reader of an agent's plan: from a span attribute, the first call of a planning tool, or the
//! model's messages before the first call.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::judged::conclude::no_score;
use crate::shared::sentences::units;
use spanscore_base::model::trajectory::KeptSpan;
use spanscore_base::model::{Facts, Outcome, Reason, Trajectory};
use spanscore_base::value::{Value, json};

/// Default planning tools.
const PLAN_TOOLS: [&str; 6] =
    ["write_todos", "TodoWrite", "update_plan", "create_plan", "write_plan", "make_plan"];

/// Keys with the text of a step.
const STEP_KEYS: [&str; 7] = ["step", "content", "description", "title", "task", "text", "name"];

/// Limit on the steps asked about; the others are left out.
const STEPS_MAX: usize = 40;

/// Attributes of a model span's output: GenAI semantic conventions, OpenInference (a text; the
/// first parts of a list), OpenLLMetry.
const SAID_KEYS: [&str; 5] = [
    "gen_ai.output.messages",
    "llm.output_messages.0.message.content",
    "llm.output_messages.0.message.contents.0.message_content.text",
    "llm.output_messages.0.message.contents.1.message_content.text",
    "gen_ai.completion.0.content",
];

/// Source of the plan.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PlanSource {
    /// Span attribute with the plan: a text with one step per line, or a list of steps.
    attribute: Option<String>,
    /// Tool whose first call contains the plan. Default: the planning tools of known agents, such
    /// as `write_todos`, `TodoWrite` and `update_plan`.
    tool: Option<String>,
    /// Reads the plan from the messages of the model before its first tool call if `attribute` and
    /// `tool` give none. Each sentence is a step. Default `false`.
    reasoning: bool,
}

impl PlanSource {
    /// Returns the facts needed to read the plan.
    pub(super) fn facts(&self) -> Facts {
        let said = SAID_KEYS.iter().filter(|_| self.reasoning).map(|key| (*key).to_owned());
        let attributes = self.attribute.iter().cloned().chain(said).map(|key| vec![key]);
        Facts { attributes: attributes.collect(), ..Facts::default() }
    }
}

/// Reads the steps of the plan.
///
/// # Errors
/// Returns the outcome if no plan is recorded.
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
    if steps.is_empty() && source.reasoning {
        add_reasoning(trajectory, &mut steps);
    }
    steps.truncate(STEPS_MAX);
    if steps.is_empty() {
        let words = "no plan is recorded: name its attribute or tool under `plan`, or take what \
                     the model said before its first call with `reasoning: true`";
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

/// Adds the output of models that ended before the first call or made it.
fn add_reasoning(trajectory: &Trajectory<'_>, steps: &mut Vec<String>) {
    let Some(first) = trajectory.tool_calls.first() else { return };
    let is_before =
        |span: &&&KeptSpan<'_>| span.end_ns <= first.start_ns || span.span_id == first.span_id;
    let mut spans: Vec<_> = trajectory.kept_spans.iter().collect();
    spans.sort_by_key(|span| span.start_ns);
    for span in spans.iter().filter(is_before) {
        for key in SAID_KEYS {
            let found = span.attributes.iter().find(|(own, _)| *own == key);
            let Some(value) = found.and_then(|(_, value)| value.to_value().ok()) else { continue };
            match &value {
                Value::String(text) => match json::parse(text) {
                    Ok(parsed @ (Value::List(_) | Value::Map(_))) => add_said(&parsed, steps),
                    _ => add_steps(&value, steps),
                },
                _ => add_said(&value, steps),
            }
        }
    }
}

/// Adds the texts of messages and their parts, without the contents of calls.
fn add_said(value: &Value<'_>, steps: &mut Vec<String>) {
    match value {
        Value::String(_) => add_steps(value, steps),
        Value::List(list) => list.iter().for_each(|item| add_said(item, steps)),
        Value::Map(map) => {
            let kind = map.get("type").and_then(Value::as_str).unwrap_or("text");
            let inner = ["parts", "content", "text"].iter().find_map(|key| map.get(key));
            if let (Some(inner), "text" | "reasoning" | "thinking" | "output_text" | "message") =
                (inner, kind)
            {
                add_said(inner, steps);
            }
        }
        _ => {}
    }
}

/// Adds the steps in a value: a list's items, an object's longest list, or a text's lines.
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
    use spanscore_base::model::{SpanId, ToolCall};
    use spanscore_base::otlp::AnyValue;

    /// Returns the plan read of a model whose output ended at `end_ns`, before a call at 10.
    fn check_reasoning(source: &PlanSource, end_ns: u64, key: &'static str, said: &str) -> String {
        let span_id = SpanId([1; 8]);
        let start_ns = 1;
        let attributes = vec![(key, AnyValue::String(said))];
        let span = KeptSpan { span_id, start_ns, end_ns, attributes };
        let call = ToolCall { name: "search".into(), start_ns: 10, ..ToolCall::default() };
        let trajectory =
            Trajectory { kept_spans: vec![span], tool_calls: vec![call], ..Trajectory::default() };
        steps(source, &trajectory).map_or_else(|_| "none".to_owned(), |steps| steps.join("|"))
    }

    #[test]
    fn what_a_model_said_before_the_first_call_is_a_plan_if_the_settings_say_so() {
        let source = PlanSource { reasoning: true, ..PlanSource::default() };
        let keys: Vec<_> = source.facts().attributes.concat();
        let said = r#"[{"role":"assistant","parts":[{"type":"reasoning","content":"I look it up."},
            {"type":"text","content":"Then I refund it."},
            {"type":"tool_call","name":"search","arguments":{"text":"A-17"}}]}]"#;
        let [genai, openinference, .., openllmetry] = SAID_KEYS;
        let expected = "I look it up.|Then I refund it.";
        assert!(SAID_KEYS.iter().all(|key| keys.iter().any(|own| own == key)), "{keys:?}");
        assert_eq!(check_reasoning(&source, 9, genai, said), expected);
        let plain = "I look it up. Then I refund it.";
        assert_eq!(check_reasoning(&source, 9, openinference, plain), expected);
        assert_eq!(check_reasoning(&source, 9, openllmetry, plain), expected);
        // The answer of the whole run is on the agent's span.
        assert_eq!(check_reasoning(&source, 90, genai, said), "none");
        assert_eq!(check_reasoning(&PlanSource::default(), 9, genai, said), "none");
        assert!(PlanSource::default().facts().attributes.is_empty(), "it costs nothing");
    }

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
