//! Criteria of kinds that compare with expected calls, as written.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::shared::matcher::Expected;
use crate::shared::text;
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

/// Criteria of kinds that compare with expected calls.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct Criteria {
    /// Expected calls in order, each with its arguments or as its name alone. An empty list expects
    /// no call.
    #[serde(
        default,
        alias = "toolCalls",
        alias = "expected_tool_calls",
        alias = "expected_tools",
        alias = "expected_trajectory",
        alias = "reference_tool_calls",
        alias = "reference_trajectory"
    )]
    pub tool_calls: Vec<ExpectedCall>,
    /// Expected calls of each turn, a list of lists, with `level: session`. Each trace of the
    /// session is a turn, and the score is the mean over the turns. A trace alone is compared with
    /// `tool_calls`, or without these with the calls of all turns.
    #[serde(default)]
    pub turns: Vec<Vec<ExpectedCall>>,
    /// Alternatives: a list of criteria with `tool_calls`. The alternative with the highest score
    /// counts.
    #[serde(default)]
    pub any_of: Vec<RightWay>,
    /// Only `tool_trajectory`: expected calls as steps, a list of lists. The calls of a step are
    /// parallel, so in one model message. A step counts like a single call.
    #[serde(default)]
    pub steps: Vec<Vec<ExpectedCall>>,
}

/// One alternative of `any_of`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RightWay {
    /// Expected calls, in order.
    pub tool_calls: Vec<ExpectedCall>,
}

/// Expected call. Its name alone stands for a call with any arguments.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(transform = or_a_name)]
pub struct ExpectedCall {
    /// Name of the tool.
    #[serde(alias = "tool_name")]
    pub name: String,
    /// Expected arguments, an object. Default: no arguments.
    #[serde(default, alias = "args", alias = "tool_input", alias = "input_parameters")]
    pub arguments: Value<'static>,
    /// Expected result, for kinds that compare results.
    #[serde(default, alias = "output")]
    pub result: Option<Value<'static>>,
    /// True if the call is written as its name alone, so that its arguments are not compared.
    #[serde(skip)]
    pub is_name: bool,
    /// Arguments with matchers; `None` if all are literal.
    #[serde(skip)]
    pub rules: Option<Arc<Expected>>,
    /// Result with matchers; `None` if it is literal.
    #[serde(skip)]
    pub result_rules: Option<Arc<Expected>>,
}

/// Adds the form of a lone name to a call's schema.
fn or_a_name(schema: &mut schemars::Schema) {
    let call = std::mem::take(schema);
    schema.insert("anyOf".to_owned(), serde_json::json!([{"type": "string"}, call]));
}

impl<'de> Deserialize<'de> for ExpectedCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrCall;
        impl<'de> Visitor<'de> for NameOrCall {
            type Value = ExpectedCall;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a call, such as `{name: search}`, or the name of its tool")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<ExpectedCall, E> {
                Ok(ExpectedCall { name: name.to_owned(), is_name: true, ..Default::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ExpectedCall, A::Error> {
                ExpectedCall::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(NameOrCall)
    }
}

impl ExpectedCall {
    /// Returns true if its arguments are compared literally.
    pub(super) fn is_literal(&self) -> bool {
        !self.is_name && self.rules.is_none()
    }
}

impl Criteria {
    /// Rejects calls without a name, and arguments other than an object.
    pub fn checked(mut self) -> Result<Self, SettingsError> {
        let forms = [
            self.tool_calls.is_empty() && self.turns.is_empty(),
            self.any_of.is_empty(),
            self.steps.is_empty(),
        ];
        if forms.iter().filter(|is_empty| !**is_empty).count() > 1 {
            return Err(SettingsError::new("the criteria have several forms of expected calls")
                .with_help(
                    "give one of `tool_calls` (with or without `turns`), `any_of` and `steps`",
                ));
        }
        if self.tool_calls.is_empty() {
            self.tool_calls = self.turns.concat();
        }
        let of_turns = self.turns.iter().flatten();
        let of_alternatives = self.any_of.iter().flat_map(|it| &it.tool_calls);
        let of_steps = self.steps.iter().flatten();
        let of_one = self.tool_calls.iter().chain(of_turns);
        let calls = of_one.chain(of_alternatives).chain(of_steps);
        for (index, call) in calls.enumerate() {
            if text::is_blank(&call.name) {
                return Err(SettingsError::new(format!("expected call {index} has no name")));
            }
            if !matches!(call.arguments, Value::Null | Value::Map(_)) {
                return Err(SettingsError::new(format!(
                    "the arguments of expected call {index} (`{}`) are not an object",
                    call.name
                )));
            }
        }
        Ok(self)
    }
}

/// Returns the criteria of a kind that requires them.
pub fn required(criteria: Option<Criteria>, node: &Node) -> Result<Criteria, SettingsError> {
    let missing =
        || SettingsError::new("`criteria` is missing").with_help("list the expected `tool_calls`");
    let written = node.get("criteria");
    let place = written.map_or(node.place, |node| node.place);
    if criteria.is_some() && written.is_some_and(|node| node.entries().next().is_none()) {
        let message = "`criteria` has no `tool_calls`";
        return Err(SettingsError::new(message).at(place));
    }
    criteria.ok_or_else(missing).and_then(Criteria::checked).map_err(|error| error.at(place))
}
