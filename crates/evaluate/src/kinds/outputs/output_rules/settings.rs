//! Settings of `output_rules`.

use std::collections::BTreeMap;

use smart_default::SmartDefault;
use strum::IntoStaticStr;

use super::limits::{FINDINGS_LISTED, TEXT_BYTES_MAX};
use spanscore_detect::Severity;
use spanscore_detect::pack::config::PackConfig;

/// Rules over a text: what the agent said, what its tools were given, what they returned.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct OutputRulesConfig {
    /// Bundle of rules that run: `completeness`, `relevance`, `safety`, `cost`, `custom` (only
    /// `custom_rules`), or `all`. Default `all`; with `compat: iris` it is `completeness`.
    pub bundle: Option<Bundle>,
    /// `iris` gives the verdicts and scores of Iris 0.4.2, mistakes included.
    pub compat: Option<Compat>,
    /// Text that is judged.
    pub target: TextTarget,
    /// With `target: tool_arguments` or `tool_results`: only the calls of these tools; empty stands
    /// for all.
    pub tools: Vec<String>,
    /// With `target: attribute`: the key, looked up on the root span, then on every span.
    pub attribute: Option<String>,
    /// Values that the rules compare with.
    pub criteria: OutputCriteria,
    /// Thresholds of the built-in rules.
    pub thresholds: Thresholds,
    /// Weights of built-in rules, by name, in place of their own.
    pub weights: BTreeMap<String, f64>,
    /// `normal` or `critical`, by name of the rule. A failed critical rule fails the evaluation.
    /// Critical unless said otherwise: `no_pii`, `no_injection_patterns`, `no_blocklist_words`,
    /// `no_stub_output`, `non_empty_output`, `complete_answer`, `answers_question` (none with
    /// `compat: iris`).
    pub severity: BTreeMap<String, Severity>,
    /// Built-in rules that do not run, by name.
    pub skip_rules: Vec<String>,
    /// Kinds of findings that do not count, such as `Phone`.
    pub skip_kinds: Vec<String>,
    /// Nature of the texts, which says what counts in them: `customer_data`, `documents`, `code`.
    pub profile: TextProfile,
    /// Findings of each kind that the details list for one text, 1 to 256; all count.
    #[default(FINDINGS_LISTED)]
    pub findings_max: usize,
    /// Rules of your own. They join the bundle; with `bundle: custom` they stand alone.
    pub custom_rules: Vec<CustomRuleConfig>,
    /// Rule packs of your own. Their detectors join the built-in rules they name, or make new ones.
    pub packs: Vec<PackConfig>,
    /// Longest text that is judged, bytes, at most 134217728; a longer one is not evaluable
    /// (`text_too_large`).
    #[default(TEXT_BYTES_MAX)]
    pub text_bytes_max: usize,
}

/// Nature of the texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextProfile {
    /// Answers and records of people: everything counts.
    #[default]
    CustomerData,
    /// Manuals, licences, changelogs, pages: addresses of authors and maintainers do not count, and
    /// an unfinished passage does not decide.
    Documents,
    /// Source code: nor do marks of what is left to do, empty bodies and templates.
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

/// Bundle of rules that run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Bundle {
    /// Length, sentences, cover of what was expected.
    Completeness,
    /// Relevance of the answer to the question; refusals.
    Relevance,
    /// Personal data, credentials, injection, banned words, stubs.
    Safety,
    /// Cost and tokens.
    Cost,
    /// Only `custom_rules`.
    Custom,
    /// All built-in rules.
    All,
}

/// System whose verdicts are given.
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
    /// The arguments of tool calls, each call a text of its own.
    ToolArguments,
    /// The results of tool calls, each call a text of its own; the error's text of a failed call.
    ToolResults,
    /// The attribute named by `attribute`.
    Attribute,
}

/// Values that the rules compare with.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputCriteria {
    /// The expected answer, for `expected_coverage`.
    #[serde(alias = "expected_output")]
    pub expected: Option<String>,
}

/// Thresholds of the built-in rules; each absent one has its default.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Characters the output should have: default 50 (`compat: iris`: UTF-16 code units).
    pub min_output_length: Option<f64>,
    /// The same, read where `min_output_length` is absent; never with `compat: iris`.
    pub min_length: Option<f64>,
    /// Sentences (or list items, or lines of a table) the output should have: default 2.
    pub min_sentences: Option<f64>,
    /// Share of the input's words that the output should have: default 0.35.
    pub keyword_overlap: Option<f64>,
    /// Share of the output that should be about the input: default 0.10.
    pub topic_consistency: Option<f64>,
    /// Words that the output needs for `topic_consistency`: default 6.
    pub topic_consistency_min_words: Option<f64>,
    /// Cost in US dollars that is not to be exceeded: default 0.10.
    pub cost_threshold: Option<f64>,
    /// Tokens of the reply for each token of the prompt, at most: default 5.
    pub max_token_ratio: Option<f64>,
    /// Words that must not occur, in place of the built-in ones.
    pub blocklist: Option<Vec<String>>,
    /// Marks of unfinished output, in place of the built-in ones.
    pub stub_markers: Option<Vec<String>>,
}

/// A rule of your own.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomRuleConfig {
    /// The name in results.
    pub name: String,
    /// Type of check.
    #[serde(rename = "type")]
    pub kind: CustomKind,
    /// Its settings, by type: `pattern` and `flags`; `min_length`, `max_length` or `length`;
    /// `keywords` and `threshold`; `schema`; `max_cost`.
    #[serde(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Its share in the mean: above 0, default 1.
    pub weight: Option<f64>,
    /// `critical`: its failure fails the evaluation.
    #[serde(default)]
    pub severity: Severity,
}

/// Check of a custom rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CustomKind {
    /// The pattern matches somewhere.
    RegexMatch,
    /// The pattern matches nowhere.
    RegexNoMatch,
    /// At least so long.
    MinLength,
    /// At most so long.
    MaxLength,
    /// Has the keywords, or a share of them.
    ContainsKeywords,
    /// Has none of the keywords.
    ExcludesKeywords,
    /// Is JSON that the schema accepts.
    JsonSchema,
    /// Cost at most so much.
    CostThreshold,
}
