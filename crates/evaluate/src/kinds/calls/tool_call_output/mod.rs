//! `tool_call_output`: results of tools compared with expected ones.
//!
//! Calls are found by name, or by id if the criteria give one. Each call satisfies at most one
//! expected result, in an assignment that satisfies the most. Results are compared as JSON values;
//! on both sides, texts of JSON, or of Python objects or lists, are parsed first. A failed call
//! without a recorded result satisfies none.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::compat::uipath::{self, Definition};
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::matcher::{self, Expected, MatchContext};
use crate::shared::pairing::{self, CriteriaGroups, Fit, Hashes, Served, counted, read_text};
use crate::shared::report;
use crate::shared::step_limit::{self, WorkBudget};
use spanscore_base::model::{
    CallStatus, Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want,
};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Registry entry of `tool_call_output`.
pub static KIND: Kind = Kind {
    name: "tool_call_output",
    about: "Compares the results of tools with the expected ones.",
    also_known_as: &[
        ("tool-call-output", "UiPath"),
        ("uipath-tool-call-output", "UiPath"),
        ("ToolCallOutputEvaluator", "UiPath"),
    ],
    needs_criteria: true,
    schema: uipath::schema::<Settings, Criteria>,
    build,
    example: "\
tool_call_output/stock:
  criteria:
    tool_outputs:
      - {name: check_stock, output: {item: A-17, left: 3}}
",
    ..Kind::PLAIN
};

/// Settings of `tool_call_output`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Scores 1 if every expected result was returned, else 0. Without it, the score is the share
    /// of the expected results that were returned. Default `false`.
    strict: bool,
}

/// Expected results.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Expected results, in any order.
    #[serde(alias = "toolOutputs")]
    tool_outputs: Vec<ExpectedOutput>,
}

/// Expected result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExpectedOutput {
    /// Name of the tool.
    name: String,
    /// Expected result: any value, or its text.
    output: Value<'static>,
    /// Id of the call. A call with an id is found by it instead of its name.
    #[serde(default)]
    id: Option<String>,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let definition = Definition::read(node, "tool-call-output")?;
    if definition.is_compat()? {
        return uipath::output::build(&definition);
    }
    let (settings, criteria): (Settings, Criteria) = definition.read_settings(node)?;
    matcher::check_criteria(&definition.body)?;
    let expected = |mut output: ExpectedOutput| {
        let rules = matcher::ruled(&mut output.output)?;
        let read = read(&output.output).into_owned().into_owned();
        Ok(ExpectedResult { weight: read.node_count(), read, rules, written: output })
    };
    let expected = criteria.tool_outputs.into_iter().map(expected);
    let expected = expected.collect::<Result<Vec<ExpectedResult>, SettingsError>>()?;
    let mut groups = CriteriaGroups::default();
    for ExpectedResult { written, .. } in &expected {
        groups.add(&written.name, written.id.as_deref());
    }
    Ok(Evaluator::code(ToolCallOutput { strict: settings.strict, expected, groups }))
}

struct ToolCallOutput {
    strict: bool,
    expected: Vec<ExpectedResult>,
    groups: CriteriaGroups,
}

struct ExpectedResult {
    written: ExpectedOutput,
    /// Expected result, parsed if it is a text of a value.
    read: Value<'static>,
    /// Expected result, if it contains matchers.
    rules: Option<Expected>,
    /// Number of values in it.
    weight: usize,
}

/// Parses a result if it is a text of a value.
fn read<'v>(value: &'v Value<'v>) -> Cow<'v, Value<'v>> {
    read_text(value).map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Results of calls; texts are parsed on first use.
struct CallResults<'c, 'a> {
    calls: &'c [ToolCall<'a>],
    read: OnceCell<Vec<OnceCell<Cow<'c, Value<'c>>>>>,
}

impl<'c, 'a> CallResults<'c, 'a> {
    fn new(calls: &'c [ToolCall<'a>]) -> Self {
        Self { calls, read: OnceCell::new() }
    }

    fn get(&self, call: usize) -> Option<&Value<'c>> {
        let value = self.calls[call].result.value()?;
        if !value.as_str().is_some_and(pairing::may_be_read) {
            return Some(value);
        }
        let cells = self.read.get_or_init(|| vec![OnceCell::new(); self.calls.len()]);
        Some(cells[call].get_or_init(|| read(value)))
    }

    /// Returns the value in a result's text, charged once for parsing. `None` if there is none or
    /// the budget does not suffice.
    fn read_text(&self, call: usize, effort: &WorkBudget) -> Option<&Value<'c>> {
        let written = self.calls[call].result.value()?;
        let text = written.as_str().filter(|text| pairing::may_be_read(text))?;
        let is_read = self.read.get().is_some_and(|cells| cells[call].get().is_some());
        if !is_read && !effort.spend(text.len()) {
            return None;
        }
        self.get(call).filter(|read| !std::ptr::eq(*read, written))
    }

    fn fit(&self, expected: &ExpectedResult, call: usize, effort: &WorkBudget) -> Fit {
        if let (Some(rules), Some(result)) = (&expected.rules, self.calls[call].result.value()) {
            let matching = MatchContext { options: &ArgumentMatcher::default(), effort };
            let holds = matching.value(rules, Some(result))
                || self.read_text(call, effort).is_some_and(|it| matching.value(rules, Some(it)));
            return if holds { Fit::Yes } else { Fit::No };
        }
        match self.get(call) {
            Some(found) if *found == expected.read => Fit::Yes,
            Some(_) => Fit::No,
            None if failed(&self.calls[call]) => Fit::No,
            None => Fit::Unknown,
        }
    }
}

impl CodeEvaluator for ToolCallOutput {
    fn facts(&self) -> Facts {
        Facts { results: true, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls;
        let Some(served) = self.serve(&CallResults::new(calls), &trajectory.effort) else {
            return report::not_evaluable(Reason::TrajectoryTooLarge, want, step_limit::words);
        };
        let Some(score) = pairing::settled(&served, self.expected.len(), self.strict) else {
            let what = (Reason::ResultNotRecorded, "results");
            return pairing::not_recorded(what, want, &self.groups, calls, |call| {
                !call.result.is_recorded() && !failed(call)
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

fn failed(call: &ToolCall<'_>) -> bool {
    call.status == CallStatus::Error
}

impl ToolCallOutput {
    /// Assigns calls so that the most expected results are satisfied; `None` if the work budget is
    /// spent.
    fn serve(&self, results: &CallResults<'_, '_>, effort: &WorkBudget) -> Option<Served> {
        let calls = results.calls;
        let fits = |at: usize, call: u32| {
            results.fit(&self.expected[at], call as usize, effort) == Fit::Yes
        };
        let prepare = || {
            let expected = self.expected.iter().map(|expected| &expected.read);
            let hashes = Hashes::new(expected, (0..calls.len()).map(|call| results.get(call)));
            move |at: usize, call: u32| {
                let expected = &self.expected[at];
                let call = call as usize;
                let differs = expected.rules.is_none() && hashes.differ(at, call);
                let is_within = effort.spend(if differs { 1 } else { 1 + expected.weight });
                if is_within && !differs { results.fit(expected, call, effort) } else { Fit::No }
            }
        };
        let served = pairing::serve(&self.groups, calls, fits, prepare);
        (!effort.is_spent()).then_some(served)
    }

    fn explain(
        &self,
        served: usize,
        calls: &[ToolCall<'_>],
        partners: &[Option<u32>],
    ) -> Explanation {
        let total = counted(self.expected.len(), "expected result");
        let mut words = Explanation::plain(format!("{served} of {total} returned"));
        let shown = self.groups.shown(calls, partners);
        let each = self.expected.iter().zip(partners).zip(shown);
        let unserved = each.filter(|((_, partner), _)| partner.is_none());
        report::few(&mut words, unserved, |words, ((expected, _), shown)| {
            words.push(&expected.written.name);
            let Some(at) = shown else { return words.push(" was not called") };
            let call = &calls[at as usize];
            let what = match (call.result.is_recorded(), failed(call)) {
                (_, true) => "failed",
                (true, false) => "returned something else",
                (false, false) => "has no recorded result",
            };
            // Writing to a string cannot fail.
            let _ = write!(words, " (call {}) {what}", at + 1);
        });
        words
    }

    fn details(&self, calls: &[ToolCall<'_>], partners: &[Option<u32>]) -> Map<'static> {
        let shown = self.groups.shown(calls, partners);
        let entries = self.expected.iter().zip(partners).zip(shown);
        let calls = entries.map(|((expected, partner), shown)| {
            let actual = shown.and_then(|at| calls[at as usize].result.value());
            let mut entry = Map::new();
            entry.insert("name", expected.written.name.clone());
            if let Some(id) = &expected.written.id {
                entry.insert("id", id.clone());
            }
            entry.insert("expected", expected.written.output.clone());
            entry.insert("actual", actual.map(|value| value.clone().into_owned()));
            entry.insert("score", if partner.is_some() { 1.0 } else { 0.0 });
            Value::Map(entry)
        });
        Map::from([("calls", Value::List(calls.collect()))])
    }
}

#[cfg(test)]
mod tests;
