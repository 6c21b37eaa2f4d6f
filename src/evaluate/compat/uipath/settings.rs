//! What kinds that UiPath has, too, share in their settings.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Definition, UiPathCompat, no_criteria};
use crate::settings::{Node, SettingsError, schema_of_both};

/// Settings beside a kind's own; `C` says what is expected.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct UiPathSettings<C> {
    /// Whose numbers to give: `uipath` for exactly those of the released UiPath package.
    compat: Option<UiPathCompat>,
    /// What is expected.
    criteria: Option<C>,
    /// What is expected where `criteria` is not given.
    #[serde(alias = "defaultEvaluationCriteria")]
    default_evaluation_criteria: Option<C>,
    /// Ignored; so that a UiPath definition can be pasted.
    name: Option<String>,
    /// Ignored; so that a UiPath definition can be pasted.
    description: Option<String>,
}

impl<C> Default for UiPathSettings<C> {
    fn default() -> Self {
        let compat = None;
        let name = None;
        let description = None;
        Self { compat, criteria: None, default_evaluation_criteria: None, name, description }
    }
}

impl Definition {
    /// Reads a kind's own settings and what is expected; `node` is where they stand as a user wrote
    /// them.
    ///
    /// # Errors
    /// What cannot be read, or that nothing is expected.
    pub(in crate::evaluate) fn read_settings<S: DeserializeOwned, C: DeserializeOwned>(
        &self,
        node: &Node,
    ) -> Result<(S, C), SettingsError> {
        let (own, shared): (S, UiPathSettings<C>) = self.body.read_both()?;
        let criteria = shared.criteria.or(shared.default_evaluation_criteria);
        Ok((own, criteria.ok_or_else(|| no_criteria(node))?))
    }
}

/// The schema of a kind with those settings of its own and those criteria.
pub(in crate::evaluate) fn schema<S: JsonSchema, C: JsonSchema>() -> Schema {
    schema_of_both::<S, UiPathSettings<C>>()
}
