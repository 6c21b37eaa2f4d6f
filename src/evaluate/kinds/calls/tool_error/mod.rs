//! `tool_error`: the share of tool calls that succeeded.
//!
//! A call failed when its telemetry says so, or when its result is blank, holds a top-level
//! `error`, or is what the settings call an error. A result that the telemetry does not hold is
//! not a blank one: such a call succeeded if its span says so, and otherwise does not count.
//! With `compat: dokimos` the result alone decides, and none is a blank one.

mod fields;

use std::borrow::Cow;

use memchr::memmem;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluate::compat::DokimosCompat;
use crate::evaluate::evaluator::{Evaluator, Kind};
use crate::evaluate::shared::{report, text};
use crate::model::{CallStatus, Content, Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use crate::settings::SettingsError;
use crate::value::{Map, Value};

/// `tool_error`.
pub static KIND: Kind = Kind {
    name: "tool_error",
    about: "The share of tool calls that succeeded: neither their span nor their result says they \
            failed.",
    also_known_as: &[
        ("ToolErrorEvaluator", "Dokimos"),
        ("error_free", "OpenSearch observability stack"),
        ("tool_call_success_rate", "OpenSearch observability stack"),
    ],
    threshold: 1.0,
    needs_criteria: false,
    schema: || schemars::schema_for!(Settings),
    build: |node| Ok(Box::new(ToolError::new(node.read()?)?)),
    example: "\
tool_error:
  treat_blank_as_error: false
  error_detector:
    contains: HTTP 500
",
};

/// Settings of `tool_error`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Whether an empty result, or one of white space alone, is a failure. Default `true`.
    treat_blank_as_error: bool,
    /// Whether a result that is a JSON object with a top-level `error` other than `null` is a
    /// failure. Default `true`.
    detect_json_error_field: bool,
    /// Whether a result with a top-level `isError: true`, as the Model Context Protocol marks a
    /// failed call, is a failure. Default `true`; not looked at with `compat`.
    detect_mcp_error: bool,
    /// What else in a result's text is a failure.
    error_detector: ErrorDetector,
    /// `dokimos` gives Dokimos' numbers: the span's status does not count, a result that is not
    /// recorded is a blank one, and a trace without calls scores 1.
    compat: Option<DokimosCompat>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            treat_blank_as_error: true,
            detect_json_error_field: true,
            detect_mcp_error: true,
            error_detector: ErrorDetector::default(),
            compat: None,
        }
    }
}

/// What in a result's text is a failure; either is enough.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ErrorDetector {
    /// The text holds this.
    contains: Option<String>,
    /// The text matches this regular expression, anywhere.
    matches: Option<String>,
}

/// Why a call counts as failed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Cause {
    Status,
    Blank,
    Detected,
    ErrorField,
    McpError,
}

impl Cause {
    fn as_str(self) -> &'static str {
        match self {
            Self::Status => "the telemetry says that it failed",
            Self::Blank => "blank result",
            Self::Detected => "the error detector matches the result",
            Self::ErrorField => "the result has a top-level `error`",
            Self::McpError => "the result says `isError`",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Finding {
    Succeeded,
    Failed(Cause),
    NotRecorded,
}

struct ToolError {
    blank: bool,
    error_field: bool,
    mcp_error: bool,
    dokimos: bool,
    contains: Option<memmem::Finder<'static>>,
    matches: Option<Regex>,
}

impl ToolError {
    fn new(settings: Settings) -> Result<Self, SettingsError> {
        let ErrorDetector { contains, matches } = settings.error_detector;
        let compile = |pattern: String| {
            Regex::new(&pattern).map_err(|error| {
                SettingsError::new(format!("`matches` is no regular expression: {error}"))
            })
        };
        let dokimos = settings.compat.is_some();
        Ok(Self {
            blank: settings.treat_blank_as_error,
            error_field: settings.detect_json_error_field,
            mcp_error: settings.detect_mcp_error && !dokimos,
            dokimos,
            contains: contains.map(|text| memmem::Finder::new(text.as_bytes()).into_owned()),
            matches: matches.map(compile).transpose()?,
        })
    }

    fn find(&self, call: &ToolCall<'_>) -> Finding {
        if !self.dokimos && (call.status == CallStatus::Error || call.error.is_some()) {
            return Finding::Failed(Cause::Status);
        }
        let failed = match &call.result {
            Content::Recorded(value) => self.result_failed(value.get()),
            // What is left of the text may still show the error.
            Content::Unreadable(text) if self.detects(text) => Some(Cause::Detected),
            _ if self.dokimos => self.blank.then_some(Cause::Blank),
            _ if call.status == CallStatus::Unknown => return Finding::NotRecorded,
            _ => None,
        };
        failed.map_or(Finding::Succeeded, Finding::Failed)
    }

    fn result_failed(&self, result: &Value<'_>) -> Option<Cause> {
        if let Value::String(text) = result
            && text::is_blank(text)
        {
            // With the setting off, a blank result is a success and nothing else is asked.
            return self.blank.then_some(Cause::Blank);
        }
        if self.has_detector() && self.detects(&text_of(result)) {
            return Some(Cause::Detected);
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

    fn field_failed(&self, map: &Map<'_>) -> Option<Cause> {
        let error = map.get("error").is_some_and(|error| !error.is_null());
        let is_error = map.get("isError").and_then(Value::as_bool) == Some(true);
        self.cause(error, is_error)
    }

    fn cause(&self, error: bool, is_error: bool) -> Option<Cause> {
        if self.error_field && error {
            return Some(Cause::ErrorField);
        }
        (self.mcp_error && is_error).then_some(Cause::McpError)
    }

    /// Whether parsing is worth while: an object, and a key in plain or escaped letters.
    fn may_hold_field(&self, text: &str) -> bool {
        text.trim_start().starts_with('{')
            && (memmem::find(text.as_bytes(), b"rror\"").is_some()
                || memmem::find(text.as_bytes(), b"\\u").is_some())
    }

    fn has_detector(&self) -> bool {
        self.contains.is_some() || self.matches.is_some()
    }

    fn detects(&self, text: &str) -> bool {
        self.contains.as_ref().is_some_and(|finder| finder.find(text.as_bytes()).is_some())
            || self.matches.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    fn explain(&self, calls: &[ToolCall<'_>], failed: usize, judged: usize) -> String {
        let mut text = format!("{} of {judged} tool calls succeeded", judged - failed);
        let of_kind = |kind: fn(Finding) -> bool| {
            calls.iter().filter(move |call| kind(self.find(call))).map(|call| &*call.name)
        };
        if failed > 0 {
            text.push_str("; failed: ");
            text.push_str(&report::names(of_kind(|found| matches!(found, Finding::Failed(_)))));
        }
        if judged < calls.len() {
            text.push_str("; result not recorded: ");
            text.push_str(&report::names(of_kind(|found| found == Finding::NotRecorded)));
        }
        text
    }

    fn details(&self, calls: &[ToolCall<'_>]) -> Map<'static> {
        let results = calls.iter().map(|call| {
            let (errored, reason) = match self.find(call) {
                Finding::Succeeded => (Value::from(false), ""),
                Finding::Failed(cause) => (Value::from(true), cause.as_str()),
                Finding::NotRecorded => (Value::Null, "the result is not recorded"),
            };
            let entry: Map<'_> = [
                ("name", Value::from(call.name.to_string())),
                ("errored", errored),
                ("reason", reason.into()),
            ]
            .into_iter()
            .collect();
            Value::Map(entry)
        });
        [("results", Value::List(results.collect()))].into_iter().collect()
    }
}

/// A result as text: a text is itself, everything else its compact JSON.
fn text_of<'v>(result: &'v Value<'_>) -> Cow<'v, str> {
    match result {
        Value::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}

impl Evaluator for ToolError {
    fn facts(&self) -> Facts {
        let results = self.blank || self.error_field || self.mcp_error || self.has_detector();
        Facts { results, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            if self.dokimos {
                return report::scored(
                    1.0,
                    want,
                    || "no tool was called".into(),
                    || self.details(calls),
                );
            }
            return report::no_tool_calls(want);
        }
        let (mut failed, mut judged) = (0, 0);
        for call in calls {
            match self.find(call) {
                Finding::Succeeded => judged += 1,
                Finding::Failed(_) => {
                    judged += 1;
                    failed += 1;
                }
                Finding::NotRecorded => {}
            }
        }
        if judged == 0 {
            return report::not_evaluable(Reason::ResultNotRecorded, want, || {
                "neither a result nor a status is recorded of any tool call".to_owned()
            });
        }
        report::scored(
            report::ratio(judged - failed, judged),
            want,
            || self.explain(calls, failed, judged),
            || self.details(calls),
        )
    }
}

/// Whether a call failed by the rules of the default settings: what other kinds mean by it.
pub(in crate::evaluate) fn failed(call: &ToolCall<'_>) -> Option<bool> {
    const DEFAULT: ToolError = ToolError {
        blank: false,
        error_field: true,
        mcp_error: true,
        dokimos: false,
        contains: None,
        matches: None,
    };
    match DEFAULT.find(call) {
        Finding::Succeeded => Some(false),
        Finding::Failed(_) => Some(true),
        Finding::NotRecorded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(settings: Settings, call: ToolCall<'_>) -> Finding {
        ToolError::new(settings).unwrap().find(&call)
    }

    fn text(result: &'static str) -> ToolCall<'static> {
        ToolCall {
            result: Content::ready(result.into()),
            status: CallStatus::Ok,
            ..Default::default()
        }
    }

    #[test]
    fn result_that_is_not_recorded_is_no_blank_one() {
        let call = |status| ToolCall { status, ..ToolCall::default() };
        let found = |status| find(Settings::default(), call(status));
        assert_eq!(found(CallStatus::Ok), Finding::Succeeded);
        assert_eq!(found(CallStatus::Unknown), Finding::NotRecorded);
        assert_eq!(found(CallStatus::Error), Finding::Failed(Cause::Status));
        let dokimos = Settings { compat: Some(DokimosCompat::Dokimos), ..Default::default() };
        assert_eq!(find(dokimos, call(CallStatus::Ok)), Finding::Failed(Cause::Blank));
    }

    #[test]
    fn results_show_errors() {
        let check = |result, found| {
            assert_eq!(find(Settings::default(), text(result)), found, "{result}");
        };
        check(" \n", Finding::Failed(Cause::Blank));
        check("null", Finding::Succeeded);
        check(r#" {"error": false} and more"#, Finding::Failed(Cause::ErrorField));
        check(r#"{"\u0065rror": 1}"#, Finding::Failed(Cause::ErrorField));
        check(r#"{"error": null}"#, Finding::Succeeded);
        check(r#"{"data": {"error": 1}}"#, Finding::Succeeded);
        check(r#"{"error": 1"#, Finding::Succeeded);
        check(r#"{"content": [], "isError": true}"#, Finding::Failed(Cause::McpError));
    }

    #[test]
    fn cut_off_result_shows_only_what_the_detector_finds() {
        let detector = ErrorDetector { contains: Some("HTTP 5".into()), matches: None };
        let settings = Settings { error_detector: detector, ..Default::default() };
        let call = |text: &'static str| ToolCall {
            result: Content::Unreadable(text.into()),
            status: CallStatus::Ok,
            ..Default::default()
        };
        assert_eq!(
            find(settings.clone(), call("x HTTP 500 {\"er")),
            Finding::Failed(Cause::Detected)
        );
        assert_eq!(find(settings, call("{\"error\": \"lo")), Finding::Succeeded);
    }
}
