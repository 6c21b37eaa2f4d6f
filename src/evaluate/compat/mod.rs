//! The system whose numbers a kind is to give, where ours differ by default.

pub mod uipath;

use schemars::JsonSchema;
use serde::Deserialize;

/// Whose behaviour to keep to the last digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DokimosCompat {
    /// Dokimos, of August 2026.
    Dokimos,
}
