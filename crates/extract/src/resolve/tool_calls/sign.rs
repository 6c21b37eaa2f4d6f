//! Error signs: verdicts of error sources that a call failed, with or without a text.
//!
//! Instrumentations write a missing error as their language's null (`None`, `null`, `undefined`,
//! `false`); such a text is no error.

use std::borrow::Cow;

use super::super::plan::PlannedSource;
use super::super::read::{self, Raw};
use spanscore_base::model::Content;
use spanscore_base::value::Value;

/// Sign of a failed call.
pub(super) enum Sign<'a> {
    /// The call failed, with this text.
    Text(Cow<'a, str>),
    /// The call failed, with an optional word for the error.
    Flag(Option<Cow<'a, str>>),
}

/// Texts for a missing error, in lower case.
const NO_ERROR: [&str; 15] = [
    "", "none", "null", "nil", "<nil>", "undefined", "false", "0", "n/a", "na", "-", "[]", "{}",
    "\"\"", "no error",
];

/// Reads the value of an error source; `None` if it shows no failure.
pub(super) fn sign<'a>(planned: &'a PlannedSource, raw: Raw<'a>) -> Option<Sign<'a>> {
    let source = &planned.source;
    let value = read::decoded(source, raw)?.value_or_text();
    if let Some(wanted) = &source.equals_error {
        return read::equals(&value, wanted).then_some(Sign::Flag(None));
    }
    match of_value(value)? {
        Sign::Text(text) if source.flag => Some(Sign::Flag(Some(text))),
        sign => Some(sign),
    }
}

/// Reads the message of a failed call.
pub(super) fn of_message(message: &str) -> Sign<'_> {
    if is_no_error(message) || read::is_redacted(message) {
        return Sign::Flag(None);
    }
    Sign::Text(Cow::Borrowed(message))
}

/// Reads the result of a failed call.
pub(super) fn of_failure<'a>(result: &Value<'a>) -> Sign<'a> {
    of_value(result.clone()).unwrap_or(Sign::Flag(None))
}

fn of_value(value: Value<'_>) -> Option<Sign<'_>> {
    Some(match value {
        Value::Null | Value::Bool(false) => return None,
        Value::Bool(true) => Sign::Flag(None),
        Value::Number(number) if number.as_f64() == 0.0 => return None,
        Value::List(list) if list.is_empty() => return None,
        Value::Map(map) if map.is_empty() => return None,
        Value::Map(mut map) => match map.remove("error").or_else(|| map.remove("message")) {
            Some(inner) => return of_value(inner),
            None => Sign::Text(Cow::Owned(Value::Map(map).to_string())),
        },
        Value::String(text) if is_no_error(&text) => return None,
        Value::String(text) if text.trim().eq_ignore_ascii_case("true") => Sign::Flag(None),
        Value::String(text) if read::is_redacted(&text) => Sign::Flag(None),
        Value::String(text) => Sign::Text(text),
        value => Sign::Text(Cow::Owned(value.to_string())),
    })
}

/// Returns true if a text means no error.
fn is_no_error(text: &str) -> bool {
    let text = text.trim();
    NO_ERROR.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns the error in a result: a text, or its member `error`.
pub(super) fn result_text<'a>(result: &Content<'a>) -> Option<Cow<'a, str>> {
    match result.value()? {
        Value::String(text) => Some(text.clone()),
        Value::Map(map) => match map.get("error")? {
            Value::String(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the result of a failed call if it explains the error: first the error, then its causes.
pub(super) fn causes<'a>(error: &str, result: &Content<'a>) -> Option<Cow<'a, str>> {
    let Value::String(text) = result.value()? else { return None };
    let (first, _) = text.trim().split_once('\n')?;
    (text.len() <= CAUSES_BYTES_MAX && first.contains(error)).then(|| text.clone())
}

/// Longest explanation that replaces an error's text, bytes.
const CAUSES_BYTES_MAX: usize = 2000;

/// Returns the text before a traceback, unless it is empty.
pub(super) fn without_traceback(text: Cow<'_, str>) -> Cow<'_, str> {
    const HEAD: &str = "Traceback (most recent call last)";
    match text.find(HEAD) {
        None | Some(0) => text,
        Some(at) => match text {
            Cow::Borrowed(text) => Cow::Borrowed(text[..at].trim_end()),
            Cow::Owned(text) => Cow::Owned(text[..at].trim_end().to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn what_says_that_there_is_no_error_is_none() {
        let nothing = [
            "\"None\"", "\"null\"", "\"\"", "\"  \"", "\"nil\"", "\"<nil>\"", "\"undefined\"",
            "\"False\"", "\"N/A\"", "\"{}\"", "null", "false", "0", "[]", "{}",
            "{\"error\": null}", "{\"error\": \"None\"}", "{\"message\": \"\"}",
        ];
        for text in nothing {
            assert!(of_value(json::parse(text).unwrap()).is_none(), "{text}");
        }
    }

    #[test]
    fn what_says_that_there_is_one_is_its_text_or_a_flag() {
        for (text, expected) in [
            ("\"disk on fire\"", Some("disk on fire")),
            ("\"None of the disks burns\"", Some("None of the disks burns")),
            ("{\"error\": {\"message\": \"on fire\", \"code\": 0}}", Some("on fire")),
            ("{\"code\": 7}", Some("{\"code\":7}")),
            ("404", Some("404")),
            ("true", None),
            ("\"True\"", None),
            ("\"<REDACTED>\"", None),
        ] {
            let found = match of_value(json::parse(text).unwrap()).unwrap() {
                Sign::Text(text) => Some(text),
                Sign::Flag(flag) => flag,
            };
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
