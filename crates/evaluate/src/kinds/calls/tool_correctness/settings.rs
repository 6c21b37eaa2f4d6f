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

/// Comparison of the calls. It decides the score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CorrectnessMatchMode {
    /// F1 over the sets of tool names (Dokimos).
    #[default]
    #[serde(alias = "NAMES_ONLY")]
    NamesOnly,
    /// Longest common subsequence of the names, divided by the length of the longer list (Dokimos).
    #[serde(alias = "NAMES_AND_ORDER")]
    NamesAndOrder,
    /// F1 over calls with matching arguments. Each expected call takes the first actual call that
    /// matches (Dokimos).
    #[serde(alias = "NAMES_AND_ARGS")]
    NamesAndArgs,
    /// Mean over the expected calls of the best unused actual call, weighted by the similarity of
    /// the arguments (DeepEval).
    BestMatch,
    /// `best_match` along the heaviest common subsequence (DeepEval with
    /// `should_consider_ordering`).
    BestMatchInOrder,
    /// 0 if the names differ, else the share of the expected arguments with equal values (Ragas
    /// ToolCallAccuracy; with `compat: ragas` arguments are compared as Python prints them).
    CallAccuracy,
    /// F1 over the sets of calls with their arguments, to four decimals (Ragas ToolCallF1).
    CallF1,
    /// Mean over the expected calls, aligned by name and order, of the share of the expected
    /// arguments with equal values (Agent Development Kit).
    ParameterMatch,
}

/// Part of a call that `best_match` compares besides the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EvaluationParam {
    /// Arguments, by similarity.
    InputParameters,
    /// Result, by equality.
    Output,
}

/// System whose scores are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CorrectnessCompat {
    /// Dokimos, as of August 2026.
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
    /// Comparison of arguments, for `names_and_args` and `call_f1`.
    pub(super) argument_matcher: ArgumentMatcher,
    /// Comparison of arguments for single tools, by tool name.
    pub(super) argument_matchers: BTreeMap<String, ArgumentMatcher>,
    /// Parts of a call that `best_match` and `best_match_in_order` compare besides the name:
    /// `input_parameters`, `output`. Default: the name alone.
    pub(super) evaluation_params: Vec<EvaluationParam>,
    /// Turns scores below 1 into 0, for `best_match` and `best_match_in_order`. Default `false`.
    pub(super) strict_mode: bool,
    /// Requires the expected order of the calls, for `call_accuracy`. Default `true`.
    #[default = true]
    pub(super) strict_order: bool,
    /// Leaves failed calls out. Default `false`.
    pub(super) exclude_failed: bool,
    /// Rules that recognise failed calls, in addition to the built-in table.
    pub(super) failures: FailureSettings,
    /// Order of parallel calls: `any_order` (default) takes the order with the highest score,
    /// `message_order` the order of the model's message. For `names_and_order`,
    /// `best_match_in_order`, `parameter_match` and `call_accuracy` with `strict_order`.
    pub(super) within_group: WithinGroup,
    /// System whose scores are reproduced. `dokimos` treats arguments that are not recorded as
    /// empty. `ragas`, for `call_accuracy`, compares arguments as Python prints them. Both take
    /// parallel calls in the listed order.
    pub(super) compat: Option<CorrectnessCompat>,
    /// Expected calls.
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
