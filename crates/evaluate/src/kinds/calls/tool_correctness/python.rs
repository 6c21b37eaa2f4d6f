//! Ragas' ToolCallAccuracy, which compares arguments in Python's printed form.

use super::arguments_of;
use crate::shared::expected_calls::{Comparison, ExpectedCall};
use crate::shared::report;
use spanscore_base::model::ToolCall;
use spanscore_base::value::Value;
use spanscore_base::value::python::PyValue;

/// Returns 0 unless the names are equal (sorted without `strict_order`); otherwise the sum of each
/// pair's share of expected arguments with equal text, divided by the number of expected calls
/// (`explodinggradients/ragas`, `_tool_call_accuracy.py`).
pub(super) fn accuracy<'c, 'a>(comparison: &Comparison<'c, 'a>, strict_order: bool) -> f64 {
    let expected = comparison.expected;
    let actual = comparison.actual;
    let wanted = |call: &'c ExpectedCall| (&*call.name, (!call.is_name).then_some(&call.arguments));
    let mut expected: Vec<_> = expected.iter().map(wanted).collect();
    let made = |call: &&'c ToolCall<'a>| (&*call.name, Some(arguments_of(call)));
    let mut actual: Vec<_> = actual.iter().map(made).collect();
    if expected.is_empty() || actual.is_empty() {
        return f64::from(u8::from(expected.is_empty() && actual.is_empty()));
    }
    if !strict_order {
        expected.sort_by_cached_key(sort_key);
        actual.sort_by_cached_key(sort_key);
    }
    let aligned = expected.len() == actual.len()
        && expected.iter().zip(&actual).all(|((e, _), (a, _))| e == a);
    if !aligned {
        return 0.0;
    }
    let scores = expected.iter().zip(&actual).map(|((_, e), (_, a))| arguments(*e, *a));
    report::total(scores) / expected.len() as f64
}

/// Returns the sort key: name, then argument names and texts.
fn sort_key(call: &(&str, Option<&Value<'_>>)) -> Vec<String> {
    let mut key = vec![call.0.to_owned()];
    let mut entries: Vec<_> = call.1.unwrap_or(&Value::Null).entries().iter().collect();
    entries.sort_by_key(|(name, _)| *name);
    for (name, value) in entries {
        key.push(name.to_owned());
        key.push(text(value));
    }
    key
}

/// Returns the share of the expected arguments; 1 for an expected call with only a name.
fn arguments(expected: Option<&Value<'_>>, actual: Option<&Value<'_>>) -> f64 {
    let Some(expected) = expected else { return 1.0 };
    let expected = expected.entries();
    let actual = actual.unwrap_or(&Value::Null).entries();
    if expected.is_empty() {
        return f64::from(u8::from(actual.is_empty()));
    }
    let actual = actual.by_key();
    let same = |(key, value): &(&str, &Value<'_>)| {
        actual.get(key).is_some_and(|actual| text(actual) == text(value))
    };
    report::ratio(expected.iter().filter(same).count(), expected.len())
}

/// Formats a value as Python's `str(value)` does.
fn text(value: &Value<'_>) -> String {
    PyValue::from(value.clone()).to_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn values_print_as_python_prints_them() {
        let check = |json: &str, printed: &str| {
            assert_eq!(text(&json::parse(json).unwrap()), printed);
        };
        check("true", "True");
        check("1", "1");
        check("1.0", "1.0");
        check("1e16", "1e+16");
        check("0.00001", "1e-05");
        check(r#""a'b""#, "a'b");
        check(r#"{"a": ["it's", null, "\"'"]}"#, r#"{'a': ["it's", None, '"\'']}"#);
    }
}
