//! Arithmetic of the released UiPath package, for users who ask for it with `compat: uipath`.
//!
//! These evaluators read the attributes as they came ([`ATTRIBUTES`], spans in order of their ends)
//! and see them as Python does, because the package's scores depend on it: a result that is
//! compared as the `repr` of a dict, a count that was written as text. Semantics are those of
//! `UiPath/uipath-python`, package `uipath` 2.11 to 2.14; where its documentation differs, the code
//! counts. What the package rejects is a settings error here, of the class that [`error_class`]
//! tells; what it catches as an exception while evaluating is
//! [`Outcome::Failed`](spanscore_base::model::Outcome::Failed).

mod answer;
pub(crate) mod args;
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

/// The attributes that the package reads; spans without the first are no tool calls to it.
pub static ATTRIBUTES: &[&str] =
    &["tool.name", "tool.id", "tool.synthesized", "input.value", "output.value"];

/// Returns the facts that its evaluators read.
fn facts() -> Facts {
    let group = ATTRIBUTES.iter().map(|key| (*key).to_owned()).collect();
    Facts { attributes: vec![group], ..Facts::default() }
}

/// System whose results an evaluator reproduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UiPathCompat {
    /// Those of the released UiPath package, also where it departs from its documentation.
    Uipath,
}

/// Returns the error of a definition without criteria.
pub(crate) fn no_criteria(node: &Node) -> SettingsError {
    SettingsError::new("`criteria` is missing")
        .with_help("say what is expected, or give `default_evaluation_criteria`")
        .at(node.place)
}
