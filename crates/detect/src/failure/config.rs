//! Schema of failure detectors as they are written: YAML, built in or of a config.

use std::collections::BTreeMap;

/// Pack of detectors that recognise a failed tool call by its result.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FailurePackConfig {
    /// Name of the pack, shown in messages.
    pub name: String,
    /// Named expressions: `(?&name)` in a `pattern` or `not_near` inserts the expression of that
    /// name. A named expression cannot contain another one.
    pub expressions: BTreeMap<String, String>,
    /// Detectors for results that are text.
    pub texts: Vec<TextDetectorConfig>,
    /// Detectors for the fields of results that are JSON objects. They are tried before `texts`.
    pub fields: Vec<FieldDetectorConfig>,
    /// Fields that hold the output of the tool, such as `content`. If no detector in `fields`
    /// decides, the value of such a field is judged like a result.
    pub inside: Vec<String>,
}

/// Outcome of a call whose result matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// The call failed.
    #[default]
    Failed,
    /// The call waits for a person, or a person stopped it. It counts as not failed.
    Interrupted,
    /// A person refused the call. It counts as not failed.
    Refused,
    /// The call did not fail, even if other detectors match at the beginning of the result: a log
    /// that quotes an error, or a search without a hit.
    Ordinary,
}

/// Position in the result at which the pattern must match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextPlace {
    /// At the beginning, after white space, quotes, brackets and signs.
    #[default]
    Start,
    /// The whole result, except for signs around it.
    Whole,
    /// At the beginning of any line in the first 4 KiB.
    Line,
    /// At the end, in the last 2 KiB, except for signs after it.
    End,
    /// At the beginning of one of the last eight lines, in the last 2 KiB. Programs print their
    /// fatal error there.
    Last,
}

/// Detector for the text of a result.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TextDetectorConfig {
    /// Outcome of a call whose result matches. Default `failed`.
    pub says: Says,
    /// Reason of the failure, shown in explanations, such as `a traceback of Python`.
    pub kind: String,
    /// Family of the reason, such as `traceback`. A call of the family `unknown_tool` also violates
    /// `declared_only` of `tool_policy`.
    pub category: String,
    /// Position in the result at which `pattern` must match. Default `start`.
    pub at: TextPlace,
    /// Regular expression in the syntax of the `regex` crate, without regard to case. Repetitions
    /// need an upper bound, such as `{0,40}`, except with `at: end`.
    pub pattern: String,
    /// Distinguishes capitals from small letters. Default `false`.
    pub case_sensitive: bool,
    /// Literals of two bytes or more, without regard to case. The pattern is only tried in texts
    /// that contain at least one of them.
    pub needs: Vec<String>,
    /// Expression that must not match within 48 bytes before the match and 32 bytes after it.
    pub not_near: Option<String>,
    /// Number of matches that make a hit. Default 1.
    pub count_min: Option<u32>,
}

/// Detector for the fields of a JSON object.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FieldDetectorConfig {
    /// Outcome of a call whose result matches. Default `failed`.
    pub says: Says,
    /// Reason of the failure, shown in explanations.
    pub kind: String,
    /// Family of the reason.
    pub category: String,
    /// Conditions that must all be true.
    pub when: Vec<ConditionConfig>,
    /// Conditions that must all be false.
    pub unless: Vec<ConditionConfig>,
    /// Largest number of fields of the object. By default any number.
    pub keys_max: Option<usize>,
}

/// Condition on fields. It is true if a path in `at` leads to a value that passes the test.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConditionConfig {
    /// Paths from the top of the object, such as `error`, `metadata.exit_code` or `detail.0.msg`.
    /// Case, `_` and `-` in a name make no difference. `*ed` is any field at the top whose name
    /// ends in `ed`.
    pub at: Vec<String>,
    /// Test: the value is filled, so none of `null`, `false`, 0, empty or a word such as `none`.
    pub filled: bool,
    /// Test: the value, as text, equals one of these. Case makes no difference.
    pub is: Vec<String>,
    /// Test: the value is a whole number of at least this, or a text that begins with such a
    /// number.
    pub from: Option<i64>,
    /// Test: the number is at most this.
    pub to: Option<i64>,
    /// Test: the value is a text that matches this regular expression.
    pub matches: Option<String>,
}
