//! `tool_error`: the share of tool calls that succeeded.
//!
//! A call failed when its telemetry says so, or when its result is blank, holds a top-level
//! `error`, or is what the settings call an error. A result that the telemetry does not hold is
//! not a blank one: such a call succeeded if its span says so, and otherwise does not count.
//! With `compat: dokimos` the result alone decides, and none is a blank one.

use memchr::memmem;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::evaluate::compat::DokimosCompat;
use crate::evaluate::evaluator::{Evaluator, Kind};
use crate::evaluate::shared::failure::{CallOutcome, FailureRules};
use crate::evaluate::shared::report;
use crate::model::{Facts, Outcome, Reason, ToolCall, Trajectory, Want};
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
    early: false,
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

struct ToolError {
    rules: FailureRules,
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
        let rules = FailureRules {
            blank: settings.treat_blank_as_error,
            error_field: settings.detect_json_error_field,
            mcp_error: settings.detect_mcp_error && !dokimos,
            result_alone: dokimos,
            contains: contains.map(|text| memmem::Finder::new(text.as_bytes()).into_owned()),
            matches: matches.map(compile).transpose()?,
        };
        Ok(Self { rules })
    }

    fn explain(&self, calls: &[ToolCall<'_>], failed: usize, judged: usize) -> String {
        let mut text = format!("{} of {judged} tool calls succeeded", judged - failed);
        let of_kind = |kind: fn(CallOutcome) -> bool| {
            calls.iter().filter(move |call| kind(self.rules.outcome(call))).map(|call| &*call.name)
        };
        if failed > 0 {
            text.push_str("; failed: ");
            text.push_str(&report::names(of_kind(|found| matches!(found, CallOutcome::Failed(_)))));
        }
        if judged < calls.len() {
            text.push_str("; result not recorded: ");
            text.push_str(&report::names(of_kind(|found| found == CallOutcome::NotRecorded)));
        }
        text
    }

    fn details(&self, calls: &[ToolCall<'_>]) -> Map<'static> {
        let results = calls.iter().map(|call| {
            let (errored, reason) = match self.rules.outcome(call) {
                CallOutcome::Succeeded => (Value::from(false), ""),
                CallOutcome::Failed(cause) => (Value::from(true), cause.as_str()),
                CallOutcome::NotRecorded => (Value::Null, "the result is not recorded"),
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

impl Evaluator for ToolError {
    fn facts(&self) -> Facts {
        let FailureRules { blank, error_field, mcp_error, .. } = self.rules;
        let results = blank || error_field || mcp_error || self.rules.has_detector();
        Facts { results, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        if calls.is_empty() {
            if self.rules.result_alone {
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
            match self.rules.outcome(call) {
                CallOutcome::Succeeded => judged += 1,
                CallOutcome::Failed(_) => {
                    judged += 1;
                    failed += 1;
                }
                CallOutcome::NotRecorded => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::shared::failure::FailureCause;
    use crate::model::{CallStatus, Content};

    fn find(settings: Settings, call: ToolCall<'_>) -> CallOutcome {
        ToolError::new(settings).unwrap().rules.outcome(&call)
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
        assert_eq!(found(CallStatus::Ok), CallOutcome::Succeeded);
        assert_eq!(found(CallStatus::Unknown), CallOutcome::NotRecorded);
        assert_eq!(found(CallStatus::Error), CallOutcome::Failed(FailureCause::Status));
        let dokimos = Settings { compat: Some(DokimosCompat::Dokimos), ..Default::default() };
        assert_eq!(find(dokimos, call(CallStatus::Ok)), CallOutcome::Failed(FailureCause::Blank));
    }

    #[test]
    fn results_show_errors() {
        let check = |result, found| {
            assert_eq!(find(Settings::default(), text(result)), found, "{result}");
        };
        check(" \n", CallOutcome::Failed(FailureCause::Blank));
        check("null", CallOutcome::Succeeded);
        check(r#" {"error": false} and more"#, CallOutcome::Failed(FailureCause::ErrorField));
        check(r#"{"\u0065rror": 1}"#, CallOutcome::Failed(FailureCause::ErrorField));
        check(r#"{"error": null}"#, CallOutcome::Succeeded);
        check(r#"{"data": {"error": 1}}"#, CallOutcome::Succeeded);
        check(r#"{"error": 1"#, CallOutcome::Succeeded);
        check(r#"{"content": [], "isError": true}"#, CallOutcome::Failed(FailureCause::McpError));
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
            CallOutcome::Failed(FailureCause::Detected)
        );
        assert_eq!(find(settings, call("{\"error\": \"lo")), CallOutcome::Succeeded);
    }
}
