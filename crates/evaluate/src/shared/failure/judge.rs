//! Failure decision for other callers than evaluators: `inspect`.

use super::{CallOutcome, FailureRules, FailureSettings};
use spanscore_base::model::{ToolCall, WorkBudget};
use spanscore_base::settings::SettingsError;

/// Decides for calls if they failed, with the reason.
pub struct FailureJudge(FailureRules);

impl FailureJudge {
    /// Builds a judge that decides like evaluators with these settings.
    pub fn new(settings: &FailureSettings) -> Result<Self, SettingsError> {
        FailureRules::new(settings).map(Self)
    }

    /// Returns true if a call failed, `None` if unrecorded, and the reason, such as a stop by a
    /// person.
    pub fn judge(&self, call: &ToolCall<'_>) -> (Option<bool>, Option<&str>) {
        match self.0.outcome(call, &WorkBudget::default()) {
            CallOutcome::Succeeded => (Some(false), None),
            CallOutcome::Stopped(finding) => (Some(false), Some(finding.kind)),
            CallOutcome::Failed(cause) => (Some(true), Some(cause.as_str())),
            CallOutcome::NotRecorded => (None, None),
        }
    }
}
