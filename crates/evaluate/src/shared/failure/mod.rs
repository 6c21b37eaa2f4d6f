//! Decision if a tool call failed.
//!
//! One decision serves every kind. An error on the span or in the result's message counts, unless
//! its text says that a person stopped or refused the call. OK only means that the function
//! returned, so the result is still checked with the table of
//! [`detect::failure`](spanscore_detect::failure).

mod judge;
mod named;

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use super::text;
pub use judge::FailureJudge;
use spanscore_base::model::{CallStatus, Content, ToolCall, WorkBudget};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::json::fields;
use spanscore_base::value::{Map, Value};
use spanscore_detect::failure::config::{FailurePackConfig, Says};
use spanscore_detect::failure::{FailureDetectors, FailureFinding};

/// Detector family for tools that do not exist.
const UNKNOWN_TOOL: &str = "unknown_tool";
/// Finding for a missing object that a tool was asked for.
const NOT_FOUND: FailureFinding<'static> = FailureFinding {
    says: Says::Failed,
    kind: "what was asked for does not exist",
    category: "not_found",
};
/// Families that `tool_error` can disable.
const ERROR_FIELD: &str = "error_field";
const MCP_ERROR: &str = "mcp_error";

/// Rules that recognise failed calls by their result.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct FailureSettings {
    /// Uses the built-in table of failures. Default `true`.
    #[default = true]
    pub built_in: bool,
    /// Packs of detectors of your own. They are tried before the built-in table.
    pub packs: Vec<FailurePackConfig>,
}

/// Reason for a failed call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum FailureCause<'r> {
    /// Status or error of its span.
    Status,
    /// Empty or blank result.
    Blank,
    /// Text named an error by the settings.
    Detected,
    /// Top-level `error` in the result.
    ErrorField,
    /// `isError: true` in the result.
    McpError,
    /// Text of the result matched by the detectors.
    Said(FailureFinding<'r>),
}

impl<'r> FailureCause<'r> {
    /// Returns its description.
    pub(crate) fn as_str(self) -> &'r str {
        match self {
            Self::Status => "the telemetry says that it failed",
            Self::Blank => "blank result",
            Self::Detected => "the error detector matches the result",
            Self::ErrorField => "the result has a top-level `error`",
            Self::McpError => "the result says `isError`",
            Self::Said(finding) => finding.kind,
        }
    }
}

/// Recorded outcome of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum CallOutcome<'r> {
    /// No sign of failure.
    Succeeded,
    /// Refused by a person or waiting for one: no failure, and without effect.
    Stopped(FailureFinding<'r>),
    /// Failed.
    Failed(FailureCause<'r>),
    /// Neither a result nor a status is recorded.
    NotRecorded,
}

/// Rules for the failure of a call.
pub(crate) struct FailureRules {
    /// True if a blank result is a failure.
    pub(crate) blank: bool,
    /// True if a top-level `error` in the result is one.
    pub(crate) error_field: bool,
    /// True if a top-level `isError: true` in the result is one.
    pub(crate) mcp_error: bool,
    /// True if the span's status is ignored, and an unrecorded result counts as blank.
    pub(crate) result_alone: bool,
    /// Text that marks a failed result.
    pub(crate) contains: Option<memmem::Finder<'static>>,
    /// Pattern that marks a failed result.
    pub(crate) matches: Option<Regex>,
    /// Detectors; `None` if only fields count.
    pub(crate) detectors: Option<Arc<FailureDetectors>>,
}

impl FailureRules {
    /// Builds the rules used by every kind.
    pub(crate) fn new(settings: &FailureSettings) -> Result<Self, SettingsError> {
        let FailureSettings { built_in, packs } = settings;
        let has_table = *built_in || !packs.is_empty();
        let detectors = has_table.then(|| FailureDetectors::new(packs, *built_in)).transpose()?;
        Ok(Self {
            blank: false,
            error_field: true,
            mcp_error: true,
            result_alone: false,
            contains: None,
            matches: None,
            detectors,
        })
    }

    /// Returns the rules if failed calls are excluded. In compatibility modes only fields count,
    /// without detectors.
    pub(crate) fn excluding(
        is_wanted: bool,
        settings: &FailureSettings,
        is_compat: bool,
    ) -> Result<Option<Self>, SettingsError> {
        if !is_wanted {
            return Ok(None);
        }
        let fields_alone = FailureSettings { built_in: false, ..FailureSettings::default() };
        Self::new(if is_compat { &fields_alone } else { settings }).map(Some)
    }

    /// Returns true if a call failed; `None` if unrecorded.
    pub(crate) fn failed(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> Option<bool> {
        match self.outcome(call, effort) {
            CallOutcome::Succeeded | CallOutcome::Stopped(_) => Some(false),
            CallOutcome::Failed(_) => Some(true),
            CallOutcome::NotRecorded => None,
        }
    }

    /// Returns true if the framework reports that a call's tool does not exist, as opposed to an
    /// object that it was asked for.
    pub(crate) fn tool_is_unknown(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> bool {
        let said = self.error_or_result(call, effort);
        said.is_some_and(|finding| of_call(finding, call).category == UNKNOWN_TOOL)
    }

    /// Returns the outcome of a call by these rules; void if the budget ran out.
    pub(crate) fn outcome(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> CallOutcome<'_> {
        if !self.result_alone && (call.status == CallStatus::Error || call.error.is_some()) {
            return match self.stopped(call, effort) {
                Some(finding) => CallOutcome::Stopped(finding),
                None => CallOutcome::Failed(FailureCause::Status),
            };
        }
        let failed = match &call.result {
            Content::Recorded(value) => self.result_failed(value.get(), effort),
            // The available part of the text may show the error.
            Content::Unreadable(text) if self.detects(text) => Some(FailureCause::Detected),
            Content::Unreadable(text) if !self.result_alone => {
                let detectors = self.detectors.as_ref();
                detectors.and_then(|detectors| self.said(detectors.judge_text(text, effort)))
            }
            _ if self.result_alone => self.blank.then_some(FailureCause::Blank),
            _ if call.status == CallStatus::Unknown => return CallOutcome::NotRecorded,
            _ => None,
        };
        match failed {
            None => CallOutcome::Succeeded,
            Some(FailureCause::Said(finding)) if finding.says != Says::Failed => {
                CallOutcome::Stopped(finding)
            }
            Some(FailureCause::Said(finding)) => {
                CallOutcome::Failed(FailureCause::Said(of_call(finding, call)))
            }
            Some(cause) => CallOutcome::Failed(cause),
        }
    }

    /// Returns the finding if a recorded error is a person's decision.
    fn stopped(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        self.error_or_result(call, effort).filter(|finding| finding.says != Says::Failed)
    }

    /// Returns the detectors' finding in the error of a call, else in its result.
    fn error_or_result(
        &self,
        call: &ToolCall<'_>,
        effort: &WorkBudget,
    ) -> Option<FailureFinding<'_>> {
        let detectors = self.detectors.as_ref()?;
        let error = call.error.as_deref().and_then(|error| detectors.judge_text(error, effort));
        error.or_else(|| call.result.value().and_then(|result| detectors.judge(result, effort)))
    }

    fn result_failed(&self, result: &Value<'_>, effort: &WorkBudget) -> Option<FailureCause<'_>> {
        if let Value::String(text) = result
            && text::is_blank(text)
        {
            // With the setting off, a blank result is a success and nothing else is checked.
            return self.blank.then_some(FailureCause::Blank);
        }
        if self.has_detector() && self.detects(&result.to_text()) {
            return Some(FailureCause::Detected);
        }
        match &self.detectors {
            Some(detectors) => self.said(detectors.judge(result, effort)),
            None => self.fields_failed(result),
        }
    }

    /// Returns the detectors' finding, unless disabled by the settings.
    fn said<'r>(&self, finding: Option<FailureFinding<'r>>) -> Option<FailureCause<'r>> {
        let is_off = |finding: &FailureFinding<'_>| match finding.category {
            ERROR_FIELD => !self.error_field,
            MCP_ERROR => !self.mcp_error,
            _ => false,
        };
        finding.filter(|finding| !is_off(finding)).map(FailureCause::Said)
    }

    /// Returns the cause if a top-level field of the result reports a failure.
    fn fields_failed(&self, result: &Value<'_>) -> Option<FailureCause<'static>> {
        match result {
            Value::Map(map) => self.field_failed(map),
            Value::String(text) if self.may_hold_field(text) => {
                // The last of repeated keys counts.
                let mut error = false;
                let mut is_error = false;
                fields::walk(text, |key, value| match key {
                    "error" => error = value != "null",
                    "isError" => is_error = value == "true",
                    _ => {}
                })?;
                self.cause(error, is_error)
            }
            _ => None,
        }
    }

    fn field_failed(&self, map: &Map<'_>) -> Option<FailureCause<'static>> {
        let error = map.get("error").is_some_and(|error| !error.is_null());
        let is_error = map.get("isError").and_then(Value::as_bool) == Some(true);
        self.cause(error, is_error)
    }

    fn cause(&self, error: bool, is_error: bool) -> Option<FailureCause<'static>> {
        if self.error_field && error {
            return Some(FailureCause::ErrorField);
        }
        (self.mcp_error && is_error).then_some(FailureCause::McpError)
    }

    /// Returns true if parsing can pay: the text is an object with the key, plain or escaped.
    fn may_hold_field(&self, text: &str) -> bool {
        text.trim_start().starts_with('{')
            && (memmem::find(text.as_bytes(), b"rror\"").is_some()
                || memmem::find(text.as_bytes(), b"\\u").is_some())
    }

    /// Returns true if results are searched for texts in the settings.
    pub(crate) fn has_detector(&self) -> bool {
        self.contains.is_some() || self.matches.is_some()
    }

    fn detects(&self, text: &str) -> bool {
        self.contains.as_ref().is_some_and(|finder| finder.find(text.as_bytes()).is_some())
            || self.matches.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Returns the finding for a call: a text that names something other than its tool reports that
/// this does not exist.
fn of_call<'r>(finding: FailureFinding<'r>, call: &ToolCall<'_>) -> FailureFinding<'r> {
    if finding.category != UNKNOWN_TOOL {
        return finding;
    }
    let text = call.error.as_deref().map(Cow::Borrowed);
    let text = text.or_else(|| match &call.result {
        Content::Unreadable(text) => Some(Cow::Borrowed(&**text)),
        result => result.value().map(Value::to_text),
    });
    match text {
        Some(text) if named::names_another(&text, &call.name) => NOT_FOUND,
        _ => finding,
    }
}
