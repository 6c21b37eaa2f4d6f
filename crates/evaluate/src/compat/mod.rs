//! Compatibility modes: the arithmetic of other systems where it differs from our default.

pub mod uipath;

use schemars::JsonSchema;
use serde::Deserialize;

/// System whose scores are reproduced exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DokimosCompat {
    /// Dokimos, as of August 2026.
    Dokimos,
}
