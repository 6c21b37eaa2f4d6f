//! Severity of a finding.

/// Weight of a failed rule.
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
    /// A hit lowers the mean.
    #[default]
    Normal,
    /// A hit fails the evaluation, whatever the mean is.
    Critical,
}
