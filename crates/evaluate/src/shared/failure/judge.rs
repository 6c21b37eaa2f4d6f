//! The decision as others than evaluators ask for it: `inspect`.

use super::{CallOutcome, FailureRules, FailureSettings};
use spanscore_base::model::{ToolCall, WorkBudget};
use spanscore_base::settings::SettingsError;

/// Tells of calls whether they failed, and why.
pub struct FailureJudge(FailureRules);

impl FailureJudge {
    /// One that decides as evaluators with these settings do.
    pub fn new(settings: &FailureSettings) -> Result<Self, SettingsError> {
        FailureRules::new(settings).map(Self)
    }

    /// Returns if a call failed, `None` where that is not recorded, and the reason; of a call that
    /// a person stopped the reason says so.
    pub fn judge(&self, call: &ToolCall<'_>) -> (Option<bool>, Option<&str>) {
        match self.0.outcome(call, &WorkBudget::default()) {
            CallOutcome::Succeeded => (Some(false), None),
            CallOutcome::Stopped(finding) => (Some(false), Some(finding.kind)),
            CallOutcome::Failed(cause) => (Some(true), Some(cause.as_str())),
            CallOutcome::NotRecorded => (None, None),
        }
    }
}
