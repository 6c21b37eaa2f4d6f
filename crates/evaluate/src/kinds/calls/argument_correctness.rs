//! `argument_correctness`: the arguments of one call of a tool compared with expected ones.
//!
//! Parallel calls have no order: if the requested call is in a group with others of its tool, any
//! of them may match.

use schemars::JsonSchema;
use serde::Deserialize;
use smallvec::SmallVec;

use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::difference::argument_words;
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::matcher::{self, Expected, MatchContext};
use crate::shared::report;
use crate::shared::step_limit;
use crate::shared::within_group::WithinGroup;
use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{
    Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want, WorkBudget,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Registry entry of `argument_correctness`.
pub static KIND: Kind = Kind {
    name: "argument_correctness",
    about: "Compares the arguments of the first, the last or the n-th call of a tool with the \
            expected ones.",
    also_known_as: &[("ArgumentCorrectness", "Pydantic Evals")],
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
argument_correctness/city:
  tool_name: get_weather
  expected_arguments: {city: Paris}
  occurrence: last
",
    ..Kind::PLAIN
};

/// Calls shown in the details.
const CALLS_SHOWN_MAX: usize = 10;

/// Position of the requested call among its tool's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Occurrence {
    #[default]
    First,
    Last,
    Nth(usize),
}

impl TryFrom<Value<'static>> for Occurrence {
    type Error = &'static str;

    fn try_from(value: Value<'static>) -> Result<Self, Self::Error> {
        let index = value.as_number().and_then(|number| number.as_i64());
        match (value.as_str(), index) {
            (Some("first"), _) => Ok(Self::First),
            (Some("last"), _) => Ok(Self::Last),
            (_, Some(index)) => {
                usize::try_from(index).map(Self::Nth).map_err(|_| "`occurrence` counts from 0")
            }
            _ => Err("`occurrence` is `first`, `last` or a number from 0"),
        }
    }
}

/// Comparison of the arguments.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ArgumentMatchMode {
    /// Each expected argument has the expected value. The call may have further arguments.
    #[default]
    Subset,
    /// The same arguments with equal values.
    Exact,
}

/// Settings of `argument_correctness`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Name of the tool.
    tool_name: String,
    /// Expected arguments of the call, an object.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    expected_arguments: Value<'static>,
    /// Comparison of the arguments: `subset` (default) allows further arguments at the top level,
    /// `exact` allows none.
    #[serde(default)]
    match_mode: ArgumentMatchMode,
    /// Call of the tool that is judged: `first` (default), `last`, or its index from 0. A retry is
    /// a call of its own. Of parallel calls, any may be the judged one.
    #[serde(default = "first")]
    #[schemars(extend("anyOf" = [{"enum": ["first", "last"]}, {"type": "integer", "minimum": 0}]))]
    occurrence: Value<'static>,
    /// Score of a run without the call: `true` scores 0, as Pydantic Evals does, `false` is not
    /// evaluable. Default `true`.
    #[serde(default = "yes")]
    require_call: bool,
    /// Leaves failed calls out, so that a retry takes the place of the failed call. Default
    /// `false`.
    #[serde(default)]
    exclude_failed: bool,
    /// Rules that recognise failed calls, in addition to the built-in table.
    #[serde(default)]
    failures: FailureSettings,
    /// Order of parallel calls: with `any_order` (default) any of them may be the judged one, with
    /// `message_order` they have the order of the model's message.
    #[serde(default)]
    within_group: WithinGroup,
}

fn first() -> Value<'static> {
    "first".into()
}

fn yes() -> bool {
    true
}

struct Correctness {
    tool_name: String,
    expected: Value<'static>,
    /// The expected arguments, if they contain matchers.
    rules: Option<Expected>,
    matcher: ArgumentMatcher,
    occurrence: Occurrence,
    require_call: bool,
    exclude_failed: Option<FailureRules>,
    within_group: WithinGroup,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let settings: Settings = node.read()?;
    let mut expected = settings.expected_arguments;
    if expected.as_map().is_none() {
        return Err(SettingsError::new("`expected_arguments` is not an object"));
    }
    let mode = match settings.match_mode {
        ArgumentMatchMode::Subset => ArgumentMode::Subset,
        ArgumentMatchMode::Exact => ArgumentMode::Exact,
    };
    node.get("expected_arguments").map_or(Ok(()), matcher::check)?;
    let rules = matcher::ruled(&mut expected)?;
    Ok(Evaluator::code(Correctness {
        tool_name: settings.tool_name,
        expected,
        rules,
        matcher: ArgumentMatcher { mode, ..ArgumentMatcher::default() },
        occurrence: settings.occurrence.try_into().map_err(SettingsError::new)?,
        require_call: settings.require_call,
        exclude_failed: FailureRules::excluding(
            settings.exclude_failed, &settings.failures, false,
        )?,
        within_group: settings.within_group,
    }))
}

impl Correctness {
    /// Selects the candidates for the requested call: the tool's calls in one group.
    fn select<'c, 'a>(
        &self,
        calls: &'c [ToolCall<'a>],
        effort: &WorkBudget,
    ) -> SmallVec<[&'c ToolCall<'a>; 1]> {
        let is_left_out = |call: &ToolCall<'_>| {
            self.exclude_failed.as_ref().is_some_and(|it| it.failed(call, effort) == Some(true))
        };
        let of_tool = |group: &'c [ToolCall<'a>]| -> SmallVec<[&'c ToolCall<'a>; 1]> {
            let own = group.iter().filter(|call| call.name == self.tool_name);
            own.filter(|call| !is_left_out(call)).collect()
        };
        let mut of_groups = groups(calls).map(of_tool).filter(|calls| !calls.is_empty());
        let found = match self.occurrence {
            Occurrence::First => of_groups.next(),
            Occurrence::Last => of_groups.next_back(),
            Occurrence::Nth(mut index) => of_groups.find(|calls| {
                let left = index.checked_sub(calls.len());
                left.inspect(|left| index = *left).is_none()
            }),
        };
        found.unwrap_or_default()
    }

    /// Returns true if the arguments match.
    fn fits(&self, actual: &Value<'_>, effort: &WorkBudget) -> bool {
        let options = &self.matcher;
        match &self.rules {
            Some(rules) => MatchContext { options, effort }.arguments(rules, actual),
            None => options.matches(&self.expected, actual),
        }
    }

    /// Returns the keys of missing or different entries, then those of unexpected ones.
    fn differences(&self, actual: &Value<'_>, effort: &WorkBudget) -> Vec<String> {
        let expected = self.expected.entries();
        let actual = actual.entries();
        let found = actual.by_key();
        let wanted = expected.by_key();
        let is_extra = |(key, _): &(&str, &Value<'_>)| {
            self.matcher.mode == ArgumentMode::Exact && !wanted.has(key)
        };
        let extra = actual.iter().filter(is_extra).map(|(key, _)| key.to_owned());
        if let Some(entries) = self.rules.as_ref().and_then(Expected::entries) {
            let matching = MatchContext { options: &self.matcher, effort };
            let differs = |(key, it): &&(String, Expected)| !matching.value(it, found.get(key));
            let differing = entries.iter().filter(differs).map(|(key, _)| key.clone());
            return differing.chain(extra).collect();
        }
        let differs = |(key, value): &(&str, &Value<'_>)| {
            !found.get(key).is_some_and(|found| self.matcher.equal(value, found))
        };
        let differing = expected.iter().filter(differs).map(|(key, _)| key.to_owned());
        differing.chain(extra).collect()
    }

    /// Returns the explanation of a mismatch.
    fn words(&self, actual: &Value<'_>) -> Explanation {
        let wanted = (self.rules.as_ref(), &self.expected);
        argument_words(&self.matcher, wanted, actual, "match_mode: subset")
    }
}

impl CodeEvaluator for Correctness {
    fn facts(&self) -> Facts {
        Facts { arguments: true, results: self.exclude_failed.is_some(), ..Facts::default() }
    }

    fn asks_message_order(&self) -> bool {
        self.within_group == WithinGroup::MessageOrder
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let tool = &self.tool_name;
        let calls = self.select(&trajectory.tool_calls, &trajectory.effort);
        if calls.is_empty() {
            let count = trajectory.tool_calls.iter().filter(|call| call.name == *tool).count();
            let explain = || match (count, self.occurrence) {
                (1.., Occurrence::First | Occurrence::Last) => {
                    format!("{tool} was called {count} times, never successfully")
                }
                (0, _) => format!("{tool} was not called"),
                (_, Occurrence::Nth(at)) => {
                    format!("{tool} was called {count} times, `occurrence: {at}` asks for one more")
                }
            };
            return if self.require_call {
                report::scored(0.0, want, || Explanation::plain(explain()), Map::new)
            } else {
                report::not_evaluable(Reason::NoToolCalls, want, explain)
            };
        }
        let given = calls.iter().filter_map(|call| call.arguments.value());
        let effort = &trajectory.effort;
        let right = given.clone().any(|actual| self.fits(actual, effort));
        if self.rules.is_some() && effort.is_spent() {
            return report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words);
        }
        if !right && calls.iter().any(|call| !call.arguments.is_recorded()) {
            return report::not_evaluable(Reason::ArgumentsNotRecorded, want, || {
                format!("the arguments of `{tool}` are not recorded")
            });
        }
        // With several candidates, the nearest is shown.
        let differences = || {
            let differences = given.clone().map(|actual| self.differences(actual, effort));
            differences.min_by_key(|keys| (keys.len(), keys.clone())).unwrap_or_default()
        };
        let explain = || {
            if right {
                return Explanation::plain(format!("{tool} got the expected arguments"));
            }
            let nearest = given.clone().min_by_key(|actual| {
                let keys = self.differences(actual, effort);
                (keys.len(), keys)
            });
            let mut words = Explanation::plain(format!("{tool}: "));
            if let Some(actual) = nearest {
                words.append(&self.words(actual));
            }
            words
        };
        let details = || {
            let differences = differences();
            let list = report::name_list(differences.iter().map(String::as_str));
            let shown = given.clone().take(CALLS_SHOWN_MAX).map(|actual| {
                let mut entry = Map::new();
                entry.insert("name", tool.clone());
                entry.insert("expected", self.expected.clone());
                entry.insert("actual", actual.clone().into_owned());
                entry.insert("score", f64::from(u8::from(right)));
                Value::Map(entry)
            });
            Map::from([("differences", list), ("calls", Value::List(shown.collect()))])
        };
        report::scored(f64::from(u8::from(right)), want, explain, details)
    }
}
