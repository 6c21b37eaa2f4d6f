//! Objects as Python prints them by their fields: `Name(a=1, b='x')`, or `a=1 b='x'` as Pydantic's
//! models do.

use std::borrow::Cow;

use crate::value::{Map, Value, python};

/// Objects within objects; deeper ones stay texts.
const DEPTH_MAX: usize = 8;

/// The fields of an object that a text prints; `None` if it prints none.
pub(super) fn fields(text: &str) -> Option<Map<'static>> {
    read(text.trim(), 0)
}

/// Whether a text begins like such an object.
pub(super) fn may_print_fields(text: &str) -> bool {
    let name = text.bytes().take_while(|byte| is_name(*byte)).count();
    name > 0 && matches!(text.as_bytes().get(name), Some(b'=' | b'('))
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

fn read(text: &str, depth: usize) -> Option<Map<'static>> {
    if depth > DEPTH_MAX || !may_print_fields(text) {
        return None;
    }
    let name = text.bytes().take_while(|byte| is_name(*byte)).count();
    let mut rest = match text.as_bytes().get(name) {
        Some(b'(') => text.get(name + 1..)?.strip_suffix(')')?,
        _ => text,
    };
    let mut map = Map::new();
    while !rest.is_empty() {
        let (key, behind) = rest.split_once('=')?;
        if key.is_empty() || !key.bytes().all(is_name) {
            return None;
        }
        let end = value_end(behind)?;
        map.insert(key.to_owned(), value(&behind[..end], depth));
        rest = behind[end..].trim_start_matches([',', ' ', '\n']);
    }
    Some(map)
}

/// Where a field's value ends: before the next field, outside of brackets and quotes.
fn value_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => at = quote_end(bytes, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' | b' ' if depth == 0 && begins_field(text, at) => return Some(at),
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then_some(bytes.len())
}

/// Where a quoted text ends: at its closing quote.
fn quote_end(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes.get(start)?;
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
}

/// Whether behind a blank or a comma `name=` follows.
fn begins_field(text: &str, at: usize) -> bool {
    let Some(rest) = text.get(at..) else { return false };
    let rest = rest.trim_start_matches([',', ' ']);
    let name = rest.bytes().take_while(|byte| is_name(*byte)).count();
    name > 0 && rest.as_bytes().get(name) == Some(&b'=')
}

fn value(text: &str, depth: usize) -> Value<'static> {
    let text = text.trim();
    if let Some(literal) = python::parse_literal(text) {
        return literal.into_owned();
    }
    match read(text, depth + 1) {
        Some(map) => Value::Map(map),
        None => Value::String(Cow::Owned(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = fields(text).map(|map| Value::Map(map).to_string());
        assert_eq!(found.as_deref().unwrap_or("nothing"), expected, "{text}");
    }

    #[test]
    fn fields_of_printed_objects_are_read() {
        check(
            r#"content='{"a": "b c=d"}' name='f' tool_call_id='c1' status='error'"#,
            r#"{"content":"{\"a\": \"b c=d\"}","name":"f","tool_call_id":"c1","status":"error"}"#,
        );
        check("Out(city='Rome', rain=True, mm=None)", r#"{"city":"Rome","rain":true,"mm":null}"#);
        check("a=[1, {'b': 2}] c=D(e=\"it's\")", r#"{"a":[1,{"b":2}],"c":{"e":"it's"}}"#);
        check("a=1 and b=2", r#"{"a":"1 and","b":2}"#);
        for text in ["plain words", "f(x)", "a='open", "x = 1", ""] {
            check(text, "nothing");
        }
    }
}
