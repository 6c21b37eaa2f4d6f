//! `tool_trajectory`: the calls of a trace compared with expected ones.
//!
//! One definition of equal calls ([`crate::shared::expected_calls`]) serves all modes, each of
//! which computes a score of another system. Each expected call needs its own actual call, unless
//! `reuse_matches` is set. Parallel calls take the order that scores best.

mod steps;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::compat::DokimosCompat;
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::arguments::ArgumentMatcher;
use crate::shared::difference::{CountedDifferences, Difference};
use crate::shared::expected_calls::{self, CallMatcher, Comparison, Criteria, ExpectedCall};
use crate::shared::failure::{FailureRules, FailureSettings};
use crate::shared::within_group::WithinGroup;
use crate::shared::{report, turns};
use spanscore_base::model::{Explanation, Facts, Outcome, ToolCall, Trajectory, Want, WorkBudget};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::{Map, Value};

/// Registry entry of `tool_trajectory`.
pub static KIND: Kind = Kind {
    name: "tool_trajectory",
    about: "Compares the tool calls with an expected trajectory: in order or in any order, all of \
            them or a part.",
    also_known_as: &[
        ("ToolTrajectoryEvaluator", "Dokimos"),
        ("trajectory_exact_match", "Vertex AI"),
        ("trajectory_in_order_match", "Vertex AI"),
        ("trajectory_any_order_match", "Vertex AI"),
        ("trajectory_precision", "Vertex AI"),
        ("trajectory_recall", "Vertex AI"),
        ("tool_trajectory_avg_score", "Agent Development Kit"),
        ("TrajectoryMatch", "Pydantic Evals"),
        ("ToolCorrectness", "Pydantic Evals"),
        ("create_trajectory_match_evaluator", "LangChain agentevals"),
        ("task_navigation_efficiency", "Azure AI Evaluation"),
        ("TrajectoryExactOrderMatch", "AgentCore"),
        ("TrajectoryInOrderMatch", "AgentCore"),
        ("TrajectoryAnyOrderMatch", "AgentCore"),
    ],
    needs_criteria: true,
    schema: || schemars::schema_for!(Settings),
    build,
    example: "\
tool_trajectory/refund:
  match_mode: in_order
  argument_matcher:
    mode: subset
  argument_matchers:
    search_orders:
      mode: ignore
  criteria:
    tool_calls:
      - name: search_orders
      - name: issue_refund
        arguments: {order_id: 42}
",
    ..Kind::PLAIN
};

/// Comparison of the calls. It decides the score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TrajectoryMatchMode {
    /// 1 if actual and expected calls are equal one by one, else 0.
    #[serde(alias = "STRICT", alias = "exact", alias = "EXACT", alias = "exact_match")]
    Strict,
    /// Longest common subsequence, divided by the length of the longer list.
    #[default]
    #[serde(alias = "IN_ORDER")]
    InOrder,
    /// 1 if the actual calls contain the expected ones in their order, else 0.
    InOrderMatch,
    /// Harmonic mean of two shares: longest common subsequence / actual calls, and / expected
    /// calls.
    InOrderF1,
    /// Pairs of equal calls, divided by the length of the longer list.
    #[serde(alias = "ANY_ORDER")]
    AnyOrder,
    /// Harmonic mean of two shares: pairs of equal calls / actual calls, and / expected calls.
    AnyOrderF1,
    /// 1 if actual and expected calls are equal in some order, else 0.
    Unordered,
    /// 1 if each expected call has an actual one of its own, else 0.
    #[serde(alias = "SUPERSET", alias = "any_order_match")]
    Superset,
    /// 1 if each actual call has an expected one of its own, else 0.
    #[serde(alias = "SUBSET")]
    Subset,
    /// Pairs of equal calls / actual calls.
    #[serde(alias = "PRECISION")]
    Precision,
    /// Pairs of equal calls / expected calls.
    #[serde(alias = "RECALL")]
    Recall,
}

/// Modes in which the order counts.
const ORDERED_MODES: &str =
    "`strict`, `in_order`, `in_order_match` or `in_order_f1`, without `compat`";

impl TrajectoryMatchMode {
    fn asks_for_order(self) -> bool {
        matches!(self, Self::Strict | Self::InOrder | Self::InOrderMatch | Self::InOrderF1)
    }
}

/// Settings of `tool_trajectory`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Comparison of the calls: `strict`, `in_order` (default), `in_order_match`, `in_order_f1`,
    /// `any_order`, `any_order_f1`, `unordered`, `superset`, `subset`, `precision` or `recall`.
    match_mode: TrajectoryMatchMode,
    /// Comparison of the arguments of an actual call with the expected ones.
    argument_matcher: ArgumentMatcher,
    /// Comparison of arguments for single tools, by tool name.
    argument_matchers: BTreeMap<String, ArgumentMatcher>,
    /// Allows one call to match several calls of the other side, for `superset`, `subset`,
    /// `precision` and `recall`. Default `false`.
    reuse_matches: bool,
    /// Leaves failed calls out, so that a retry counts once. Default `false`.
    exclude_failed: bool,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
    /// Order of parallel calls: `any_order` (default) takes the order with the highest score,
    /// `message_order` the order of the model's message. For `strict`, `in_order`, `in_order_match`
    /// and `in_order_f1`.
    within_group: WithinGroup,
    /// `dokimos` reproduces the scores of Dokimos: arguments that are not recorded are empty, and
    /// parallel calls have the listed order.
    compat: Option<DokimosCompat>,
    /// Expected calls.
    #[schemars(required)]
    criteria: Option<Criteria>,
}

struct ToolTrajectory {
    mode: TrajectoryMatchMode,
    within_group: WithinGroup,
    matcher: CallMatcher,
    reuse_matches: bool,
    exclude_failed: Option<FailureRules>,
    criteria: Criteria,
}

fn build(node: &Node) -> Result<Evaluator, SettingsError> {
    use TrajectoryMatchMode::{Precision, Recall, Subset, Superset};
    let settings: Settings = node.read()?;
    let mode = settings.match_mode;
    let is_compat = settings.compat.is_some();
    if settings.reuse_matches && !matches!(mode, Precision | Recall | Subset | Superset) {
        return Err(SettingsError::new(
            "`reuse_matches` goes only with superset, subset, precision and recall",
        ));
    }
    let asks_for_order = mode.asks_for_order() && !is_compat;
    settings.within_group.check(asks_for_order, ORDERED_MODES, node)?;
    let matcher = CallMatcher {
        default: settings.argument_matcher,
        by_name: settings.argument_matchers,
        absent_is_empty: is_compat,
        is_listed: is_compat,
    };
    let criteria = expected_calls::required(settings.criteria, node)?;
    if settings.reuse_matches && !criteria.steps.is_empty() {
        return Err(SettingsError::new("`reuse_matches` does not go with `steps`"));
    }
    Ok(Evaluator::code(ToolTrajectory {
        mode,
        within_group: settings.within_group,
        reuse_matches: settings.reuse_matches,
        exclude_failed: FailureRules::excluding(
            settings.exclude_failed, &settings.failures, is_compat,
        )?,
        criteria: criteria.compiled(&matcher, !is_compat, node)?,
        matcher,
    }))
}

/// Numbers of matched calls on each side.
struct Matched {
    expected: usize,
    actual: usize,
}

impl Matched {
    fn both(count: usize) -> Self {
        Self { expected: count, actual: count }
    }
}

impl ToolTrajectory {
    fn matched(
        &self,
        comparison: &Comparison<'_, '_>,
    ) -> Result<Matched, expected_calls::TooLarge> {
        let e = comparison.expected.len();
        let both = Matched::both;
        Ok(match self.mode {
            TrajectoryMatchMode::Strict => both(if comparison.is_exact()? { e } else { 0 }),
            TrajectoryMatchMode::InOrder | TrajectoryMatchMode::InOrderF1 => {
                both(comparison.in_order()?)
            }
            TrajectoryMatchMode::InOrderMatch => {
                both(if comparison.is_subsequence()? { e } else { 0 })
            }
            _ if self.reuse_matches => {
                let (expected, actual) = comparison.members()?;
                Matched { expected, actual }
            }
            _ => both(comparison.pairs()?),
        })
    }

    fn score(&self, matched: &Matched, a: usize, e: usize) -> f64 {
        let all_or_nothing = |all: bool| f64::from(u8::from(all));
        let ratio = |part: usize, whole: usize| match whole {
            0 => 0.0,
            _ => report::ratio(part, whole),
        };
        let count = matched.expected;
        match self.mode {
            _ if a == 0 && e == 0 => 1.0,
            TrajectoryMatchMode::Strict | TrajectoryMatchMode::Unordered => {
                all_or_nothing(a == e && count == e)
            }
            TrajectoryMatchMode::InOrderMatch | TrajectoryMatchMode::Superset => {
                all_or_nothing(count == e)
            }
            TrajectoryMatchMode::InOrder | TrajectoryMatchMode::AnyOrder => ratio(count, a.max(e)),
            TrajectoryMatchMode::InOrderF1 | TrajectoryMatchMode::AnyOrderF1 => {
                report::f1(count, a, e)
            }
            TrajectoryMatchMode::Subset => all_or_nothing(matched.actual == a),
            TrajectoryMatchMode::Precision => ratio(matched.actual, a),
            TrajectoryMatchMode::Recall => ratio(count, e),
        }
    }

    fn explain(&self, matched: &Matched, a: usize, e: usize) -> String {
        let Matched { expected, actual } = matched;
        match self.mode {
            _ if a == 0 && e == 0 => "no tool call was expected and none was made".to_owned(),
            TrajectoryMatchMode::Strict => match self.score(matched, a, e) {
                1.0 => format!("all {e} tool calls are as expected"),
                _ => format!("the {a} tool calls are not the {e} expected ones in their order"),
            },
            TrajectoryMatchMode::InOrderMatch if *expected < e => {
                format!("the {e} expected tool calls do not stand in order among the {a} actual")
            }
            TrajectoryMatchMode::Subset | TrajectoryMatchMode::Precision => {
                format!("{actual} of {a} tool calls were expected")
            }
            TrajectoryMatchMode::InOrder
            | TrajectoryMatchMode::InOrderF1
            | TrajectoryMatchMode::InOrderMatch => {
                format!("{expected} of {e} expected tool calls in order, among {a} actual")
            }
            _ => format!("{expected} of {e} expected tool calls made, among {a} actual"),
        }
    }

    /// Compares actual with expected calls as the mode requires.
    fn difference<'c, 'a>(&'c self, comparison: &Comparison<'c, 'a>) -> Difference<'c, 'a> {
        use TrajectoryMatchMode::{InOrderMatch, Precision, Recall, Subset, Superset};
        let counted = CountedDifferences {
            order: self.mode.asks_for_order(),
            missing: !matches!(self.mode, Subset | Precision),
            extra: !matches!(self.mode, InOrderMatch | Superset | Recall),
            allows_more: "argument_matcher: {mode: subset}",
        };
        let Comparison { expected, actual, .. } = *comparison;
        Difference::new(&self.matcher, expected, actual, counted, comparison.effort())
    }

    fn details(&self, comparison: &Comparison<'_, '_>, matched: &Matched) -> Map<'static> {
        let expected = comparison.expected.iter().map(|call| &*call.name);
        let actual = comparison.actual.iter().map(|call| &*call.name);
        Map::from([
            ("matched_count", Value::from(matched.expected)),
            ("actual_count", Value::from(comparison.actual.len())),
            ("expected_count", Value::from(comparison.expected.len())),
            ("actual_tools", report::name_list(actual)),
            ("expected_tools", report::name_list(expected)),
            ("diff", self.difference(comparison).list()),
        ])
    }
}

impl CodeEvaluator for ToolTrajectory {
    fn facts(&self) -> Facts {
        Facts {
            arguments: self.matcher.reads_arguments(),
            results: self.exclude_failed.is_some(),
            ..Facts::default()
        }
    }

    fn asks_message_order(&self) -> bool {
        self.within_group == WithinGroup::MessageOrder
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let effort = &trajectory.effort;
        if !self.criteria.steps.is_empty() {
            let steps = &self.criteria.steps;
            return self.judge_steps(steps, &trajectory.tool_calls, effort, want);
        }
        turns::judge(&self.criteria, trajectory, want, |expected, actual| {
            self.judge(expected, actual, effort, want)
        })
    }
}

impl ToolTrajectory {
    fn judge(
        &self,
        expected: &[ExpectedCall],
        calls: &[ToolCall<'_>],
        effort: &WorkBudget,
        want: Want,
    ) -> Outcome {
        let actual = expected_calls::counted(calls, self.exclude_failed.as_ref(), effort);
        if let Some(obstacle) = self.matcher.obstacle(expected, &actual, want) {
            return obstacle;
        }
        let comparison = Comparison::new(&self.matcher, expected, &actual, effort);
        let matched = self.matched(&comparison);
        let matched = match matched.and_then(|matched| comparison.check().map(|()| matched)) {
            Ok(matched) => matched,
            Err(error) => return expected_calls::too_large(error, want),
        };
        let a = actual.len();
        let e = expected.len();
        report::scored(
            self.score(&matched, a, e),
            want,
            || {
                let mut words = Explanation::plain(self.explain(&matched, a, e));
                let differences = self.difference(&comparison).words();
                if !differences.is_empty() {
                    words.push("; ");
                    words.append(&differences);
                }
                words
            },
            || self.details(&comparison, &matched),
        )
    }
}
