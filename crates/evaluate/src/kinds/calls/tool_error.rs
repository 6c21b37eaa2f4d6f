//! `tool_error`: the share of tool calls that succeeded.
//!
//! A call failed if its telemetry says so, or its result does by the built-in detectors or the
//! settings. A call that a person refused or stopped did not fail. An unrecorded result is not
//! blank: the call succeeded if its span says so, and otherwise does not count. With
//! `compat: dokimos` only the result decides, and an unrecorded one is blank.

use std::fmt::Write as _;

use memchr::memmem;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

use crate::compat::DokimosCompat;
use crate::evaluator::{CodeEvaluator, Evaluator, Kind};
use crate::shared::failure::{CallOutcome, FailureRules, FailureSettings};
use crate::shared::report;
use spanscore_base::model::{Explanation, Facts, Outcome, Reason, ToolCall, Trajectory, Want};
use spanscore_base::settings::SettingsError;
use spanscore_base::value::{Map, Value};

/// Registry entry of `tool_error`.
pub static KIND: Kind = Kind {
    name: "tool_error",
    about: "Share of the tool calls that succeeded. A call fails by the status of its span or by \
            its result.",
    also_known_as: &[
        ("ToolErrorEvaluator", "Dokimos"),
        ("error_free", "OpenSearch observability stack"),
        ("tool_call_success_rate", "OpenSearch observability stack"),
    ],
    schema: || schemars::schema_for!(Settings),
    build: |node| {
        let detector = node.get("error_detector");
        let place = detector.and_then(|it| it.get("matches")).map_or(node.place, |it| it.place);
        Ok(Evaluator::code(ToolError::new(node.read()?).map_err(|error| error.at(place))?))
    },
    example: "\
tool_error:
  treat_blank_as_error: true
  error_detector:
    contains: HTTP 500
",
    ..Kind::PLAIN
};

/// Settings of `tool_error`.
#[derive(Clone, Debug, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Counts an empty or blank result as a failure. Default `false`; `true` with `compat:
    /// dokimos`.
    treat_blank_as_error: Option<bool>,
    /// Counts a result as a failure if it is a JSON object with a filled field `error` at the top.
    /// Default `true`.
    #[default = true]
    detect_json_error_field: bool,
    /// Counts a result as a failure if it has `isError: true` at the top, the mark of the Model
    /// Context Protocol. `compat` ignores this setting. Default `true`.
    #[default = true]
    detect_mcp_error: bool,
    /// Rules that recognise failed calls, in addition to the built-in table.
    failures: FailureSettings,
    /// Further texts that mark a result as a failure.
    error_detector: ErrorDetector,
    /// `dokimos` reproduces the scores of Dokimos: the status of the span does not count, a result
    /// that is not recorded is blank, and a trace without calls scores 1.
    compat: Option<DokimosCompat>,
}

/// Texts that mark a result as a failure. One of both is enough.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ErrorDetector {
    /// Text that the result contains.
    contains: Option<String>,
    /// Regular expression that matches anywhere in the result.
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
                // The error's last line has the cause; the others draw the pattern.
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default();
                let why = why.trim_start().trim_start_matches("error: ");
                SettingsError::new(format!("`matches` is no regular expression: {why}"))
                    .with_help(r"a bracket that stands for itself is written \( or \[")
            })
        };
        let dokimos = settings.compat.is_some();
        let rules = FailureRules {
            blank: settings.treat_blank_as_error.unwrap_or(dokimos),
            error_field: settings.detect_json_error_field,
            mcp_error: settings.detect_mcp_error && !dokimos,
            result_alone: dokimos,
            contains: contains.map(|text| memmem::Finder::new(text.as_bytes()).into_owned()),
            matches: matches.map(compile).transpose()?,
            ..FailureRules::new(&settings.failures)?
        };
        // Dokimos checks only fields of the result, no texts.
        let detectors = rules.detectors.filter(|_| !dokimos);
        Ok(Self { rules: FailureRules { detectors, ..rules } })
    }
}

/// Predicate on the outcome of a call.
type OutcomeTest<'r> = fn(&CallOutcome<'r>) -> bool;

/// Calls of a trajectory with their outcomes.
struct Judged<'c, 'a, 'r> {
    calls: &'c [ToolCall<'a>],
    outcomes: Vec<CallOutcome<'r>>,
}

impl<'c, 'r> Judged<'c, '_, 'r> {
    fn count(&self, is: impl Fn(&CallOutcome<'r>) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| is(outcome)).count()
    }

    fn names(&self, is: impl Fn(&CallOutcome<'r>) -> bool) -> String {
        let calls = self.calls.iter().zip(&self.outcomes);
        report::names(calls.filter(|(_, outcome)| is(outcome)).map(|(call, _)| &*call.name))
    }

    fn explain(&self, failed: usize, judged: usize) -> Explanation {
        let text = format!("{} of {judged} tool calls succeeded", judged - failed);
        let mut words = Explanation::plain(text);
        let each = (1..).zip(self.calls.iter().zip(&self.outcomes));
        let causes = each.filter_map(|(place, (call, outcome))| match outcome {
            CallOutcome::Failed(cause) => Some((place, call, cause.as_str())),
            _ => None,
        });
        report::few(&mut words, causes, |words, (place, call, cause)| {
            // Writing to a string cannot fail.
            let _ = write!(words, "{} (call {place}) failed: {cause}", call.name);
        });
        let groups: [(&str, OutcomeTest<'r>); 2] = [
            ("stopped by a person", |outcome| matches!(outcome, CallOutcome::Stopped(_))),
            ("result not recorded", |outcome| *outcome == CallOutcome::NotRecorded),
        ];
        for (what, is) in groups {
            let names = self.names(is);
            if !names.is_empty() {
                let _ = write!(words, "; {what}: {names}");
            }
        }
        words
    }

    fn details(&self) -> Map<'static> {
        let results = self.calls.iter().zip(&self.outcomes).map(|(call, outcome)| {
            let (errored, reason) = match *outcome {
                CallOutcome::Succeeded => (Value::from(false), ""),
                CallOutcome::Stopped(finding) => (Value::from(false), finding.kind),
                CallOutcome::Failed(cause) => (Value::from(true), cause.as_str()),
                CallOutcome::NotRecorded => (Value::Null, "the result is not recorded"),
            };
            Value::Map(Map::from([
                ("name", Value::from(call.name.to_string())),
                ("errored", errored),
                ("reason", Value::from(reason.to_owned())),
            ]))
        });
        Map::from([("results", Value::List(results.collect()))])
    }
}

impl CodeEvaluator for ToolError {
    fn facts(&self) -> Facts {
        let FailureRules { blank, error_field, mcp_error, detectors, .. } = &self.rules;
        let fields = *blank || *error_field || *mcp_error;
        let results = fields || detectors.is_some() || self.rules.has_detector();
        Facts { results, ..Facts::default() }
    }

    fn evaluate(&self, trajectory: &Trajectory<'_>, want: Want) -> Outcome {
        let calls = &trajectory.tool_calls[..];
        let outcomes =
            calls.iter().map(|call| self.rules.outcome(call, &trajectory.effort)).collect();
        let judged = Judged { calls, outcomes };
        if calls.is_empty() {
            if self.rules.result_alone {
                let explain = || "no tool was called";
                return report::scored(1.0, want, explain, || judged.details());
            }
            return report::no_tool_calls(want);
        }
        let failed = judged.count(|outcome| matches!(outcome, CallOutcome::Failed(_)));
        let known = judged.count(|outcome| *outcome != CallOutcome::NotRecorded);
        if known == 0 {
            return report::not_evaluable(Reason::ResultNotRecorded, want, || {
                "neither a result nor a status is recorded of any tool call".to_owned()
            });
        }
        report::scored(
            report::ratio(known - failed, known),
            want,
            || judged.explain(failed, known),
            || judged.details(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::{CallStatus, Content, WorkBudget};

    fn find(settings: Settings, call: ToolCall<'_>) -> String {
        let error = ToolError::new(settings).unwrap();
        match error.rules.outcome(&call, &WorkBudget::default()) {
            CallOutcome::Failed(cause) => cause.as_str().to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn text(result: &'static str) -> ToolCall<'static> {
        ToolCall {
            result: Content::ready(result.into()),
            status: CallStatus::Ok,
            ..Default::default()
        }
    }

    const STATUS: &str = "the telemetry says that it failed";

    #[test]
    fn result_that_is_not_recorded_is_no_blank_one() {
        let call = |status| ToolCall { status, ..ToolCall::default() };
        let found = |status| find(Settings::default(), call(status));
        assert_eq!(found(CallStatus::Ok), "Succeeded");
        assert_eq!(found(CallStatus::Unknown), "NotRecorded");
        assert_eq!(found(CallStatus::Error), STATUS);
        let dokimos = Settings { compat: Some(DokimosCompat::Dokimos), ..Default::default() };
        assert_eq!(find(dokimos, call(CallStatus::Ok)), "blank result");
    }

    #[test]
    fn results_show_errors() {
        let check = |result, found| {
            assert_eq!(find(Settings::default(), text(result)), found, "{result}");
        };
        const FIELD: &str = "the result has a top-level `error`";
        check(" \n", "Succeeded");
        check("null", "Succeeded");
        check(r#" {"error": "nobody"} and more"#, FIELD);
        check(r#" {"error": false} and more"#, "Succeeded");
        check(r#"{"\u0065rror": 1}"#, FIELD);
        check(r#"{"error": null}"#, "Succeeded");
        check(r#"{"data": {"error": 1}}"#, "Succeeded");
        check(r#"{"content": [], "isError": true}"#, "the result says `isError`");
        check("Error: disk on fire", "the result begins with an error");
    }

    #[test]
    fn dokimos_looks_at_the_field_alone() {
        let dokimos = || Settings { compat: Some(DokimosCompat::Dokimos), ..Default::default() };
        assert_eq!(find(dokimos(), text("Error: disk on fire")), "Succeeded");
        assert_eq!(find(dokimos(), text(r#"{"isError": true}"#)), "Succeeded");
        assert_eq!(
            find(dokimos(), text(r#"{"error": false}"#)),
            "the result has a top-level `error`"
        );
        assert_eq!(find(dokimos(), text(" ")), "blank result");
    }

    #[test]
    fn a_person_who_refuses_is_no_failure() {
        let refused = ToolCall {
            status: CallStatus::Error,
            error: Some("The tool call was denied by the user".into()),
            ..Default::default()
        };
        assert!(find(Settings::default(), refused).contains("a person refused the call"));
        let interrupted = ToolCall {
            status: CallStatus::Error,
            error: Some("GraphInterrupt((Interrupt(value='approve?'),))".into()),
            ..Default::default()
        };
        assert!(find(Settings::default(), interrupted).contains("interrupted"));
    }

    #[test]
    fn cut_off_result_still_shows_its_error() {
        let detector = ErrorDetector { contains: Some("HTTP 5".into()), matches: None };
        let settings = Settings { error_detector: detector, ..Default::default() };
        let call = |text: &'static str| ToolCall {
            result: Content::Unreadable(text.into()),
            status: CallStatus::Ok,
            ..Default::default()
        };
        assert_eq!(
            find(settings.clone(), call("x HTTP 500 {\"er")),
            "the error detector matches the result"
        );
        assert!(find(settings.clone(), call("{\"error\": \"lo")).contains("begins with"));
        assert!(find(settings, call("Error executing tool: too lo")).contains("begins with"));
    }
}
