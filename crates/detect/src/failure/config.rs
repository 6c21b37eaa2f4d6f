//! Schema of failure detectors as they are written: YAML, built in or of a config.

use std::collections::BTreeMap;

/// A pack of detectors that tell from a tool's result whether the call failed.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FailurePackConfig {
    /// The name, for messages.
    pub name: String,
    /// Expressions by name: `(?&name)` in a `pattern` or `not_near` stands for the one of that
    /// name. They cannot use each other.
    pub expressions: BTreeMap<String, String>,
    /// Detectors of texts.
    pub texts: Vec<TextDetectorConfig>,
    /// Detectors of the fields of a JSON object, which come before those of texts.
    pub fields: Vec<FieldDetectorConfig>,
    /// Fields that hold the tool's output, such as `content`: their values are judged like a
    /// result, where no detector of fields has decided.
    pub inside: Vec<String>,
}

/// Outcome of a call that a matching detector reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// The call failed.
    #[default]
    Failed,
    /// The call waits for a person, or was stopped by one: no failure.
    Interrupted,
    /// A person refused the call: no failure.
    Refused,
    /// The call did not fail, whatever other detectors of beginnings would report: a log that
    /// quotes an error, a search that found nothing.
    Ordinary,
}

/// Position in a result at which a text detector matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextPlace {
    /// At its beginning, behind white space, quotes, brackets and signs.
    #[default]
    Start,
    /// All of it, but for signs around it.
    Whole,
    /// At the beginning of any line of its first 4 KiB.
    Line,
    /// Up to its end, within its last 2 KiB, but for signs behind it.
    End,
    /// At the beginning of one of its last eight lines, within its last 2 KiB: the place of a
    /// program's fatal error.
    Last,
}

/// A detector of the text of a result.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TextDetectorConfig {
    /// Outcome that a hit reports. Default `failed`.
    pub says: Says,
    /// The reason, for explanations: `a traceback of Python`.
    pub kind: String,
    /// The family of the reason, such as `traceback`; `unknown_tool` also breaks `declared_only` of
    /// `tool_policy`.
    pub category: String,
    /// Position at which it matches. Default `start`.
    pub at: TextPlace,
    /// Expression in the `regex` crate's syntax, any case; repetitions need an upper bound, but for
    /// `at: end`.
    pub pattern: String,
    /// True if capitals matter.
    pub case_sensitive: bool,
    /// Literals of which one must occur for the pattern to be tried: two bytes or more, any case.
    pub needs: Vec<String>,
    /// Expression that must not match within 48 bytes before and 32 after the finding.
    pub not_near: Option<String>,
    /// Findings needed for a hit; 1 when not given.
    pub count_min: Option<u32>,
}

/// A detector of the fields of a JSON object.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FieldDetectorConfig {
    /// Outcome that a hit reports. Default `failed`.
    pub says: Says,
    /// The reason, for explanations.
    pub kind: String,
    /// The family of the reason.
    pub category: String,
    /// Conditions that must all hold.
    pub when: Vec<ConditionConfig>,
    /// Conditions of which none may hold.
    pub unless: Vec<ConditionConfig>,
    /// Most fields that the object may have.
    pub keys_max: Option<usize>,
}

/// A condition on fields: it holds where one of the paths leads to a value that passes its test.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConditionConfig {
    /// Paths such as `error`, `metadata.exit_code` or `detail.0.msg`, from the top of the object.
    /// Neither case nor `_` and `-` in a name matter. `*ed` is any field at the top whose name ends
    /// so.
    pub at: Vec<String>,
    /// The value says something: not `null`, `false`, 0, empty, nor a word such as `none`.
    pub filled: bool,
    /// The value is one of these, as text, in any case.
    pub is: Vec<String>,
    /// The value is a whole number, or a text that begins with one, of at least this.
    pub from: Option<i64>,
    /// And of at most this.
    pub to: Option<i64>,
    /// The value is a text that matches this expression.
    pub matches: Option<String>,
}
