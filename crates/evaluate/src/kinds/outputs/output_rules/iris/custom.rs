//! Custom rules with the source's behaviour.
//!
//! JavaScript's coercions are reproduced. A setting that makes the source score 0 does so here too;
//! settings that make the source throw, and patterns that linear time cannot match, are config
//! errors.

use serde_json::{Map, Value};

use super::super::keywords::{self, Keyword};
use super::super::rule::{OutputRule, RuleCheck, RuleSubject, Verdict};
use super::super::settings::{CustomKind, CustomRuleConfig};
use super::js::{self, json, safe};
use spanscore_base::settings::SettingsError;
use spanscore_detect::js_regex::{JsRegex, JsRegexError};

/// Longest pattern tried by the source, UTF-16 code units.
const PATTERN_MAX: usize = 1000;

/// Builds a rule.
pub(in super::super) fn rule(rule: &CustomRuleConfig) -> Result<OutputRule, SettingsError> {
    let config = &rule.config;
    let check = match rule.kind {
        CustomKind::RegexMatch => regex(config, true)?,
        CustomKind::RegexNoMatch => regex(config, false)?,
        CustomKind::MinLength => length(config, "min_length"),
        CustomKind::MaxLength => length(config, "max_length"),
        CustomKind::ContainsKeywords => contains(config)?,
        CustomKind::ExcludesKeywords => excludes(config)?,
        CustomKind::JsonSchema => Box::new(|s: &RuleSubject<'_>| {
            let passed = json::is_json(s.text());
            let message = if passed { "Output is valid JSON" } else { "Output is not valid JSON" };
            Verdict::binary(passed, message.into())
        }),
        CustomKind::CostThreshold => cost(config),
    };
    let weight = rule.weight.unwrap_or(1.0);
    Ok(OutputRule { name: rule.name.clone().into(), weight, severity: rule.severity, check })
}

fn always(message: String) -> RuleCheck {
    Box::new(move |_| Verdict::binary(false, message.clone().into()))
}

fn regex(config: &Map<String, Value>, wanted: bool) -> Result<RuleCheck, SettingsError> {
    let Some(Value::String(pattern)) = config.get("pattern") else {
        return Err(SettingsError::new("the rule needs `pattern`, a text")
            .with_help("add `pattern`: Iris fails on every call without it"));
    };
    let mut flags =
        config.get("flags").filter(|flags| !flags.is_null()).map(to_text).unwrap_or_default();
    let mut pattern = pattern.as_str();
    if let Some((inline, rest)) = pattern.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && !inline.is_empty()
        && inline.chars().all(|c| "imsugy".contains(c))
    {
        let mut merged = String::new();
        for c in flags.chars().chain(inline.chars()) {
            if !merged.contains(c) {
                merged.push(c);
            }
        }
        (flags, pattern) = (merged, rest);
    }
    let length = js::length(pattern);
    if length > PATTERN_MAX {
        return Ok(always(format!("Regex pattern too long ({length} > {PATTERN_MAX})")));
    }
    if !safe::is_accepted(pattern) {
        let message = "Regex pattern rejected: potentially unsafe (catastrophic backtracking)";
        return Ok(always(message.to_owned()));
    }
    let regex = match JsRegex::new(pattern, &flags) {
        Ok(regex) => regex,
        Err(JsRegexError::Invalid(why)) => {
            return Ok(always(format!("Invalid regex syntax: {why}")));
        }
        Err(error) => {
            return Err(SettingsError::new(format!("pattern `{pattern}`: {error}"))
                .with_help("rewrite it without look-around and back-references"));
        }
    };
    Ok(Box::new(move |s| {
        let found = regex.is_match(s.text());
        let message = match (wanted, found) {
            (true, true) => "Regex pattern matched",
            (true, false) => "Regex pattern did not match",
            (false, false) => "Forbidden pattern not found",
            (false, true) => "Forbidden pattern found in output",
        };
        Verdict::binary(wanted == found, message.into())
    }))
}

fn length(config: &Map<String, Value>, key: &'static str) -> RuleCheck {
    let given = |key| config.get(key).filter(|value: &&Value| !value.is_null());
    let limit = given(key).or_else(|| given("length"));
    let Some((limit, text)) =
        limit.map(numbered).filter(|(limit, _)| *limit > 0.0 || limit.is_nan())
    else {
        return always(format!("{key} rule requires config.{key} (positive number)"));
    };
    let least = key == "min_length";
    Box::new(move |s| {
        let length = js::length(s.text()) as f64;
        let passed = if least { length >= limit } else { length <= limit };
        let ratio = if least { length / limit } else { limit / length };
        let message = s.say(|| {
            let verb = match (least, passed) {
                (true, true) => "meets minimum",
                (true, false) => "below minimum",
                (false, true) => "within maximum",
                (false, false) => "exceeds maximum",
            };
            format!("Length ({length}) {verb} ({text})")
        });
        Verdict::scored(passed, if passed { 1.0 } else { ratio }, message)
    })
}

/// Returns the keywords; `None` for a config that the source calls wrong.
fn keywords(config: &Map<String, Value>) -> Result<Option<Vec<Keyword>>, SettingsError> {
    let Some(Value::Array(list)) = config.get("keywords") else { return Ok(None) };
    let word = |word: &Value| Some(Keyword::from(word.as_str()?.to_owned()));
    let words: Option<Vec<_>> = list.iter().map(word).collect();
    match words {
        Some(words) if words.is_empty() => Ok(None),
        Some(words) => Ok(Some(words)),
        None => Err(SettingsError::new("`keywords` holds something else than texts")
            .with_help("put quotation marks around each keyword")),
    }
}

fn wrong_keywords(kind: &str) -> RuleCheck {
    always(format!("{kind} rule requires config.keywords (non-empty string array)"))
}

fn contains(config: &Map<String, Value>) -> Result<RuleCheck, SettingsError> {
    let Some(words) = keywords(config)? else { return Ok(wrong_keywords("contains_keywords")) };
    let least = config.get("threshold").filter(|value| !value.is_null()).map_or(1.0, to_number);
    let told = |found: usize, all: usize| format!("Found {found}/{all} required keywords");
    Ok(keywords::contains(words, least, told))
}

fn excludes(config: &Map<String, Value>) -> Result<RuleCheck, SettingsError> {
    let Some(words) = keywords(config)? else { return Ok(wrong_keywords("excludes_keywords")) };
    Ok(keywords::excludes(words, "No excluded keywords found", "Found excluded keywords"))
}

fn cost(config: &Map<String, Value>) -> RuleCheck {
    let limit = config.get("max_cost").filter(|value| !value.is_null());
    let Some((limit, text)) =
        limit.map(numbered).filter(|(limit, _)| *limit >= 0.0 || limit.is_nan())
    else {
        let message = "cost_threshold rule requires config.max_cost (non-negative number)";
        return always(message.to_owned());
    };
    Box::new(move |s| {
        let cost = s.cost.unwrap_or(0.0);
        let passed = cost <= limit;
        let message = s.say(|| {
            let verb = if passed { "within" } else { "exceeds" };
            format!("Cost (${}) {verb} threshold (${text})", js::number(cost))
        });
        Verdict::binary(passed, message)
    })
}

/// Returns a limit as a number and in printed form.
fn numbered(value: &Value) -> (f64, String) {
    (to_number(value), to_text(value))
}

/// Converts as `Number(value)` does.
fn to_number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Value::String(text) => text_to_number(text.trim_matches(js::is_space)),
        Value::Array(_) => text_to_number(to_text(value).trim_matches(js::is_space)),
        Value::Object(_) => f64::NAN,
    }
}

fn text_to_number(text: &str) -> f64 {
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(digits) = text.to_ascii_lowercase().strip_prefix(prefix) {
            let digits = digits.chars().map(|c| c.to_digit(radix).map(f64::from));
            let value = digits.reduce(|value, digit| Some(value? * f64::from(radix) + digit?));
            return value.flatten().unwrap_or(f64::NAN);
        }
    }
    match text {
        "" => 0.0,
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        _ if text.contains(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E') => f64::NAN,
        _ => text.parse().unwrap_or(f64::NAN),
    }
}

/// Converts as `String(value)` does.
fn to_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => js::number(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .map(|item| if item.is_null() { String::new() } else { to_text(item) })
            .collect::<Vec<_>>()
            .join(","),
        Value::Object(_) => "[object Object]".to_owned(),
    }
}
