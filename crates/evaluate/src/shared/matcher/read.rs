//! Compilation of matchers from written criteria to rules, with errors for mistakes.

use std::borrow::Cow;

use regex::RegexBuilder;

use super::Expected;
use super::mistake::{MatcherMistake, WORDS};
use super::rule::{Contained, ExpectedText, MatchRule, instant};
use spanscore_base::settings::{Node, NodeKind, SettingsError};
use spanscore_base::value::{Map, Number, Value};

/// Kinds with matchers in their criteria.
pub const MATCHED_KINDS: &[&str] = &[
    "argument_correctness", "exact_match", "json_similarity", "tool_call_args", "tool_call_output",
    "tool_correctness", "tool_trajectory",
];

/// Single key of a matcher.
const MARK: &str = "$is";
/// Words with values that may contain matchers.
const NESTING_WORDS: &[&str] = &["one_of", "unordered", "contains", "json"];
/// Limit on the bytes of a compiled pattern, and on its search tables.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Limit on the items of one rule.
const ITEMS_MAX: usize = 10_000;

/// Compiles an expected value. The value of `equals` is literal, so that one without other rules
/// stays plain.
pub fn expected(value: Value<'static>) -> Result<Expected, MatcherMistake> {
    read(value, false)
}

fn read(value: Value<'static>, is_entry: bool) -> Result<Expected, MatcherMistake> {
    match value {
        Value::Map(map) => match matcher_in(&map) {
            Some(rule) => match rule_or_value(rule, is_entry)? {
                Expected::Rule(rule) if matches!(*rule, MatchRule::Absent) && !is_entry => {
                    Err(MatcherMistake::AbsentItem)
                }
                read => Ok(read),
            },
            None => entries(map),
        },
        Value::List(items) => {
            let items = items.into_iter().map(|item| read(item, false));
            let items = items.collect::<Result<Vec<Expected>, _>>()?;
            if !items.iter().all(is_plain) {
                return Ok(Expected::List(items));
            }
            let items = items.into_iter().filter_map(|item| item.into_plain().ok());
            Ok(Expected::Plain(Value::List(items.collect())))
        }
        scalar => Ok(Expected::Plain(scalar)),
    }
}

fn entries(map: Map<'static>) -> Result<Expected, MatcherMistake> {
    let read = |(key, value): (Cow<'static, str>, _)| Ok((key.into_owned(), read(value, true)?));
    let entries = map.into_entries().into_iter().map(read);
    let entries = entries.collect::<Result<Vec<(String, Expected)>, _>>()?;
    if !entries.iter().all(|(_, value)| is_plain(value)) {
        return Ok(Expected::Map(entries));
    }
    let entries = entries.into_iter().filter_map(|(key, it)| Some((key, it.into_plain().ok()?)));
    Ok(Expected::Plain(Value::Map(entries.collect())))
}

fn is_plain(expected: &Expected) -> bool {
    matches!(expected, Expected::Plain(_))
}

/// Returns the value of `$is`, if that is the only key.
fn matcher_in<'m>(map: &'m Map<'static>) -> Option<&'m Value<'static>> {
    map.get(MARK).filter(|_| map.len() == 1)
}

fn rule_or_value(rule: &Value<'static>, is_entry: bool) -> Result<Expected, MatcherMistake> {
    match rule.as_map().filter(|map| map.len() == 1).and_then(|map| map.get("equals")) {
        Some(value) => Ok(Expected::Plain(value.clone())),
        None => rule_in(rule, is_entry),
    }
}

/// Compiles the value of an entry's `$is`; `equals` gives a plain value.
pub fn rule_of(rule: &Value<'static>) -> Result<Expected, MatcherMistake> {
    rule_in(rule, true)
}

/// Compiles a rule; only an entry's may match an absent key.
fn rule_in(rule: &Value<'static>, is_entry: bool) -> Result<Expected, MatcherMistake> {
    let (word, value, settings) = match rule {
        Value::String(word) => (word.to_string(), &Value::Null, Value::Null.entries()),
        Value::Map(map) => {
            let is_word = |(key, _): &(&str, _)| WORDS.contains(key);
            let (word, value) = match (map.iter().find(is_word), map.iter().next()) {
                (Some(found), _) => found,
                (None, Some((key, _))) => return Err(MatcherMistake::Unknown(key.to_owned())),
                (None, None) => return Err(MatcherMistake::Nothing),
            };
            (word.to_owned(), value, map)
        }
        _ => return Err(MatcherMistake::Nothing),
    };
    let options: &[&str] = match &*word {
        "near" => &["within"],
        "text" => &["trim", "fold_case", "nfc"],
        _ => &[],
    };
    let is_other = |(key, _): &(&str, _)| *key != word && !options.contains(key);
    if let Some((other, _)) = settings.iter().find(is_other) {
        let other = other.to_owned();
        let is_word = WORDS.contains(&&*other);
        return Err(if is_word {
            MatcherMistake::Both(word, other)
        } else {
            MatcherMistake::Unknown(other)
        });
    }
    let is_bare = rule.as_str().is_some();
    let rule = match (&*word, is_bare) {
        ("any", _) => MatchRule::Any,
        ("absent", _) => MatchRule::Absent,
        ("equals", false) => return Ok(Expected::Plain(value.clone())),
        ("near", false) => near(value, settings)?,
        ("pattern", false) => pattern(value)?,
        ("one_of", false) => MatchRule::OneOf(items("one_of", value, is_entry)?),
        ("range", false) => range(value)?,
        ("unordered", false) => MatchRule::Unordered(items("unordered", value, false)?),
        ("contains", false) => MatchRule::Contains(contained(value)?),
        ("instant", false) => {
            let read = value.as_str().and_then(instant);
            let form = "a moment in ISO form, such as `2024-05-01T10:00:00Z`";
            MatchRule::Instant(read.ok_or(MatcherMistake::Form("instant", form))?)
        }
        ("text", false) => text(value, settings)?,
        ("json", false) => MatchRule::Json(read(value.clone(), false)?),
        (bare, true) if let Some(word) = WORDS.iter().find(|word| **word == bare) => {
            return Err(MatcherMistake::Form(word, "a value"));
        }
        _ => return Err(MatcherMistake::Unknown(word)),
    };
    Ok(Expected::Rule(Box::new(rule)))
}

fn near(value: &Value<'_>, settings: &Map<'_>) -> Result<MatchRule, MatcherMistake> {
    let to = value.as_number().filter(|number| number.as_f64().is_finite());
    let to = to.ok_or(MatcherMistake::Form("near", "a number"))?.clone();
    let within = settings.get("within").ok_or(MatcherMistake::Lacks("near", "within"))?;
    let within = within.as_number().map(Number::as_f64).filter(|it| it.is_finite() && *it >= 0.0);
    let within = within.ok_or(MatcherMistake::Form("within", "a number from 0"))?;
    Ok(MatchRule::Near { to, within })
}

fn pattern(value: &Value<'_>) -> Result<MatchRule, MatcherMistake> {
    let text = value.as_str().ok_or(MatcherMistake::Form("pattern", "a text"))?;
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    // The first lines of the message repeat the pattern.
    let last_line = |error: regex::Error| {
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").trim_end_matches('.').to_owned()
    };
    let pattern = builder.build().map_err(|error| MatcherMistake::Pattern(last_line(error)))?;
    Ok(MatchRule::Pattern(pattern))
}

fn range(value: &Value<'_>) -> Result<MatchRule, MatcherMistake> {
    let mistake = MatcherMistake::Form("range", "two numbers, the smaller first; `null` is open");
    let edge = |value: &Value<'_>| match value {
        Value::Null => Some(None),
        Value::Number(number) if number.as_f64().is_finite() => Some(Some(number.clone())),
        _ => None,
    };
    let Some([from, to]) = value.as_list() else { return Err(mistake) };
    match (edge(from), edge(to)) {
        (Some(Some(from)), Some(Some(to))) if from > to => Err(mistake),
        (Some(from), Some(to)) => Ok(MatchRule::Range(from, to)),
        _ => Err(mistake),
    }
}

fn items(
    word: &'static str,
    value: &Value<'static>,
    may_be_absent: bool,
) -> Result<Vec<Expected>, MatcherMistake> {
    let mistake = MatcherMistake::Form(word, "a list of at most 10000 items");
    let items = value.as_list().filter(|items| items.len() <= ITEMS_MAX).ok_or(mistake)?;
    items.iter().map(|item| read(item.clone(), may_be_absent)).collect()
}

fn contained(value: &Value<'static>) -> Result<Contained, MatcherMistake> {
    Ok(match value {
        Value::String(text) => Contained::Text(text.to_string()),
        Value::List(_) => Contained::Items(items("contains", value, false)?),
        Value::Map(map) if matcher_in(map).is_none() => {
            let read = |(key, value): (&str, &Value<'static>)| {
                Ok((key.to_owned(), read(value.clone(), true)?))
            };
            let entries = map.iter().map(read).collect::<Result<_, MatcherMistake>>()?;
            Contained::Entries(Expected::Map(entries))
        }
        other => Contained::Item(read(other.clone(), false)?),
    })
}

fn text(value: &Value<'_>, settings: &Map<'_>) -> Result<MatchRule, MatcherMistake> {
    let text = value.as_str().ok_or(MatcherMistake::Form("text", "a text"))?;
    let flag = |word: &'static str| match settings.get(word) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or(MatcherMistake::Form(word, "true or false")),
    };
    Ok(MatchRule::Text(ExpectedText::new(text, flag("trim")?, flag("fold_case")?, flag("nfc")?)))
}

/// Compiles a value in place; `None` without matchers.
pub fn ruled(value: &mut Value<'static>) -> Result<Option<Expected>, SettingsError> {
    match expected(value.clone())?.into_plain() {
        Ok(plain) => {
            *value = plain;
            Ok(None)
        }
        Err(ruled) => Ok(Some(ruled)),
    }
}

/// Rejects mistakes in the matchers of `criteria` in settings, each with its location.
pub fn check_criteria(settings: &Node) -> Result<(), SettingsError> {
    let keys = ["criteria", "default_evaluation_criteria", "defaultEvaluationCriteria"];
    keys.iter().filter_map(|key| settings.get(key)).try_for_each(check)
}

/// Rejects mistakes in the matchers of a value, each with its location.
pub fn check(node: &Node) -> Result<(), SettingsError> {
    match &node.kind {
        NodeKind::Map(entries) => match entries.as_slice() {
            [(key, rule)] if key.text == MARK => check_rule(rule),
            entries => entries.iter().try_for_each(|(_, node)| check(node)),
        },
        NodeKind::List(items) => items.iter().try_for_each(check),
        NodeKind::Null | NodeKind::Scalar(_) => Ok(()),
    }
}

/// Rejects mistakes in the value of `$is`.
pub fn check_rule(rule: &Node) -> Result<(), SettingsError> {
    for (_, node) in rule.entries().filter(|(key, _)| NESTING_WORDS.contains(&&*key.text)) {
        check(node)?;
    }
    rule_of(&rule.to_value()).map(drop).map_err(|mistake| {
        let word = rule.entries().find(|(key, _)| key.text == mistake.word());
        let place = word.map_or(rule.place, |(key, _)| key.place);
        SettingsError::from(mistake).at(place)
    })
}

/// Escapes criteria, so that apparent matchers are literal values.
pub fn escaped(value: Value<'static>) -> Value<'static> {
    match value {
        Value::Map(map) if matcher_in(&map).is_some() => {
            let literal = Map::from([("equals", Value::Map(map))]);
            Value::Map(Map::from([(MARK, Value::Map(literal))]))
        }
        Value::Map(map) => {
            let entries = map.into_entries().into_iter();
            Value::Map(Map::from_entries(entries.map(|(key, it)| (key, escaped(it))).collect()))
        }
        Value::List(items) => Value::List(items.into_iter().map(escaped).collect()),
        scalar => scalar,
    }
}
