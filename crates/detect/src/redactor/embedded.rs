//! JSON within texts: a result that is JSON, an error that quotes its request.

use std::ops::Range;

use spanscore_base::value::{Value, json};

/// Longest searched text, bytes: longer ones are only read as flat texts.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Limit on bytes of failed parsing, per byte of the text.
const VAIN_FACTOR: usize = 4;
/// Least bytes of failed parsing before a text counts as too deep.
const DEEP_BYTES: usize = 1000;

/// Returns the JSON objects and lists in a text, or the text itself if it is a JSON string, with
/// their ranges.
pub(super) fn json_parts(text: &str) -> Vec<(Range<usize>, Value<'_>)> {
    let mut parts = Vec::new();
    if text.len() > TEXT_BYTES_MAX {
        return parts;
    }
    if text.trim_start().starts_with('"')
        && let Ok(value) = json::parse(text)
    {
        return vec![(0..text.len(), value)];
    }
    let mut vain = text.len() * VAIN_FACTOR;
    let mut from = 0;
    for at in memchr::memchr2_iter(b'{', b'[', text.as_bytes()) {
        if at < from || !may_begin(&text.as_bytes()[at..]) {
            continue;
        }
        let read = match json::parse_prefix(&text[at..]) {
            Ok((value, length)) => {
                from = at + length;
                parts.push((at..from, value));
                continue;
            }
            Err(json::JsonError::Syntax(read)) => read + 1,
            Err(json::JsonError::TooDeep) => DEEP_BYTES,
        };
        match vain.checked_sub(read) {
            Some(left) => vain = left,
            None => break,
        }
    }
    parts
}

/// Returns true if an object or list with content may begin here.
fn may_begin(bytes: &[u8]) -> bool {
    let next = bytes[1..].iter().take(64).find(|b| !b.is_ascii_whitespace());
    match bytes[0] {
        b'{' => next == Some(&b'"'),
        _ => matches!(next, Some(b'"' | b'{' | b'[')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, parts: &[&str]) {
        let found = json_parts(text);
        let found: Vec<_> = found.iter().map(|(range, _)| &text[range.clone()]).collect();
        assert_eq!(found, parts, "{}", text.get(..80).unwrap_or(text));
    }

    #[test]
    fn json_is_found_wherever_it_stands() {
        check(r#"{"a": 1}"#, &[r#"{"a": 1}"#]);
        check(r#"sent {"a": [1]} and ["b"], [1]"#, &[r#"{"a": [1]}"#, r#"["b"]"#]);
        check(r#"{"cut": {"a": 1}, "b"#, &[r#"{"a": 1}"#]);
        check(r#""{}""#, &[r#""{}""#]);
    }

    #[test]
    fn reading_in_vain_is_bounded() {
        check(&r#"{"a":"#.repeat(1 << 18), &[]);
        check(&r#"["a","#.repeat(1 << 18), &[]);
    }
}
