//! Parser of objects printed by Python with their fields: `Name(a=1, b='x')`, or Pydantic's
//! `a=1 b='x'`, with nested objects and lists.

use std::borrow::Cow;

use spanscore_base::value::{Map, Value, python};

/// Deepest nesting of objects; deeper ones stay texts.
const DEPTH_MAX: usize = 8;

/// Limit on the bytes read in vain in search of literals, per byte of the text. Each level of
/// nested lists is tried as a literal until the limit is reached; from then on, lists are parsed
/// item by item without a try.
const TRIES_MAX: usize = 4;

/// White space before a field, also with one field per line.
const BLANKS: [char; 2] = [' ', '\n'];

/// Parses the fields of a printed object; `None` for other texts. Linear in the text.
pub(super) fn fields(text: &str) -> Option<Map<'static>> {
    FieldReader { tries: text.len().saturating_mul(TRIES_MAX) }.read(text.trim(), 0)
}

/// Parses the members of a printed dictionary that is no literal: one of its values is a printed
/// object, or one of opaque form.
pub(super) fn members(text: &str) -> Option<Map<'static>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let may_be = inner.starts_with('\'');
    let reader = || FieldReader { tries: text.len().saturating_mul(TRIES_MAX) };
    may_be.then(|| reader().members(inner, 0)).flatten()
}

/// Parses a list of printed objects.
pub(super) fn list(text: &str) -> Option<Vec<Value<'static>>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let reader = || FieldReader { tries: text.len().saturating_mul(TRIES_MAX) };
    may_print_fields(inner).then(|| reader().items(inner, 0)).flatten()
}

/// Returns true if a text starts like a printed object.
pub(super) fn may_print_fields(text: &str) -> bool {
    let name = text.bytes().take_while(|byte| is_name(*byte)).count();
    name > 0 && matches!(text.as_bytes().get(name), Some(b'=' | b'('))
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

/// Terminator of a value outside of brackets and quotes.
#[derive(Clone, Copy, PartialEq)]
enum ValueEnd {
    /// Commas and white space before the next field (`name=`).
    Field,
    /// Comma without preceding white space or comma.
    Comma,
}

struct FieldReader {
    /// Remaining bytes to be read in vain in search of literals.
    tries: usize,
}

impl FieldReader {
    fn read(&mut self, text: &str, depth: usize) -> Option<Map<'static>> {
        if depth > DEPTH_MAX || !may_print_fields(text) {
            return None;
        }
        let name = text.bytes().take_while(|byte| is_name(*byte)).count();
        let mut rest = match text.as_bytes().get(name) {
            Some(b'(') => text.get(name + 1..)?.strip_suffix(')')?,
            _ => text,
        };
        rest = rest.trim_start_matches(BLANKS);
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (key, behind) = rest.split_once('=')?;
            if key.is_empty() || !key.bytes().all(is_name) {
                return None;
            }
            let end = value_end(behind, ValueEnd::Field)?;
            entries.push((Cow::Owned(key.to_owned()), self.value(&behind[..end], depth)));
            rest = behind[end..].trim_start_matches([',', ' ', '\n']);
        }
        Some(Map::from_entries(entries))
    }

    fn value(&mut self, text: &str, depth: usize) -> Value<'static> {
        let text = text.trim();
        if let Some(literal) = self.literal(text) {
            return literal;
        }
        let found = match text.as_bytes() {
            [b'<', ..] => member(text),
            [b'[', .., b']'] | [b'(', .., b')'] if depth < DEPTH_MAX => {
                self.items(&text[1..text.len() - 1], depth + 1).map(Value::List)
            }
            [b'{', .., b'}'] if depth < DEPTH_MAX => {
                self.members(&text[1..text.len() - 1], depth + 1).map(Value::Map)
            }
            _ => self.read(text, depth + 1).map(Value::Map),
        };
        found.unwrap_or_else(|| Value::String(Cow::Owned(text.to_owned())))
    }

    /// Parses a literal. Much of a bracketed text may be read before it proves to be something
    /// else, so only this is charged to `tries`.
    fn literal(&mut self, text: &str) -> Option<Value<'static>> {
        let is_bracketed = text.starts_with(['[', '(']);
        if is_bracketed && self.tries < text.len() {
            return None;
        }
        let literal = python::parse_literal(text).map(Value::into_owned);
        if is_bracketed && literal.is_none() {
            self.tries -= text.len();
        }
        literal
    }

    /// Parses the members of a dictionary that is no literal.
    fn members(&mut self, text: &str, depth: usize) -> Option<Map<'static>> {
        let mut rest = text.trim();
        let mut entries = Vec::new();
        while !rest.is_empty() {
            if !rest.starts_with(['\'', '"']) {
                return None;
            }
            let end = quote_end(rest.as_bytes(), 0)?;
            let key = python::parse_literal(rest.get(..=end)?)?;
            let behind = rest.get(end + 1..)?.trim_start().strip_prefix(':')?;
            let end = value_end(behind, ValueEnd::Comma)?;
            let value = self.value(&behind[..end], depth);
            entries.push((Cow::Owned(key.as_str()?.to_owned()), value));
            rest = behind[end..].trim_start_matches([',', ' ', '\n']);
        }
        Some(Map::from_entries(entries))
    }

    /// Parses the items of a list that is no literal.
    fn items(&mut self, text: &str, depth: usize) -> Option<Vec<Value<'static>>> {
        let mut rest = text;
        let mut items = Vec::new();
        while !rest.trim().is_empty() {
            let end = value_end(rest, ValueEnd::Comma)?;
            items.push(self.value(&rest[..end], depth));
            rest = rest[end..].trim_start_matches([',', ' ', '\n']);
        }
        Some(items)
    }
}

/// Returns the end of a value: the first terminator outside of brackets and quotes. Each byte is
/// read once.
fn value_end(text: &str, wanted: ValueEnd) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut depth = 0_usize;
    // Start of the last commas and white space followed only by a name: if `=` comes next, the
    // value ended there. Stored instead of looking ahead, so that each byte is read once.
    let mut separator = None;
    let mut before = b'=';
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => (at, separator) = (quote_end(bytes, at)?, None),
            b'(' | b'[' | b'{' => (depth, separator) = (depth + 1, None),
            b')' | b']' | b'}' => (depth, separator) = (depth.checked_sub(1)?, None),
            _ if depth > 0 => {}
            // The first of adjacent separators is the end.
            b',' | b' ' | b'\n' if matches!(before, b',' | b' ' | b'\n') => {}
            b',' if wanted == ValueEnd::Comma => return Some(at),
            b',' | b' ' | b'\n' => separator = Some(at),
            b'=' if wanted == ValueEnd::Field && is_name(before) && separator.is_some() => {
                return separator;
            }
            _ if is_name(byte) => {}
            _ => separator = None,
        }
        before = byte;
        at += 1;
    }
    (depth == 0).then_some(bytes.len())
}

/// Returns the position of the closing quote of a quoted text.
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

/// Parses the value of an enumeration member: `<Role.TOOL: 'tool'>`.
fn member(text: &str) -> Option<Value<'static>> {
    let (_, literal) = text.strip_prefix('<')?.strip_suffix('>')?.split_once(": ")?;
    python::parse_literal(literal).map(Value::into_owned)
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
        check(
            "P(\n  f=C(\n    args={\n      'a': 1\n    },\n    id='c'\n  )\n)",
            r#"{"f":{"args":{"a":1},"id":"c"}}"#,
        );
        check("a=1 and b=2", r#"{"a":"1 and","b":2}"#);
        for text in ["plain words", "f(x)", "a='open", "x = 1", ""] {
            check(text, "nothing");
        }
    }

    #[test]
    fn members_of_dictionaries_that_are_no_literals_are_read() {
        for (text, expected) in [
            ("{'out': ValueError('only 3, x')}", r#"{"out":"ValueError('only 3, x')"}"#),
            ("{'a': {'b': M(c=1), 'd': [M(e='f')]}}", r#"{"a":{"b":{"c":1},"d":[{"e":"f"}]}}"#),
            ("{'a': 1, b}", "nothing"),
            ("{'a': M(1}", "nothing"),
            ("{M(a=1)}", "nothing"),
            (r#"{"a": cut"#, "nothing"),
        ] {
            let found = members(text).map(|map| Value::Map(map).to_string());
            assert_eq!(found.as_deref().unwrap_or("nothing"), expected, "{text}");
        }
    }

    #[test]
    fn lists_of_printed_objects_are_read() {
        for (text, expected) in [
            (
                "[T(type='text', text=\"it's, so\"), T(a=None)]",
                r#"[{"type":"text","text":"it's, so"},{"a":null}]"#,
            ),
            ("[1, 2]", "nothing"),
            ("[T(a=1)", "nothing"),
            ("[words and words]", "nothing"),
        ] {
            let found = list(text).map(|items| Value::List(items).to_string());
            assert_eq!(found.as_deref().unwrap_or("nothing"), expected, "{text}");
        }
    }

    #[test]
    fn many_fields_and_words_are_read_in_one_pass() {
        let many: String = (0..200_000).map(|at| format!("k{at}=1 ")).collect();
        assert_eq!(fields(&many).map(|map| map.len()), Some(200_000));
        let again = fields("a=1 b=2 a=3").map(|map| Value::Map(map).to_string());
        assert_eq!(again.as_deref(), Some(r#"{"a":3,"b":2}"#));
        let words = format!("k={}z=1", "a, ".repeat(200_000));
        assert_eq!(fields(&words).map(|map| map.len()), Some(2));
    }

    #[test]
    fn lists_in_lists_are_tried_as_literals_only_so_often() {
        let text = "[[[[[[[1, x]]]]]]]";
        for (tries, left) in [(0, 0), (20, 2), (1000, 1000 - (18 + 16 + 14 + 12 + 10 + 8 + 6))] {
            let mut reader = FieldReader { tries };
            assert_eq!(reader.value(text, 0).to_string(), r#"[[[[[[[1,"x"]]]]]]]"#);
            assert_eq!(reader.tries, left);
        }
    }
}
