//! True if a tool call failed.
//!
//! One decision serves every kind: an error on the span or in the message of the result decides,
//! unless its text says that a person stopped or refused the call. OK says only that the function
//! returned: the result still speaks, by the table of
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

/// The family of the detectors of tools that do not exist.
const UNKNOWN_TOOL: &str = "unknown_tool";
/// Finding about what a tool was asked for and did not find.
const NOT_FOUND: FailureFinding<'static> = FailureFinding {
    says: Says::Failed,
    kind: "what was asked for does not exist",
    category: "not_found",
};
/// Families that `tool_error` can switch off.
const ERROR_FIELD: &str = "error_field";
const MCP_ERROR: &str = "mcp_error";

/// Rules for reading results as failures.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct FailureSettings {
    /// True to use the built-in table. Default `true`.
    #[default = true]
    pub built_in: bool,
    /// Packs of your own, which come before the built-in table.
    pub packs: Vec<FailurePackConfig>,
}

/// Reason that a call counts as failed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum FailureCause<'r> {
    /// The status or the error of its span.
    Status,
    /// An empty result, or one of white space alone.
    Blank,
    /// A text that the settings call an error.
    Detected,
    /// A top-level `error` in the result.
    ErrorField,
    /// `isError: true` in the result.
    McpError,
    /// Words of the result, by the table.
    Said(FailureFinding<'r>),
}

impl<'r> FailureCause<'r> {
    /// The words for it.
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

/// Outcome of a call, as far as the telemetry tells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum CallOutcome<'r> {
    /// Nothing says that it failed.
    Succeeded,
    /// A person refused it, or it waits for one: no failure, and nothing was done.
    Stopped(FailureFinding<'r>),
    /// It failed.
    Failed(FailureCause<'r>),
    /// Neither a result nor a status is recorded.
    NotRecorded,
}

/// Rules by which a call counts as failed.
pub(crate) struct FailureRules {
    /// A blank result.
    pub(crate) blank: bool,
    /// A top-level `error` in the result.
    pub(crate) error_field: bool,
    /// A top-level `isError: true` in the result.
    pub(crate) mcp_error: bool,
    /// True if the span's status is ignored, and a result that is not recorded is a blank one.
    pub(crate) result_alone: bool,
    /// A text in the result.
    pub(crate) contains: Option<memmem::Finder<'static>>,
    /// A pattern in the result.
    pub(crate) matches: Option<Regex>,
    /// The table; nothing where fields alone are looked at.
    pub(crate) detectors: Option<Arc<FailureDetectors>>,
}

impl FailureRules {
    /// The decision that serves every kind.
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

    /// The rules where failed calls are treated apart, else nothing. For systems whose numbers are
    /// kept, the table is not asked: fields alone are.
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

    /// Returns true if a call failed; `None` where that is not recorded.
    pub(crate) fn failed(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> Option<bool> {
        match self.outcome(call, effort) {
            CallOutcome::Succeeded | CallOutcome::Stopped(_) => Some(false),
            CallOutcome::Failed(_) => Some(true),
            CallOutcome::NotRecorded => None,
        }
    }

    /// Returns true if the framework says of a call that its tool does not exist, and not what the
    /// tool was asked for.
    pub(crate) fn tool_is_unknown(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> bool {
        let said = self.error_or_result(call, effort);
        said.is_some_and(|finding| of_call(finding, call).category == UNKNOWN_TOOL)
    }

    /// Returns the outcome of a call by these rules; void where the steps ran out meanwhile.
    pub(crate) fn outcome(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> CallOutcome<'_> {
        if !self.result_alone && (call.status == CallStatus::Error || call.error.is_some()) {
            return match self.stopped(call, effort) {
                Some(finding) => CallOutcome::Stopped(finding),
                None => CallOutcome::Failed(FailureCause::Status),
            };
        }
        let failed = match &call.result {
            Content::Recorded(value) => self.result_failed(value.get(), effort),
            // What is left of the text may still show the error.
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

    /// Returns true if what the telemetry calls an error is a person's doing.
    fn stopped(&self, call: &ToolCall<'_>, effort: &WorkBudget) -> Option<FailureFinding<'_>> {
        self.error_or_result(call, effort).filter(|finding| finding.says != Says::Failed)
    }

    /// Returns the finding of the table in the error of a call, else in its result.
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
            // With the setting off, a blank result is a success and nothing else is asked.
            return self.blank.then_some(FailureCause::Blank);
        }
        if self.has_detector() && self.detects(&text_of(result)) {
            return Some(FailureCause::Detected);
        }
        match &self.detectors {
            Some(detectors) => self.said(detectors.judge(result, effort)),
            None => self.fields_failed(result),
        }
    }

    /// Returns the finding of the table, unless the settings switch that off.
    fn said<'r>(&self, finding: Option<FailureFinding<'r>>) -> Option<FailureCause<'r>> {
        let is_off = |finding: &FailureFinding<'_>| match finding.category {
            ERROR_FIELD => !self.error_field,
            MCP_ERROR => !self.mcp_error,
            _ => false,
        };
        finding.filter(|finding| !is_off(finding)).map(FailureCause::Said)
    }

    /// Returns true if the fields at the top of a result alone say that it failed.
    fn fields_failed(&self, result: &Value<'_>) -> Option<FailureCause<'static>> {
        match result {
            Value::Map(map) => self.field_failed(map),
            Value::String(text) if self.may_hold_field(text) => {
                // Of a repeated key the last counts.
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

    /// Returns true if parsing is worth while: an object, and a key in plain or escaped letters.
    fn may_hold_field(&self, text: &str) -> bool {
        text.trim_start().starts_with('{')
            && (memmem::find(text.as_bytes(), b"rror\"").is_some()
                || memmem::find(text.as_bytes(), b"\\u").is_some())
    }

    /// Returns true if the text of results is searched for what the settings name.
    pub(crate) fn has_detector(&self) -> bool {
        self.contains.is_some() || self.matches.is_some()
    }

    fn detects(&self, text: &str) -> bool {
        self.contains.as_ref().is_some_and(|finder| finder.find(text.as_bytes()).is_some())
            || self.matches.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Returns the finding about a call: where its text names something else than its tool, that is
/// what does not exist.
fn of_call<'r>(finding: FailureFinding<'r>, call: &ToolCall<'_>) -> FailureFinding<'r> {
    if finding.category != UNKNOWN_TOOL {
        return finding;
    }
    let text = call.error.as_deref().map(Cow::Borrowed);
    let text = text.or_else(|| match &call.result {
        Content::Unreadable(text) => Some(Cow::Borrowed(&**text)),
        result => result.value().map(text_of),
    });
    match text {
        Some(text) if named::names_another(&text, &call.name) => NOT_FOUND,
        _ => finding,
    }
}

/// A result as text: a text is itself, everything else its compact JSON.
fn text_of<'v>(result: &'v Value<'_>) -> Cow<'v, str> {
    match result {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}
