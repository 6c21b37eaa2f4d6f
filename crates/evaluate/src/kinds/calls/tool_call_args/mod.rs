//! `tool_call_args`: tool calls and their arguments against the expected ones.
//!
//! Calls are found by name, or by id if the criteria give one. Each call satisfies at most one
//! expected call, in an assignment that satisfies the most. Arguments are compared as JSON values.
//! With `subset` a call may have additional top-level arguments; nested values must be equal.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::compat::uipath::{self, Definition};
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::difference::argument_words;
use crate::shared::expected_calls::arguments_of;
use crate::shared::matcher::{self, Expected, MatchContext};
use crate::shared::pairing::{self, CriteriaGroups, Fit, Hashes, Served, counted};
use crate::shared::report;
use crate::shared::step_limit::{self, WorkBudget};
use spanscore_base::model::{
    Content, Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value, json};

/// Registry entry of `tool_call_args`.
pub static KIND: Kind = Kind {
    name: "tool_call_args",
    about: "Compares the arguments of tool calls with the expected ones.",
    also_known_as: &[
        ("trajectory:tool-args-match", "Promptfoo"),
        ("tool-call-args", "UiPath"),
        ("uipath-tool-call-args", "UiPath"),
        ("ToolCallArgsEvaluator", "UiPath"),
    ],
    needs_criteria: true,
    schema: uipath::schema::<Settings, Criteria>,
    build,
    example: "\
tool_call_args/refund:
  subset: true
  criteria:
    tool_calls:
      - {name: issue_refund, args: {order: A-17}}
",
    ..Kind::PLAIN
};

/// Settings of `tool_call_args`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Scores 1 if every expected call was made, else 0. Without it, the score is the share of the
    /// expected calls that were made. Default `false`.
    strict: bool,
    /// Allows further arguments beside the expected ones. Default `false`.
    subset: bool,
}

/// Expected tool calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Expected calls, in any order.
    #[serde(alias = "toolCalls")]
    tool_calls: Vec<ExpectedCallArgs>,
}

/// Expected tool call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExpectedCallArgs {
    /// Name of the tool.
    name: String,
    /// Expected arguments.
    args: ArgsObject,
    /// Id of the call. A call with an id is found by it instead of its name.
    #[serde(default)]
    id: Option<String>,
}

/// Arguments: an object.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Value<'static>")]
#[schemars(with = "std::collections::BTreeMap<String, Value<'static>>")]
struct ArgsObject(Value<'static>);

impl TryFrom<Value<'static>> for ArgsObject {
    type Error = String;

    fn try_from(value: Value<'static>) -> Result<Self, Self::Error> {
        match value {
            Value::Map(_) => Ok(Self(value)),
            Value::String(text) if matches!(json::parse(&text), Ok(Value::Map(_))) => {
                Err(format!("`args` must be an object: write {text} without the quotes around it"))
            }
            _ => Err("`args` must be an object".to_owned()),
        }
    }
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let definition = Definition::read(node, "tool-call-args")?;
    if definition.is_compat()? {
        return uipath::args::build(&definition);
    }
    let (settings, criteria): (Settings, Criteria) = definition.read_settings(node)?;
    matcher::check_criteria(&definition.body)?;
    let mut groups = CriteriaGroups::default();
    criteria.tool_calls.iter().for_each(|call| groups.add(&call.name, call.id.as_deref()));
    let strict = settings.strict;
    let subset = settings.subset;
    let mut expected = criteria.tool_calls;
    let mut rules = Vec::new();
    for call in &mut expected {
        rules.push(matcher::ruled(&mut call.args.0)?);
    }
    let weights = expected.iter().map(|call| call.args.0.node_count()).collect();
    let mode = if subset { ArgumentMode::Subset } else { ArgumentMode::Exact };
    let matcher = ArgumentMatcher { mode, ..ArgumentMatcher::default() };
    let kind = ToolCallArgs { strict, subset, expected, rules, matcher, groups, weights };
    Ok(Evaluator::code(kind))
}

struct ToolCallArgs {
    strict: bool,
    subset: bool,
    expected: Vec<ExpectedCallArgs>,
    /// The arguments of expected calls that contain matchers.
    rules: Vec<Option<Expected>>,
    matcher: ArgumentMatcher,
    groups: CriteriaGroups,
    /// Number of values in the arguments of each expected call.
    weights: Vec<usize>,
}

impl CodeEvaluator for ToolCallArgs {
    fn facts(&self) -> Facts {
        Facts { arguments: true, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls;
        let Some(served) = self.serve(calls, &trajectory.effort) else {
            return report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words);
        };
        let Some(score) = pairing::settled(&served, self.expected.len(), self.strict) else {
            let what = (Reason::ArgumentsNotRecorded, "arguments");
            return pairing::not_recorded(what, want, &self.groups, calls, |call| {
                !call.arguments.is_recorded()
            });
        };
        report::scored(
            score,
            want,
            || self.explain(served.certain, calls, &served.partners),
            || self.details(calls, &served.partners),
        )
    }
}

impl ToolCallArgs {
    /// Matches calls so that the most expected ones are served; `None` if the work budget is spent.
    fn serve(&self, calls: &[ToolCall<'_>], effort: &WorkBudget) -> Option<Served> {
        let fits = |at: usize, call: u32| self.fit(at, &calls[call as usize], effort) == Fit::Yes;
        let prepare = || {
            let hashes = (!self.subset).then(|| {
                let expected = self.expected.iter().map(|call| &call.args.0);
                Hashes::new(expected, calls.iter().map(|call| call.arguments.value()))
            });
            move |at: usize, call: u32| {
                let call = call as usize;
                let weight = self.weights[at];
                let differs = self.rules[at].is_none()
                    && hashes.as_ref().is_some_and(|hashes| hashes.differ(at, call));
                let arguments = calls[call].arguments.value().and_then(Value::as_map);
                let entries = arguments.map_or(0, Map::len);
                let cost = if differs { 1 } else { 1 + weight * (1 + entries / 4) };
                let is_within = effort.spend(cost);
                if is_within && !differs { self.fit(at, &calls[call], effort) } else { Fit::No }
            }
        };
        let served = pairing::serve(&self.groups, calls, fits, prepare);
        (!effort.is_spent()).then_some(served)
    }

    fn fit(&self, at: usize, call: &ToolCall<'_>, effort: &WorkBudget) -> Fit {
        let Some(expected) = self.expected[at].args.0.as_map() else { return Fit::No };
        let Content::Recorded(arguments) = &call.arguments else {
            return if self.subset && expected.is_empty() { Fit::Yes } else { Fit::Unknown };
        };
        let fits = match arguments.get() {
            actual if let Some(rules) = &self.rules[at] => {
                MatchContext { options: &self.matcher, effort }.arguments(rules, actual)
            }
            Value::Map(actual) if self.subset => {
                let actual = actual.by_key();
                expected.iter().all(|(key, value)| actual.get(key) == Some(value))
            }
            Value::Map(actual) => actual == expected,
            Value::Null => expected.is_empty(),
            _ => false,
        };
        if fits { Fit::Yes } else { Fit::No }
    }

    fn explain(
        &self,
        served: usize,
        calls: &[ToolCall<'_>],
        partners: &[Option<u32>],
    ) -> Explanation {
        let total = counted(self.expected.len(), "expected call");
        let text = format!("{served} of {total} made with the expected arguments");
        let mut words = Explanation::plain(text);
        let shown = self.groups.shown(calls, partners);
        let each = self.expected.iter().zip(&self.rules).zip(partners).zip(shown);
        let unserved = each.filter(|((_, partner), _)| partner.is_none());
        report::few(&mut words, unserved, |words, (((expected, rules), _), shown)| {
            words.push(&expected.name);
            let Some(at) = shown else { return words.push(" was not called") };
            // Writing to a string cannot fail.
            let _ = write!(words, " (call {}): ", at + 1);
            let call = &calls[at as usize];
            if !call.arguments.is_recorded() {
                return words.push("the arguments are not recorded");
            }
            let wanted = (rules.as_ref(), &expected.args.0);
            let made = arguments_of(call);
            words.append(&argument_words(&self.matcher, wanted, made, "subset: true"));
        });
        words
    }

    fn details(&self, calls: &[ToolCall<'_>], partners: &[Option<u32>]) -> Map<'static> {
        let shown = self.groups.shown(calls, partners);
        let entries = self.expected.iter().zip(partners).zip(shown);
        let calls = entries.map(|((expected, partner), shown)| {
            let actual = shown.and_then(|at| calls[at as usize].arguments.value());
            let mut entry = Map::new();
            entry.insert("name", expected.name.clone());
            if let Some(id) = &expected.id {
                entry.insert("id", id.clone());
            }
            entry.insert("expected", expected.args.0.clone());
            entry.insert("actual", actual.map(|value| value.clone().into_owned()));
            entry.insert("score", if partner.is_some() { 1.0 } else { 0.0 });
            Value::Map(entry)
        });
        Map::from([("calls", Value::List(calls.collect()))])
    }
}

#[cfg(test)]
mod tests;
