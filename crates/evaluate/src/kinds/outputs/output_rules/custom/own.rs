//! Custom rules of the default behaviour.
//!
//! Settings are read strictly, with the location of each mistake. Lengths count characters,
//! keywords match in any case and Unicode form, and expressions and schemas are compiled once.

use serde_json::Value;

use super::super::keywords::{Keyword, contains, excludes};
use super::super::rule::{OutputRule, RuleCheck, RuleSubject, Verdict};
use super::super::settings::{CustomKind, CustomRuleConfig};
use spanscore_base::settings::{Node, SettingsError};
use spanscore_detect::limits::{DFA_BYTES_MAX, OWN_REGEX_BYTES_MAX, REGEX_BYTES_MAX};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RegexConfig {
    pattern: String,
    #[serde(default)]
    flags: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MinLengthConfig {
    #[serde(alias = "length")]
    min_length: u64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MaxLengthConfig {
    #[serde(alias = "length")]
    max_length: u64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct KeywordsConfig {
    keywords: Vec<String>,
    threshold: Option<f64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaConfig {
    schema: Value,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CostConfig {
    max_cost: f64,
}

/// Builds a rule from its settings; `node` is the same `config` with its location.
pub(in super::super) fn rule(
    rule: &CustomRuleConfig,
    node: Option<&Node>,
) -> Result<OutputRule, SettingsError> {
    let empty =
        Node { kind: spanscore_base::settings::NodeKind::Map(Vec::new()), ..Node::default() };
    let node = node.unwrap_or(&empty);
    let weight = rule.weight.unwrap_or(1.0);
    if !(weight > 0.0 && weight.is_finite()) {
        let error = SettingsError::new(format!(
            "`weight` of rule `{}` must be a finite number above 0, not {weight}",
            rule.name
        ));
        return Err(error.with_help("leave the rule out to ignore it"));
    }
    let check = check(rule.kind, node).map_err(|error| SettingsError {
        message: format!("rule `{}`: {}", rule.name, error.message),
        ..error
    })?;
    Ok(OutputRule { name: rule.name.clone().into(), weight, severity: rule.severity, check })
}

fn check(kind: CustomKind, node: &Node) -> Result<RuleCheck, SettingsError> {
    match kind {
        CustomKind::RegexMatch => regex(node, true),
        CustomKind::RegexNoMatch => regex(node, false),
        CustomKind::MinLength => {
            let least = positive(node.read::<MinLengthConfig>()?.min_length, node)?;
            Ok(Box::new(move |s| length(s, |n| n >= least, |n| n / least, "at least", least)))
        }
        CustomKind::MaxLength => {
            let most = positive(node.read::<MaxLengthConfig>()?.max_length, node)?;
            Ok(Box::new(move |s| length(s, |n| n <= most, |n| most / n, "at most", most)))
        }
        CustomKind::ContainsKeywords => {
            let (words, least) = keywords(node)?;
            let told = |found: usize, all: usize| format!("{found} of {all} keywords");
            Ok(contains(words, least, told))
        }
        CustomKind::ExcludesKeywords => {
            Ok(excludes(keywords(node)?.0, "no excluded keyword", "excluded keywords"))
        }
        CustomKind::JsonSchema => schema(node),
        CustomKind::CostThreshold => cost(node),
    }
}

fn positive(value: u64, node: &Node) -> Result<f64, SettingsError> {
    match value {
        0 => Err(SettingsError::new("the length of a rule must be above 0")
            .with_help("give 1 or more")
            .at(node.place)),
        value => Ok(value as f64),
    }
}

fn length(
    s: &RuleSubject<'_>,
    passes: impl Fn(f64) -> bool,
    score: impl Fn(f64) -> f64,
    words: &str,
    limit: f64,
) -> Verdict {
    let length = s.text().chars().count() as f64;
    let passed = passes(length);
    let message = s.say(|| format!("{length} characters, {words} {limit} wanted"));
    Verdict::scored(passed, if passed { 1.0 } else { score(length) }, message)
}

fn regex(node: &Node, wanted: bool) -> Result<RuleCheck, SettingsError> {
    let config: RegexConfig = node.read()?;
    let place = node.place_of("pattern");
    let mut builder = regex::RegexBuilder::new(&config.pattern);
    builder.size_limit(OWN_REGEX_BYTES_MAX).dfa_size_limit(DFA_BYTES_MAX);
    for flag in config.flags.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            'g' | 'u' => &mut builder,
            _ => {
                return Err(SettingsError::new(format!("unknown flag `{flag}`"))
                    .with_help("known are i, m, s and x")
                    .at(node.get("flags").map_or(place, |node| node.place)));
            }
        };
    }
    let regex = builder.build().map_err(|error| {
        let (message, help) = match error {
            regex::Error::CompiledTooBig(_) => (
                "the pattern is too large".to_owned(),
                "use smaller counts in `{n,m}`, or `(?-u)` with ASCII classes",
            ),
            error => (
                format!("not a pattern: {}", error.to_string().lines().last().unwrap_or_default()),
                "patterns run in linear time: look-around and back-references do not exist; \
                 split the rule in two instead",
            ),
        };
        SettingsError::new(message).with_help(help).at(place)
    })?;
    Ok(Box::new(move |s| {
        let found = regex.is_match(s.text());
        let message = if found { "the pattern matches" } else { "the pattern does not match" };
        Verdict::binary(found == wanted, message.into())
    }))
}

fn keywords(node: &Node) -> Result<(Vec<Keyword>, f64), SettingsError> {
    let config: KeywordsConfig = node.read()?;
    if config.keywords.is_empty() || config.keywords.iter().any(String::is_empty) {
        let error = node.fault("keywords", "`keywords` is empty or has an empty text");
        return Err(error.with_help("list one keyword or more"));
    }
    let threshold = config.threshold.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&threshold) {
        let error = node.fault("threshold", format!("`threshold` is {threshold}, outside 0 to 1"));
        return Err(error.with_help("write the share of the keywords that must occur, such as 0.8"));
    }
    Ok((config.keywords.into_iter().map(Keyword::from).collect(), threshold))
}

fn schema(node: &Node) -> Result<RuleCheck, SettingsError> {
    let config: SchemaConfig = node.read().map_err(|error: SettingsError| match error.help {
        Some(_) => error,
        None => error.with_help("give a JSON Schema; `schema: true` accepts any JSON"),
    })?;
    let place = node.place_of("schema");
    let validator = jsonschema::options()
        // References to files and addresses are errors: no file is read and no address fetched.
        .offline()
        .with_pattern_options(
            jsonschema::PatternOptions::regex()
                .size_limit(REGEX_BYTES_MAX)
                .dfa_size_limit(DFA_BYTES_MAX),
        )
        .build(&config.schema)
        .map_err(|error| {
            SettingsError::new(format!("not a JSON Schema: {error}"))
                .with_help("its patterns run in linear time, without look-around")
                .at(place)
        })?;
    Ok(Box::new(move |s| {
        let Ok(value) = serde_json::from_str::<Value>(s.text().trim()) else {
            return Verdict::binary(false, "not JSON".into());
        };
        match validator.validate(&value) {
            Ok(()) => Verdict::binary(true, "the schema accepts it".into()),
            // The path, never the value, which is content.
            Err(error) => {
                let message = s.say(|| {
                    let place = error.instance_path();
                    let rule = error.schema_path();
                    format!("the schema refuses it at `{place}` ({rule})")
                });
                Verdict { quotes: true, ..Verdict::binary(false, message) }
            }
        }
    }))
}

fn cost(node: &Node) -> Result<RuleCheck, SettingsError> {
    let most = node.read::<CostConfig>()?.max_cost;
    if !(most >= 0.0 && most.is_finite()) {
        let message = format!("`max_cost` must be a finite number from 0 on, not {most}");
        return Err(node.fault("max_cost", message).with_help("write US dollars, 0 or more"));
    }
    Ok(Box::new(move |s| match s.cost {
        None => Verdict::skipped("the cost is not known", "cost not recorded"),
        Some(cost) => Verdict::binary(
            cost <= most,
            s.say(|| format!("cost ${cost} with at most ${most} wanted")),
        ),
    }))
}
