//! Settings of the kinds that UiPath has too.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use smart_default::SmartDefault;

use super::{Definition, UiPathCompat, no_criteria};
use spanscore_base::settings::{Node, SettingsError, schema_of_both};

/// Settings of the kinds known from UiPath; `C` are their criteria.
#[derive(Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct UiPathSettings<C> {
    /// System whose scores are reproduced: `uipath` for the released UiPath package.
    compat: Option<UiPathCompat>,
    /// Expected values.
    criteria: Option<C>,
    /// Expected values, if `criteria` is absent.
    #[serde(alias = "defaultEvaluationCriteria")]
    default_evaluation_criteria: Option<C>,
    /// Accepted and ignored, so that a UiPath definition can be pasted.
    name: Option<String>,
    /// Accepted and ignored, so that a UiPath definition can be pasted.
    description: Option<String>,
}

impl Definition {
    /// Parses the settings and criteria of a kind; `node` is the definition as written.
    ///
    /// # Errors
    /// Unreadable settings, or missing criteria.
    pub(crate) fn read_settings<S: DeserializeOwned, C: DeserializeOwned>(
        &self,
        node: &Node,
    ) -> Result<(S, C), SettingsError> {
        let (own, shared): (S, UiPathSettings<C>) = self.body.read_both()?;
        let criteria = shared.criteria.or(shared.default_evaluation_criteria);
        Ok((own, criteria.ok_or_else(|| no_criteria(node))?))
    }
}

/// Returns the schema of a kind with the given settings and criteria.
pub(crate) fn schema<S: JsonSchema, C: JsonSchema>() -> Schema {
    schema_of_both::<S, UiPathSettings<C>>()
}
