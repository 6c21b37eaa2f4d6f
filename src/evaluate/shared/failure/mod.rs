//! Whether a tool call failed.
//!
//! `tool_error` decides it by its settings; the other kinds and the comparison with expected calls
//! ask [`failed`], which decides by fixed rules. The span is asked first, then the result.

mod fields;

use std::borrow::Cow;

use memchr::memmem;
use regex::Regex;

use super::text;
use crate::model::{CallStatus, Content, ToolCall};
use crate::value::{Map, Value};

/// Why a call counts as failed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::evaluate) enum FailureCause {
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
}

impl FailureCause {
    /// The words for it.
    pub(in crate::evaluate) fn as_str(self) -> &'static str {
        match self {
            Self::Status => "the telemetry says that it failed",
            Self::Blank => "blank result",
            Self::Detected => "the error detector matches the result",
            Self::ErrorField => "the result has a top-level `error`",
            Self::McpError => "the result says `isError`",
        }
    }
}

/// How a call ended, as far as the telemetry tells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::evaluate) enum CallOutcome {
    /// Nothing says that it failed.
    Succeeded,
    /// It failed.
    Failed(FailureCause),
    /// Neither a result nor a status is recorded.
    NotRecorded,
}

/// What makes a call a failed one.
#[derive(Debug)]
pub(in crate::evaluate) struct FailureRules {
    /// A blank result.
    pub(in crate::evaluate) blank: bool,
    /// A top-level `error` other than `null` in the result.
    pub(in crate::evaluate) error_field: bool,
    /// A top-level `isError: true` in the result.
    pub(in crate::evaluate) mcp_error: bool,
    /// Whether the span's status does not count, and a result that is not recorded is a blank one.
    pub(in crate::evaluate) result_alone: bool,
    /// A text in the result.
    pub(in crate::evaluate) contains: Option<memmem::Finder<'static>>,
    /// A pattern in the result.
    pub(in crate::evaluate) matches: Option<Regex>,
}

/// Whether a call failed by its span, a top-level `error` or `isError: true`; `None` where that is
/// not recorded. A blank result is no failure.
pub(in crate::evaluate) fn failed(call: &ToolCall<'_>) -> Option<bool> {
    const RULES: FailureRules = FailureRules {
        blank: false,
        error_field: true,
        mcp_error: true,
        result_alone: false,
        contains: None,
        matches: None,
    };
    match RULES.outcome(call) {
        CallOutcome::Succeeded => Some(false),
        CallOutcome::Failed(_) => Some(true),
        CallOutcome::NotRecorded => None,
    }
}

impl FailureRules {
    /// How a call ended by these rules.
    pub(in crate::evaluate) fn outcome(&self, call: &ToolCall<'_>) -> CallOutcome {
        if !self.result_alone && (call.status == CallStatus::Error || call.error.is_some()) {
            return CallOutcome::Failed(FailureCause::Status);
        }
        let failed = match &call.result {
            Content::Recorded(value) => self.result_failed(value.get()),
            // What is left of the text may still show the error.
            Content::Unreadable(text) if self.detects(text) => Some(FailureCause::Detected),
            _ if self.result_alone => self.blank.then_some(FailureCause::Blank),
            _ if call.status == CallStatus::Unknown => return CallOutcome::NotRecorded,
            _ => None,
        };
        failed.map_or(CallOutcome::Succeeded, CallOutcome::Failed)
    }

    fn result_failed(&self, result: &Value<'_>) -> Option<FailureCause> {
        if let Value::String(text) = result
            && text::is_blank(text)
        {
            // With the setting off, a blank result is a success and nothing else is asked.
            return self.blank.then_some(FailureCause::Blank);
        }
        if self.has_detector() && self.detects(&text_of(result)) {
            return Some(FailureCause::Detected);
        }
        match result {
            Value::Map(map) => self.field_failed(map),
            Value::String(text) if self.may_hold_field(text) => {
                // Of a repeated key the last counts.
                let (mut error, mut is_error) = (false, false);
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

    fn field_failed(&self, map: &Map<'_>) -> Option<FailureCause> {
        let error = map.get("error").is_some_and(|error| !error.is_null());
        let is_error = map.get("isError").and_then(Value::as_bool) == Some(true);
        self.cause(error, is_error)
    }

    fn cause(&self, error: bool, is_error: bool) -> Option<FailureCause> {
        if self.error_field && error {
            return Some(FailureCause::ErrorField);
        }
        (self.mcp_error && is_error).then_some(FailureCause::McpError)
    }

    /// Whether parsing is worth while: an object, and a key in plain or escaped letters.
    fn may_hold_field(&self, text: &str) -> bool {
        text.trim_start().starts_with('{')
            && (memmem::find(text.as_bytes(), b"rror\"").is_some()
                || memmem::find(text.as_bytes(), b"\\u").is_some())
    }

    /// Whether the text of results is searched.
    pub(in crate::evaluate) fn has_detector(&self) -> bool {
        self.contains.is_some() || self.matches.is_some()
    }

    fn detects(&self, text: &str) -> bool {
        self.contains.as_ref().is_some_and(|finder| finder.find(text.as_bytes()).is_some())
            || self.matches.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// A result as text: a text is itself, everything else its compact JSON.
fn text_of<'v>(result: &'v Value<'_>) -> Cow<'v, str> {
    match result {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}
