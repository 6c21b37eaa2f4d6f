//! Compatibility modes: the arithmetic of other systems where it differs from our default.

pub mod uipath;

use schemars::JsonSchema;
use serde::Deserialize;

/// System whose results are reproduced to the last digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DokimosCompat {
    /// Dokimos, of August 2026.
    Dokimos,
}
