//! Settings of `tool_correctness`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::shared::arguments::ArgumentMatcher;
use crate::shared::expected_calls::Criteria;
use crate::shared::failure::FailureSettings;
use crate::shared::within_group::WithinGroup;
use spanscore_base::settings::{Node, SettingsError};

/// Settings in which the order of calls counts.
pub(super) const ORDERED_MODES: &str = "`match_mode: names_and_order`, `best_match_in_order`, \
    `parameter_match` or `call_accuracy` with `strict_order`, without `compat`";

/// Comparison of the calls, and the number that comes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CorrectnessMatchMode {
    /// F1 over the sets of tool names (Dokimos).
    #[default]
    #[serde(alias = "NAMES_ONLY")]
    NamesOnly,
    /// Longest common subsequence of the names, divided by the longer list (Dokimos).
    #[serde(alias = "NAMES_AND_ORDER")]
    NamesAndOrder,
    /// F1 over calls with matching arguments, each paired with the first that fits (Dokimos).
    #[serde(alias = "NAMES_AND_ARGS")]
    NamesAndArgs,
    /// The best unused actual call for each expected one, weighted by the similarity of the
    /// arguments; mean over the expected calls (DeepEval).
    BestMatch,
    /// The same along the heaviest common subsequence (DeepEval with `should_consider_ordering`).
    BestMatchInOrder,
    /// 0 unless the names are equal, then the share of expected arguments given, with equal values
    /// (Ragas ToolCallAccuracy, which compares what Python prints: `compat: ragas`).
    CallAccuracy,
    /// F1 over the sets of calls with their arguments, to four decimals (Ragas ToolCallF1).
    CallF1,
    /// Calls aligned by name and order; the share of expected arguments given, mean over the
    /// expected calls (Agent Development Kit).
    ParameterMatch,
}

/// Part of a call that `best_match` compares besides the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EvaluationParam {
    /// The arguments, by similarity.
    InputParameters,
    /// The result, equal or not.
    Output,
}

/// System whose numbers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CorrectnessCompat {
    /// Dokimos, of August 2026.
    Dokimos,
    /// Ragas 0.4.
    Ragas,
}

/// Settings of `tool_correctness`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// Comparison of the calls: `names_only` (default), `names_and_order`, `names_and_args`,
    /// `best_match`, `best_match_in_order`, `call_accuracy`, `call_f1` or `parameter_match`.
    pub(super) match_mode: CorrectnessMatchMode,
    /// Condition under which arguments match, for `names_and_args` and `call_f1`.
    pub(super) argument_matcher: ArgumentMatcher,
    /// The same for single tools, by name.
    pub(super) argument_matchers: BTreeMap<String, ArgumentMatcher>,
    /// Parts that `best_match` and `best_match_in_order` compare besides the name:
    /// `input_parameters`, `output`. Default: the name alone.
    pub(super) evaluation_params: Vec<EvaluationParam>,
    /// For `best_match` and `best_match_in_order`: true if anything below 1 is 0. Default `false`.
    pub(super) strict_mode: bool,
    /// For `call_accuracy`: true if the calls must come in the expected order. Default `true`.
    #[default = true]
    pub(super) strict_order: bool,
    /// True if calls that failed are left out. Default `false`.
    pub(super) exclude_failed: bool,
    /// Rules for reading results as failures, beside the built-in table.
    pub(super) failures: FailureSettings,
    /// The order of calls that were made together: `any_order` (default) takes the one that scores
    /// the most, `message_order` the one in which the model's message lists them. For
    /// `names_and_order`, `best_match_in_order`, `parameter_match` and a strict `call_accuracy`.
    pub(super) within_group: WithinGroup,
    /// `dokimos` takes arguments that are not recorded for empty ones; `ragas`, for
    /// `call_accuracy`, compares arguments as the texts that Python prints. Both take calls that
    /// were made together in the order in which they are listed.
    pub(super) compat: Option<CorrectnessCompat>,
    /// The expected calls.
    #[schemars(required)]
    pub(super) criteria: Option<Criteria>,
}

impl Settings {
    /// Rejects rules for single arguments: `compat: ragas` compares Python's printed form.
    pub(super) fn refuse_rules(&self, node: &Node) -> Result<(), SettingsError> {
        let mut by_name = self.argument_matchers.iter();
        let of_tool = by_name.find(|(_, matcher)| !matcher.rules.is_empty());
        let by_tool = || node.get("argument_matchers")?.get(of_tool?.0);
        if self.argument_matcher.rules.is_empty() && of_tool.is_none() {
            return Ok(());
        }
        let matcher = by_tool().or_else(|| node.get("argument_matcher")).unwrap_or(node);
        let place = matcher.get("match").unwrap_or(matcher).place;
        Err(SettingsError::new("`match` does not go with `compat: ragas`")
            .with_help("leave out `compat`, which compares by value")
            .at(place))
    }

    /// Returns true if the order of the calls counts.
    pub(super) fn asks_for_order(&self) -> bool {
        use CorrectnessMatchMode::{BestMatchInOrder, CallAccuracy, NamesAndOrder, ParameterMatch};
        match self.match_mode {
            NamesAndOrder | BestMatchInOrder | ParameterMatch => self.compat.is_none(),
            CallAccuracy => self.strict_order && self.compat.is_none(),
            _ => false,
        }
    }
}
