//! Objects as Python prints them by their fields: `Name(a=1, b='x')`, or `a=1 b='x'` as Pydantic's
//! models do, with such objects in their fields, alone or in lists.

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
        let end = value_end(behind, |at| begins_field(behind, at))?;
        map.insert(key.to_owned(), value(&behind[..end], depth));
        rest = behind[end..].trim_start_matches([',', ' ', '\n']);
    }
    Some(map)
}

/// Where a value ends: at the first comma or blank outside of brackets and quotes at which
/// something new begins.
fn value_end(text: &str, is_end: impl Fn(usize) -> bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut behind_separator) = (0, 0_usize, false);
    while let Some(byte) = bytes.get(at) {
        let is_separator = matches!(byte, b',' | b' ');
        match byte {
            b'\'' | b'"' => at = quote_end(bytes, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            // Of several side by side the first one tells.
            _ if is_separator && depth == 0 && !behind_separator && is_end(at) => return Some(at),
            _ => {}
        }
        behind_separator = is_separator;
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

/// Whether behind blanks and commas `name=` follows.
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
    let found = match text.as_bytes() {
        [b'<', ..] => member(text),
        [b'[', .., b']'] | [b'(', .., b')'] if depth < DEPTH_MAX => {
            items(&text[1..text.len() - 1], depth + 1).map(Value::List)
        }
        _ => read(text, depth + 1).map(Value::Map),
    };
    found.unwrap_or_else(|| Value::String(Cow::Owned(text.to_owned())))
}

/// The value of an enumeration's member: `<Role.TOOL: 'tool'>`.
fn member(text: &str) -> Option<Value<'static>> {
    let (_, literal) = text.strip_prefix('<')?.strip_suffix('>')?.split_once(": ")?;
    python::parse_literal(literal).map(Value::into_owned)
}

/// The items of a list that is no literal.
fn items(text: &str, depth: usize) -> Option<Vec<Value<'static>>> {
    let (mut rest, mut items) = (text, Vec::new());
    while !rest.trim().is_empty() {
        let end = value_end(rest, |at| rest.as_bytes().get(at) == Some(&b','))?;
        items.push(value(&rest[..end], depth));
        rest = rest[end..].trim_start_matches([',', ' ', '\n']);
    }
    Some(items)
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
        check(
            "M(_role=<R.TOOL: 'tool'>, _content=[T(r=\"{'a': [1, 2]}\", o=C(id='c')), T(r='x')])",
            r#"{"_role":"tool","_content":[{"r":"{'a': [1, 2]}","o":{"id":"c"}},{"r":"x"}]}"#,
        );
        check(
            "a=[B(c=1),  D(e='f, g')] h=<object at 0x7f>",
            r#"{"a":[{"c":1},{"e":"f, g"}],"h":"<object at 0x7f>"}"#,
        );
        check("a=1 and b=2", r#"{"a":"1 and","b":2}"#);
        for text in ["plain words", "f(x)", "a='open", "x = 1", ""] {
            check(text, "nothing");
        }
    }
}
