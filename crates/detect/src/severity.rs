//! Severity of a finding.

/// Effect of a failed rule.
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
    /// The failed rule lowers the mean.
    #[default]
    Normal,
    /// The failed rule fails the whole evaluation, whatever the mean.
    Critical,
}
