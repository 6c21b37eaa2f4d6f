//! How much a finding matters.

/// How much a failed rule matters.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It lowers the mean.
    #[default]
    Normal,
    /// It fails the evaluation, whatever the mean says.
    Critical,
}
