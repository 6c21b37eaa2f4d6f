//! Reader of records that tools print as YAML: `service_type: internet`, one line per field.
//!
//! It reads only the plain block form, and rejects ambiguous texts. Each line is a field, an entry
//! or a continuation, no key is repeated, no plain value contains `: `, and the keys are those of
//! programs. So neither messages of a shell (`date: invalid date`) nor prose with a colon count as
//! records.

use std::borrow::Cow;

use spanscore_base::value::json;
use spanscore_base::value::{Map, Value};

use crate::limits::{ENTRIES_MAX, ENVELOPE_DEPTH_MAX};

/// Longest key, bytes.
const KEY_BYTES_MAX: usize = 40;
/// Number of fields from which single-word keys make a record, too.
const PLAIN_FIELDS_MIN: usize = 3;

/// Parses a record, or a list of them; `None` for any other text.
pub(super) fn parse(text: &str) -> Option<Value<'_>> {
    let record = block(text, 0, 0)?;
    let fields = match &record {
        Value::List(list) => list.first()?.as_map()?,
        other => other.as_map()?,
    };
    let is_of_program = fields.iter().any(|(key, _)| key.trim_matches('_').contains('_'));
    let enough = fields.len() > 1 && is_of_program || fields.len() >= PLAIN_FIELDS_MIN;
    enough.then_some(record)
}

/// Parses lines at one indentation; that of the first one has been removed.
fn block(text: &str, indent: usize, depth: usize) -> Option<Value<'_>> {
    if depth > ENVELOPE_DEPTH_MAX {
        return None;
    }
    if text.starts_with("- ") { list(text, indent, depth) } else { mapping(text, indent, depth) }
}

fn mapping(text: &str, indent: usize, depth: usize) -> Option<Value<'_>> {
    let mut entries: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, behind) = key_of(rest)?;
        if entries.len() == ENTRIES_MAX || entries.iter().any(|(known, _)| known == key) {
            return None;
        }
        let (held, next) = split_at_line(behind, |line| is_field_at(line, indent));
        entries.push((Cow::Borrowed(key), value(held, indent, depth)?));
        rest = next.trim_start_matches(' ');
    }
    Some(Value::Map(Map::from_entries(entries)))
}

fn list(text: &str, indent: usize, depth: usize) -> Option<Value<'_>> {
    let mut entries = Vec::new();
    let mut rest = text;
    while let Some(entry) = rest.strip_prefix("- ") {
        let (held, next) = split_at_line(entry, |line| indent_of(line) <= indent);
        let held = held.trim_end();
        entries.push(block(held, indent + 2, depth + 1).unwrap_or_else(|| scalar(held)));
        rest = next.trim_start_matches(' ');
        if entries.len() > ENTRIES_MAX {
            break;
        }
    }
    (rest.is_empty() || entries.len() > ENTRIES_MAX).then_some(Value::List(entries))
}

/// Parses the value after a key: a scalar with its continuation, or a block.
fn value(text: &str, indent: usize, depth: usize) -> Option<Value<'_>> {
    let (first, below) = text.split_once('\n').unwrap_or((text, ""));
    let first = first.trim();
    if matches!(first, "" | "|" | "|-" | ">" | ">-") {
        let below = below.trim_end();
        let inner = below.trim_start_matches([' ', '\n']);
        let at = indent_of(below).max(indent);
        let nested = first.is_empty().then(|| block(inner, at, depth + 1)).flatten();
        let text = || if inner.is_empty() { Value::Null } else { Value::String(inner.into()) };
        return Some(nested.unwrap_or_else(text));
    }
    if let Some(quoted) = unquoted(text.trim()) {
        return Some(Value::String(quoted.into()));
    }
    // A plain value with a colon is not YAML.
    if first.contains(": ") || first.ends_with(':') {
        return None;
    }
    let whole = if below.trim().is_empty() { first } else { text.trim() };
    Some(scalar(whole))
}

fn scalar(text: &str) -> Value<'_> {
    match text {
        "null" | "Null" | "NULL" | "~" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => json::parse(text).unwrap_or(Value::String(text.into())),
    }
}

/// Returns the text within single or double quotes.
fn unquoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.strip_prefix(quote)?.strip_suffix(quote)
}

/// Returns the key at the start of a line, and the rest after its colon.
fn key_of(text: &str) -> Option<(&str, &str)> {
    let start = &text.as_bytes()[..text.len().min(KEY_BYTES_MAX)];
    let end = start.iter().position(|byte| !is_of_key(*byte))?;
    let behind = text[end..].strip_prefix(':')?;
    let is_key = start[0].is_ascii_lowercase() || start[0] == b'_';
    (is_key && (behind.is_empty() || behind.starts_with([' ', '\n'])))
        .then(|| (&text[..end], behind))
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns true if a line begins the next field; list entries may have the same indentation.
fn is_field_at(line: &str, indent: usize) -> bool {
    let at = indent_of(line);
    at < indent || at == indent && !line[at..].starts_with("- ")
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Splits a text before the first later line of a kind, never before a blank line.
fn split_at_line(text: &str, begins: impl Fn(&str) -> bool) -> (&str, &str) {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes());
    let mut starts = ends.map(|end| end + 1).filter(|start| {
        let line = text[*start..].split('\n').next().unwrap_or_default();
        !line.trim().is_empty() && begins(line)
    });
    starts.next().map_or((text, ""), |start| text.split_at(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, json: Option<&str>) {
        assert_eq!(parse(text), json.map(|json| json::parse(json).unwrap()), "{text}");
    }

    #[test]
    fn lines_of_fields_are_read_as_a_record() {
        check("case_id: 7\nstate: open", Some(r#"{"case_id": 7, "state": "open"}"#));
        check(
            "last_sync: failed while\n  reading\nretry_allowed: false",
            Some(r#"{"last_sync": "failed while\n  reading", "retry_allowed": false}"#),
        );
        check(
            "to_do:\n- a_b: 1\n  c: ''\n- a_b: 2\nowner:\n  name: \"Ada: M\"\n  age: null",
            Some(
                r#"{"to_do": [{"a_b": 1, "c": ""}, {"a_b": 2}],
                    "owner": {"name": "Ada: M", "age": null}}"#,
            ),
        );
        check(
            "- user_id: 1\n  body: |\n    two\n    lines\n- user_id: 2",
            Some(r#"[{"user_id": 1, "body": "two\n    lines"}, {"user_id": 2}]"#),
        );
    }

    #[test]
    fn other_lines_with_colons_are_no_record() {
        for text in [
            "my_tool: cannot open a file",
            "pip_x: error: no such file\nusage_x: x",
            "tar: gone\ntar: exiting",
            "error: failed to push\nhint: pull first",
            "Status: failed\nCode_a: 4",
            "a_b: 1\nthat is all",
            "a_b:\nc_d",
            "",
        ] {
            check(text, None);
        }
    }
}
