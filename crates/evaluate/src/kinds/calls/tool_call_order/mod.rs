//! `tool_call_order`: order of tool calls compared with the expected order.
//!
//! The score is the share of the expected calls in the longest common subsequence with the actual
//! ones. With `strict` the calls must be exactly the expected ones. Parallel calls take the order
//! that scores best.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::compat::uipath::{self, Definition};
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::{ArgumentMatcher, ArgumentMode};
use crate::shared::difference::{CountedDifferences, Difference};
use crate::shared::expected_calls::{CallMatcher, ExpectedCall};
use crate::shared::order::{self, InOrder, Mask, Masks, TableTooLarge};
use crate::shared::pairing::{self, counted};
use crate::shared::within_group::WithinGroup;
use crate::shared::{expected_calls, report};
use spanscore_base::model::{Explanation, Facts, Outcome, ToolCall, Trajectory, Want, WorkBudget};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Registry entry of `tool_call_order`.
pub static KIND: Kind = Kind {
    name: "tool_call_order",
    about: "Compares the order of tool calls with the expected one.",
    also_known_as: &[
        ("trajectory:tool-sequence", "Promptfoo"),
        ("tool-call-order", "UiPath"),
        ("uipath-tool-call-order", "UiPath"),
        ("ToolCallOrderEvaluator", "UiPath"),
    ],
    needs_criteria: true,
    schema: uipath::schema::<Settings, Criteria>,
    build,
    example: "\
tool_call_order/checkout:
  criteria:
    tool_calls_order: [find_item, reserve_item, charge_card]
",
    ..Kind::PLAIN
};

/// Settings of `tool_call_order`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Scores 1 if exactly the expected calls were made in the expected order, else 0. Default
    /// `false`.
    strict: bool,
    /// Order of parallel calls: `any_order` (default) takes the order with the highest score,
    /// `message_order` the order of the model's message.
    within_group: WithinGroup,
}

/// Expected order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Criteria {
    /// Names or ids of the expected calls, in order. At least one.
    #[serde(alias = "toolCallsOrder")]
    tool_calls_order: ExpectedOrder,
}

/// At least one name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>")]
#[schemars(with = "Vec<String>", extend("minItems" = 1))]
struct ExpectedOrder(Vec<String>);

impl TryFrom<Vec<String>> for ExpectedOrder {
    type Error = &'static str;

    fn try_from(names: Vec<String>) -> Result<Self, Self::Error> {
        if names.is_empty() {
            Err("`tool_calls_order` is empty: name at least one tool")
        } else {
            Ok(Self(names))
        }
    }
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    let definition = Definition::read(node, "tool-call-order")?;
    if definition.is_compat()? {
        return uipath::order::build(&definition);
    }
    let (settings, criteria): (Settings, Criteria) = definition.read_settings(node)?;
    let ExpectedOrder(names) = criteria.tool_calls_order;
    let masks = Masks::new(&names);
    Ok(Evaluator::code(ToolCallOrder {
        strict: settings.strict,
        within_group: settings.within_group,
        names,
        masks,
    }))
}

struct ToolCallOrder {
    strict: bool,
    within_group: WithinGroup,
    names: Vec<String>,
    /// Positions of each expected name or id, as bit masks.
    masks: Masks,
}

/// Steps to copy a call under another name.
const STEPS_PER_COPY: usize = 64;

impl CodeEvaluator for ToolCallOrder {
    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn asks_message_order(&self) -> bool {
        self.within_group == WithinGroup::MessageOrder
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls;
        let expected = self.names.len();
        let (length, kept) = match self.kept(calls, &trajectory.effort, want) {
            Ok(kept) => kept,
            Err(error) => return expected_calls::too_large(error.into(), want),
        };
        // The longest common subsequence covers all calls only if each is the expected one.
        let exact = length == expected && calls.len() == expected;
        let score = if self.strict {
            f64::from(u8::from(exact))
        } else {
            pairing::share(length, expected, false)
        };
        report::scored(
            score,
            want,
            || self.explain(trajectory, length, exact),
            || self.details(trajectory, &kept),
        )
    }
}

impl ToolCallOrder {
    /// Returns the number of expected calls made in order, and their positions for the details.
    fn kept(
        &self,
        calls: &[ToolCall<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Result<(usize, Vec<usize>), TableTooLarge> {
        let mask = |call: &ToolCall<'_>| self.masks.either(&call.name, call.id.as_deref());
        if !order::is_grouped(calls) {
            let masks = calls.iter().map(mask);
            return Ok(order::of_singles(masks, self.names.len(), want.details));
        }
        let expected = calls.iter().map(|call| (call, mask(call)));
        let (expected, masks): (Vec<_>, Vec<Mask<'_>>) =
            expected.filter(|(_, mask)| !mask.is_empty()).unzip();
        let in_order = InOrder {
            groups: order::groups(&expected),
            expected: self.names.len(),
            questions_max: order::CELLS_MAX,
            effort,
            fits: |call: usize, at: usize| order::holds(&masks[call], at),
        };
        if !want.details {
            return Ok((in_order.length()?, Vec::new()));
        }
        let kept = in_order.kept()?;
        Ok((kept.len(), kept))
    }

    fn explain(&self, trajectory: &Trajectory<'_>, length: usize, exact: bool) -> Explanation {
        let calls = &trajectory.tool_calls;
        let total = counted(self.names.len(), "expected call");
        let mut words = Explanation::plain(match (self.strict, exact) {
            (true, true) => format!("exactly {total} made, in order"),
            (true, false) => {
                let made = counted(calls.len(), "call");
                format!("{made} made, not exactly the {total} in order")
            }
            _ => format!("{length} of {total} made in the expected order"),
        });
        if exact || (!self.strict && length == self.names.len()) {
            return words;
        }
        let differences = self.difference(trajectory, |difference| difference.words());
        if !differences.is_empty() {
            words.push("; ");
            words.append(&differences);
        }
        words
    }

    /// Computes the difference of actual and expected calls, and passes it to `ask`.
    fn difference<T>(
        &self,
        trajectory: &Trajectory<'_>,
        ask: impl FnOnce(Difference<'_, '_>) -> T,
    ) -> T {
        let expected = |name: &String| ExpectedCall { name: name.clone(), ..Default::default() };
        let expected: Vec<ExpectedCall> = self.names.iter().map(expected).collect();
        // A call expected by its id is compared under that id.
        let names: hashbrown::HashSet<&str> = self.names.iter().map(String::as_str).collect();
        let by_id = |call: &ToolCall<'_>| {
            let id = call.id.as_deref().filter(|id| names.contains(id));
            let name = id.unwrap_or(&call.name).to_owned();
            ToolCall { name: name.into(), group: call.group, ..ToolCall::default() }
        };
        let calls: Vec<ToolCall<'_>> = trajectory.tool_calls.iter().map(by_id).collect();
        let calls: Vec<&ToolCall<'_>> = calls.iter().collect();
        let default = ArgumentMatcher { mode: ArgumentMode::Ignore, ..Default::default() };
        let matcher = CallMatcher { default, ..CallMatcher::default() };
        let counted =
            CountedDifferences { order: true, missing: true, extra: self.strict, allows_more: "" };
        // Every call was copied under its compared name.
        trajectory.effort.spend(calls.len() * STEPS_PER_COPY);
        ask(Difference::new(&matcher, &expected, &calls, counted, &trajectory.effort))
    }

    fn details(&self, trajectory: &Trajectory<'_>, kept: &[usize]) -> Map<'static> {
        let list = |names: &mut dyn Iterator<Item = &str>| {
            Value::List(names.map(|name| Value::from(name.to_owned())).collect())
        };
        Map::from([
            ("expected", list(&mut self.names.iter().map(String::as_str))),
            ("actual", list(&mut trajectory.tool_calls.iter().map(|call| &*call.name))),
            ("lcs", list(&mut kept.iter().map(|at| self.names[*at].as_str()))),
            ("diff", self.difference(trajectory, |difference| difference.list())),
        ])
    }
}

#[cfg(test)]
mod tests;
