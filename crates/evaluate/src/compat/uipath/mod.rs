//! `compat: uipath`: arithmetic of the released UiPath package.
//!
//! These evaluators read original attributes ([`ATTRIBUTES`], spans in order of their ends) as
//! Python values, because the package's scores depend on them: a result compared as the `repr` of a
//! dict, a count written as text. Semantics are those of the code of `UiPath/uipath-python`,
//! package `uipath` 2.11 to 2.14, which may differ from its documentation. Rejections of the
//! package are settings errors here, with a class from [`error_class`]; exceptions that it catches
//! while evaluating are [`Outcome::Failed`](spanscore_base::model::Outcome::Failed).

mod answer;
pub(crate) mod args;
mod contents;
pub(crate) mod count;
mod definition;
mod lax;
pub(crate) mod order;
pub(crate) mod output;
mod settings;
mod spans;

pub(crate) use definition::{Definition, Flag, missing, required_text};
pub use definition::{ErrorClass, error_class};
pub(crate) use settings::schema;

use schemars::JsonSchema;
use serde::Deserialize;

use spanscore_base::model::Facts;
use spanscore_base::settings::{Node, SettingsError};

/// Attributes read by the package; spans without the first are no tool calls to it.
pub static ATTRIBUTES: &[&str] =
    &["tool.name", "tool.id", "tool.synthesized", "input.value", "output.value"];

/// Returns the facts needed by its evaluators.
fn facts() -> Facts {
    let group = ATTRIBUTES.iter().map(|key| (*key).to_owned()).collect();
    Facts { attributes: vec![group], ..Facts::default() }
}

/// System whose scores are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UiPathCompat {
    /// The released UiPath package, including its departures from its documentation.
    Uipath,
}

/// Returns the error for a definition without criteria.
pub(crate) fn no_criteria(node: &Node) -> SettingsError {
    SettingsError::new("`criteria` is missing")
        .with_help("say what is expected, or give `default_evaluation_criteria`")
        .at(node.place)
}
