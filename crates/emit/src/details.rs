//! Details of a score for people: expected and actual calls beside each other, and other inputs.
//!
//! ```text
//! = find {"id":1}
//! - pay {"amount":30}
//! + pay {"amount":35}
//! > ship  call 1, expected at place 3
//! ```
//!
//! `=` marks expected calls, `-` missing, `+` unexpected, `>` misplaced ones. Anything but a
//! comparison of calls is printed as `key: value`. Texts are cut and made visible, as on the lines
//! of the console; lists are cut at [`LINES_MAX`].

use std::fmt::Write as _;

use super::console::push_line;
use spanscore_base::value::{Map, Value};

/// Limit on lines of one evaluation; further ones are counted.
const LINES_MAX: usize = 40;

/// Appends the details, each line indented by `indent` spaces.
pub fn write_text(details: &Value<'_>, indent: usize, out: &mut String) {
    let Value::Map(details) = details else { return };
    let mut lines = Vec::new();
    write_map(details, 0, &mut lines);
    let more = lines.len().saturating_sub(LINES_MAX);
    for (depth, line) in lines.iter().take(LINES_MAX) {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{:width$}", "", width = indent + 2 * depth);
        push_line(line, out);
        out.push('\n');
    }
    if more > 0 {
        let _ = writeln!(out, "{:indent$}and {more} more lines", "");
    }
}

type DetailLines = Vec<(usize, String)>;

fn write_map(details: &Map<'_>, depth: usize, lines: &mut DetailLines) {
    if let Some(Value::List(steps)) = details.get("diff") {
        steps.iter().for_each(|step| write_step(step, depth, lines));
        return;
    }
    for (key, value) in details.iter() {
        match value {
            Value::List(items) if items.iter().any(|item| item.as_map().is_some()) => {
                lines.push((depth, format!("{key}:")));
                items.iter().for_each(|item| write_item(item, depth + 1, lines));
            }
            Value::Map(map) if !map.is_empty() => {
                lines.push((depth, format!("{key}:")));
                write_map(map, depth + 1, lines);
            }
            Value::String(text) => lines.push((depth, format!("{key}: {text}"))),
            value => lines.push((depth, format!("{key}: {value}"))),
        }
    }
}

/// Appends one item of a list: a comparison, or its members in a line.
fn write_item(item: &Value<'_>, depth: usize, lines: &mut DetailLines) {
    let Value::Map(map) = item else { return lines.push((depth, item.to_string())) };
    if map.get("diff").is_some() {
        let head = ["turn", "score"].map(|key| map.get(key).map(ToString::to_string));
        let [turn, score] = head.map(Option::unwrap_or_default);
        lines.push((depth, format!("turn {turn}: {score}")));
        return write_map(map, depth + 1, lines);
    }
    let expected = map.get("expected");
    let actual = map.get("actual");
    if let (Some(expected), Some(actual)) = (expected, actual) {
        let is_right = map.get("score").and_then(Value::as_number).map(|score| score.as_f64());
        let name = map.get("name").and_then(Value::as_str).unwrap_or_default();
        let operator = map.get("operator").and_then(Value::as_str);
        if let Some(operator) = operator {
            let mark = if is_right == Some(1.0) { '=' } else { '-' };
            return lines
                .push((depth, format!("{mark} {name} {operator} {expected}, called {actual}")));
        }
        return if is_right == Some(1.0) {
            lines.push((depth, call('=', name, Some(actual))));
        } else {
            lines.push((depth, call('-', name, Some(expected))));
            if !actual.is_null() {
                lines.push((depth, call('+', name, Some(actual))));
            }
        };
    }
    let part = |(key, value): (&str, &Value<'_>)| match value {
        Value::String(text) => format!("{key}: {text}"),
        value => format!("{key}: {value}"),
    };
    let shown = map.iter().filter(|(_, value)| !value.is_null()).map(part);
    lines.push((depth, shown.collect::<Vec<_>>().join(", ")));
}

/// Appends one step of a comparison of calls.
fn write_step(step: &Value<'_>, depth: usize, lines: &mut DetailLines) {
    let text = |key| step.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key| step.get(key).map(ToString::to_string).unwrap_or_default();
    let name = text("name");
    let expected = step.get("expected");
    let actual = step.get("actual");
    match text("is") {
        "same" => lines.push((depth, call('=', name, actual))),
        "moved" => {
            let place = number("place");
            let at = number("call");
            let line = call('>', name, actual);
            lines.push((depth, format!("{line}  call {at}, expected at place {place}")));
        }
        "missing" => lines.push((depth, call('-', name, expected))),
        "extra" => lines.push((depth, call('+', name, actual))),
        _ => {
            lines.push((depth, call('-', name, expected)));
            lines.push((depth, call('+', name, actual)));
        }
    }
}

fn call(mark: char, name: &str, content: Option<&Value<'_>>) -> String {
    match content.filter(|content| !content.is_null()) {
        Some(content) => format!("{mark} {name} {content}"),
        None => format!("{mark} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(details: &str, expected: &str) {
        let mut out = String::new();
        write_text(&json::parse(details).expect("JSON"), 2, &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn expected_and_actual_calls_stand_beside_each_other() {
        check(
            r#"{"matched_count": 1, "diff": [
                {"is": "same", "name": "find", "place": 1, "call": 1, "actual": {"id": 1}},
                {"is": "differs", "name": "pay", "expected": {"a": 30}, "actual": {"a": 35}},
                {"is": "moved", "name": "ship", "place": 3, "call": 1, "actual": null},
                {"is": "missing", "name": "mail", "expected": {}},
                {"is": "extra", "name": "spam\u001b", "actual": {}}]}"#,
            "  = find {\"id\":1}\n  - pay {\"a\":30}\n  + pay {\"a\":35}\n  > ship  call 1, \
             expected \
             at place 3\n  - mail {}\n  + spam\\u{1b} {}\n",
        );
        check(
            r#"{"calls": [{"name": "pay", "expected": {"a": 1}, "actual": {"a": 2}, "score": 0},
                {"name": "find", "expected": {}, "actual": {}, "score": 1}]}"#,
            "  calls:\n    - pay {\"a\":1}\n    + pay {\"a\":2}\n    = find {}\n",
        );
        check(
            r#"{"counts": [{"name": "find", "operator": "<=", "expected": 3, "actual": 4,
                "score": 0}]}"#,
            "  counts:\n    - find <= 3, called 4\n",
        );
    }

    #[test]
    fn other_details_stand_as_keys_and_values() {
        check(
            r#"{"violation_count": 1, "violations": [{"rule": "forbidden", "tool": "rm",
                "missing": null}]}"#,
            "  violation_count: 1\n  violations:\n    rule: forbidden, tool: rm\n",
        );
    }

    #[test]
    fn long_details_are_cut() {
        let item = r#"{"name": "x"}"#;
        let details = format!(r#"{{"all": [{}]}}"#, vec![item; LINES_MAX].join(","));
        let mut out = String::new();
        write_text(&json::parse(&details).expect("JSON"), 0, &mut out);
        assert!(out.ends_with("and 1 more lines\n"), "{out}");
    }
}
