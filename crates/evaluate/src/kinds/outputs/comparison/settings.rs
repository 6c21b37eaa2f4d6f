//! Settings shared by `exact_match`, `contains` and `json_similarity`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use smart_default::SmartDefault;

use super::{
    Comparer, ComparisonSubject, ComparisonTarget, Method, NumberReading, OutputKey, Parts, Path,
    read_compat,
};
use crate::compat::uipath::{self, Definition, Flag, UiPathCompat};
use crate::evaluator::Evaluator;
use spanscore_base::settings::{Node, SettingsError};
use spanscore_base::value::Value;

/// Settings of `exact_match`, `contains` and `json_similarity`; `C` are their criteria.
#[derive(Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ComparisonSettings<C> {
    /// Handling of the settings: `uipath` accepts what the UiPath package accepts.
    compat: Option<UiPathCompat>,
    /// Compared content: `final_output` (default), or `tool_arguments` or `tool_results`, which
    /// compare each call by itself. The score is then the mean over the calls.
    target: ComparisonTarget,
    /// Tools whose calls are compared, with `target: tool_arguments` or `tool_results`. Default:
    /// all tools.
    tools: Vec<String>,
    /// Path of the compared value in the content, such as `order.items[0].id`. Default: the whole
    /// content. A missing value never equals the expected one.
    path: Option<Path>,
    /// Compared part of the final output and of the expected value: `*` for all of it, a path such
    /// as `result.items[0].name`, or a list of paths.
    #[serde(alias = "targetOutputKey")]
    target_output_key: OutputKey,
    /// Compares each line of a text by itself. The score is the mean over the lines. Default
    /// `false`.
    #[serde(alias = "lineByLineEvaluator")]
    line_by_line_evaluator: bool,
    /// Text that ends a line. Default: a line break.
    #[serde(alias = "lineDelimiter")]
    #[default = "\n"]
    line_delimiter: String,
    /// Expected value.
    criteria: Option<C>,
    /// Expected value, if `criteria` is absent.
    #[serde(alias = "defaultEvaluationCriteria")]
    default_evaluation_criteria: Option<C>,
    /// Accepted and ignored, so that a UiPath definition can be pasted.
    name: Option<String>,
    /// Accepted and ignored, so that a UiPath definition can be pasted.
    description: Option<String>,
}

/// Expected value.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The help for an unknown setting searches the settings of `criteria` by this name.
#[schemars(rename = "Criteria")]
pub(crate) struct ExpectedValue {
    /// Expected value, of any type.
    #[serde(alias = "expectedOutput")]
    pub(crate) expected_output: Value<'static>,
}

impl<C> ComparisonSettings<C> {
    /// Splits the settings into the shared parts and the criteria.
    ///
    /// # Errors
    /// Returns an error for incompatible settings or missing criteria, located at `node`.
    pub(crate) fn into_parts(
        self,
        definition: &Definition,
        node: &Node,
    ) -> Result<(Parts, C), SettingsError> {
        let place = definition.body.place;
        if self.line_by_line_evaluator && self.line_delimiter.is_empty() {
            return Err(SettingsError::new("`line_delimiter` is empty").at(place));
        }
        let delimiter = self.line_by_line_evaluator.then_some(self.line_delimiter);
        let criteria = self.criteria.or(self.default_evaluation_criteria);
        let criteria = criteria.ok_or_else(|| uipath::no_criteria(node))?;
        let subject = ComparisonSubject { target: self.target, tools: self.tools, path: self.path };
        let key = self.target_output_key;
        let subject = subject.checked(&key, place)?;
        Ok((Parts { subject, key, numbers: NumberReading::Exact, delimiter }, criteria))
    }
}

/// Definition of a kind that compares texts; `C` is its criteria.
pub(crate) struct TextComparison<C> {
    /// Name of the kind in the UiPath package, such as `exact-match`.
    pub(crate) type_id: &'static str,
    /// Comparison method for these settings.
    pub(crate) method: fn(TextSettings) -> Method,
    /// Expected value of the criteria.
    pub(crate) expected: fn(C) -> Value<'static>,
    /// Parser of the expected value for `compat: uipath`.
    pub(crate) compat: fn(&Node) -> Result<Value<'static>, SettingsError>,
}

impl<C: DeserializeOwned> TextComparison<C> {
    /// Builds the evaluator.
    pub(crate) fn build(&self, node: &Node) -> Result<Evaluator, SettingsError> {
        let definition = Definition::read(node, self.type_id)?;
        let is_compat = definition.is_compat()?;
        let (parts, text, expected) = if is_compat {
            let parts = read_compat(&definition)?;
            let text = TextSettings::read_compat(&definition)?;
            (parts, text, definition.criteria(self.compat)?)
        } else {
            let (text, settings): (TextSettings, ComparisonSettings<C>) =
                definition.body.read_both()?;
            let (parts, criteria) = settings.into_parts(&definition, node)?;
            (parts, text, (self.expected)(criteria))
        };
        let comparer = Comparer::new((self.method)(text), parts, expected.clone());
        Ok(Evaluator::code(if is_compat {
            comparer
        } else {
            comparer.with_matchers(expected, &definition.body)?
        }))
    }
}

/// Comparison of texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TextSettings {
    /// Distinguishes capitals from small letters. Default `false`.
    #[serde(alias = "caseSensitive")]
    pub(crate) case_sensitive: bool,
    /// Reverses the result: a match scores 0. Default `false`.
    pub(crate) negated: bool,
}

impl TextSettings {
    /// Reads the settings as the UiPath package does.
    ///
    /// # Errors
    /// Returns an error for a value that is no Boolean.
    fn read_compat(definition: &Definition) -> Result<Self, SettingsError> {
        Ok(Self {
            case_sensitive: definition.flag(Flag("case_sensitive", "caseSensitive"))?,
            negated: definition.flag(Flag("negated", "negated"))?,
        })
    }
}
