//! Settings of `output_rules`.

use std::collections::BTreeMap;

use smart_default::SmartDefault;
use strum::IntoStaticStr;

use super::limits::{FINDINGS_LISTED, TEXT_BYTES_MAX};
use spanscore_detect::Severity;
use spanscore_detect::pack::config::PackConfig;

/// Rules for a text of the run: the final output, tool arguments, tool results or the input of the
/// user.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct OutputRulesConfig {
    /// Rules that run: `completeness`, `relevance`, `safety`, `cost`, `custom` (only
    /// `custom_rules`) or `all`. Default `all`; `completeness` with `compat: iris`.
    pub bundle: Option<Bundle>,
    /// System whose verdicts and scores are reproduced: `iris` for Iris 0.4.2, including its
    /// mistakes.
    pub compat: Option<Compat>,
    /// Text that is judged. Default `final_output`.
    pub target: TextTarget,
    /// Tools whose calls are judged, with `target: tool_arguments` or `tool_results`. Default: all
    /// tools.
    pub tools: Vec<String>,
    /// With `target: attribute`: key of the attribute. It is looked up on the root span first, then
    /// on every span.
    pub attribute: Option<String>,
    /// Values that rules compare the text with.
    pub criteria: OutputCriteria,
    /// Thresholds of the built-in rules.
    pub thresholds: Thresholds,
    /// Weights of built-in rules, by rule name, such as `{no_pii: 2}`. Default: the weight of each
    /// rule.
    pub weights: BTreeMap<String, f64>,
    /// Severity of rules, by rule name: `normal`, or `critical`, which fails the whole evaluation.
    /// Critical by default: `no_pii`, `no_injection_patterns`, `no_blocklist_words`,
    /// `no_stub_output`, `non_empty_output`, `complete_answer` and `answers_question`; none with
    /// `compat: iris`.
    pub severity: BTreeMap<String, Severity>,
    /// Names of built-in rules that do not run.
    pub skip_rules: Vec<String>,
    /// Kinds of findings that do not count, such as `Phone`.
    pub skip_kinds: Vec<String>,
    /// Type of the texts: `customer_data` (default), `documents` or `code`. It decides which
    /// findings count.
    pub profile: TextProfile,
    /// Limit on the findings of each kind that the details list for one text, 1 to 256. All
    /// findings count. Default 16.
    #[default(FINDINGS_LISTED)]
    pub findings_max: usize,
    /// Rules of your own. They run in addition to the bundle; with `bundle: custom` they run alone.
    pub custom_rules: Vec<CustomRuleConfig>,
    /// Packs of detectors of your own. A detector extends the built-in rule that it names, or
    /// creates a new rule.
    pub packs: Vec<PackConfig>,
    /// Limit on the size of a judged text, in bytes, 134217728 (128 MiB) at most. A longer text is
    /// not evaluable (`text_too_large`). Default 1048576 (1 MiB).
    #[default(TEXT_BYTES_MAX)]
    pub text_bytes_max: usize,
}

/// Type of the texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextProfile {
    /// Answers to people and records about them. All findings count.
    #[default]
    CustomerData,
    /// Manuals, licences, changelogs and web pages. E-mail addresses, telephone numbers, IP
    /// addresses and marks of unfinished text do not count.
    Documents,
    /// Source code. In addition to `documents`, empty or elided code, filler texts and unfilled
    /// templates do not count.
    Code,
}

impl TextProfile {
    /// Returns the finding kinds that do not count.
    pub(super) fn skipped_kinds(self) -> &'static [&'static str] {
        match self {
            Self::CustomerData => &[],
            Self::Documents => &["Email", "Phone", "IP Address", "marker"],
            Self::Code => &[
                "Email",
                "Phone",
                "IP Address",
                "marker",
                "not implemented",
                "empty body",
                "elided code",
                "elided text",
                "filler text",
                "unfilled template",
                "unfilled template (other languages)",
                "value left out",
            ],
        }
    }
}

/// Rules that run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Bundle {
    /// Length, number of sentences, and coverage of the expected output.
    Completeness,
    /// Relevance of the answer to the question, and refusals.
    Relevance,
    /// Personal data, credentials, prompt injection, banned words and stubs.
    Safety,
    /// Cost and tokens.
    Cost,
    /// Only `custom_rules`.
    Custom,
    /// All built-in rules.
    All,
}

/// System whose verdicts and scores are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    /// Iris 0.4.2 (`iris-eval/mcp-server`).
    Iris,
}

/// Text that is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextTarget {
    /// Final output of the agent.
    #[default]
    FinalOutput,
    /// Input of the user.
    UserInput,
    /// Arguments of tool calls. Each call is a text.
    ToolArguments,
    /// Results of tool calls. Each call is a text; for a failed call, the text of the error.
    ToolResults,
    /// Span attribute named by `attribute`.
    Attribute,
}

/// Values that rules compare the text with.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputCriteria {
    /// Expected output, for the rule `expected_coverage`.
    #[serde(alias = "expected_output")]
    pub expected: Option<String>,
}

/// Thresholds of the built-in rules. An absent one has its default.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Characters that the text should have. With `compat: iris`, UTF-16 code units count. Default
    /// 50.
    pub min_output_length: Option<f64>,
    /// Another name of `min_output_length`. `compat: iris` ignores it.
    pub min_length: Option<f64>,
    /// Sentences, list items or table rows that the text should have. Default 2.
    pub min_sentences: Option<f64>,
    /// Share of the words of the user's input that the text should contain, 0 to 1. Default 0.35.
    pub keyword_overlap: Option<f64>,
    /// Share of the text that should be about the user's input, 0 to 1. Default 0.10.
    pub topic_consistency: Option<f64>,
    /// Number of words below which `topic_consistency` does not apply. Default 6.
    pub topic_consistency_min_words: Option<f64>,
    /// Limit on the cost in US dollars. Default 0.10.
    pub cost_threshold: Option<f64>,
    /// Limit on output tokens per input token. Default 5.
    pub max_token_ratio: Option<f64>,
    /// Words that must not occur. They replace the built-in list.
    pub blocklist: Option<Vec<String>>,
    /// Marks of unfinished output. They replace the built-in list.
    pub stub_markers: Option<Vec<String>>,
}

/// Rule of your own.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomRuleConfig {
    /// Name of the rule in results.
    pub name: String,
    /// Type of the check.
    #[serde(rename = "type")]
    pub kind: CustomKind,
    /// Settings of the check. Of `regex_*`: `pattern` and `flags`. Of `*_length`: `min_length`,
    /// `max_length` or `length`. Of `*_keywords`: `keywords` and `threshold`. Of `json_schema`:
    /// `schema`. Of `cost_threshold`: `max_cost`.
    #[serde(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Weight in the mean, above 0. Default 1.
    pub weight: Option<f64>,
    /// Effect of a failure: `normal` (default) lowers the mean, `critical` fails the whole
    /// evaluation.
    #[serde(default)]
    pub severity: Severity,
}

/// Type of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CustomKind {
    /// The pattern matches somewhere.
    RegexMatch,
    /// The pattern matches nowhere.
    RegexNoMatch,
    /// The text has at least this length.
    MinLength,
    /// The text has at most this length.
    MaxLength,
    /// The text contains the keywords, or a share of them.
    ContainsKeywords,
    /// The text contains none of the keywords.
    ExcludesKeywords,
    /// The text is JSON that the schema accepts.
    JsonSchema,
    /// The cost is at most this.
    CostThreshold,
}
