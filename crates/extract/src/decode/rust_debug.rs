//! Values as Rust's `Debug` prints them: `Some("{\"city\": \"Brno\"}")`,
//! `Object {"bed": Number(4)}`. `tracing` records fields so that have no text of their own.

use std::borrow::Cow;

use spanscore_base::value::{Map, Value, json};

/// Deepest nesting; deeper values are not read.
const DEPTH_MAX: usize = 32;

/// Returns true if a text begins like such a value.
pub(super) fn may_print(text: &str) -> bool {
    ["Some(", "Object {", "Array [", "String("].iter().any(|head| text.starts_with(head))
}

/// Parses a printed value; a text in it that holds JSON is that.
pub(super) fn parse(text: &str) -> Option<Value<'static>> {
    if !may_print(text) {
        return None;
    }
    let mut reader = Reader { rest: text.trim_end() };
    let value = reader.value(0)?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn take(&mut self, head: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(head);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Value<'static>> {
        if depth > DEPTH_MAX {
            return None;
        }
        for wrapper in ["Some(", "String(", "Number(", "Bool("] {
            if self.take(wrapper) {
                let value = self.value(depth + 1)?;
                return self.take(")").then_some(match value {
                    Value::String(text) if wrapper == "Some(" => of_text(text.into_owned()),
                    value => value,
                });
            }
        }
        if self.take("Object {") || self.take("{") {
            return self.members(depth).map(Value::Map);
        }
        if self.take("Array [") || self.take("[") {
            return self.items(depth).map(Value::List);
        }
        if self.take("Null") || self.take("None") {
            return Some(Value::Null);
        }
        self.literal()
    }

    fn members(&mut self, depth: usize) -> Option<Map<'static>> {
        let mut members: Vec<(Cow<'static, str>, _)> = Vec::new();
        while !self.take("}") {
            let key = self.literal()?;
            if !self.take(":") {
                return None;
            }
            let value = self.value(depth + 1)?;
            members.push((Cow::Owned(key.as_str()?.to_owned()), value));
            if !self.take(",") && !self.rest.trim_start().starts_with('}') {
                return None;
            }
        }
        Some(Map::from_entries(members))
    }

    fn items(&mut self, depth: usize) -> Option<Vec<Value<'static>>> {
        let mut items = Vec::new();
        while !self.take("]") {
            items.push(self.value(depth + 1)?);
            if !self.take(",") && !self.rest.trim_start().starts_with(']') {
                return None;
            }
        }
        Some(items)
    }

    /// Reads a text in quotes, a number or a truth value.
    fn literal(&mut self) -> Option<Value<'static>> {
        let rest = self.rest.trim_start();
        let len = match rest.strip_prefix('"') {
            Some(inner) => quoted_len(inner)? + 2,
            None => rest.find([',', ')', ']', '}', ' ', '\n']).unwrap_or(rest.len()),
        };
        let literal = rest.get(..len)?;
        self.rest = rest.get(len..)?;
        // Rust escapes as JSON does, but for an apostrophe and for characters by their number.
        let literal = literal.replace("\\'", "'").replace("\\0", "\\u0000");
        Some(json::parse(&literal).ok()?.into_owned())
    }
}

/// Returns the length of a text up to the quote that ends it.
fn quoted_len(inner: &str) -> Option<usize> {
    let mut is_escaped = false;
    inner.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn of_text(text: String) -> Value<'static> {
    match json::parse(&text) {
        Ok(value @ (Value::Map(_) | Value::List(_))) => value.into_owned(),
        _ => Value::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_rust_prints_are_what_they_were() {
        for (text, expected) in [
            (r#"Some("{\"city\": \"Brno\"}")"#, r#"{"city":"Brno"}"#),
            (r#"Some("it's \\ \"here\"")"#, r#""it's \\ \"here\"""#),
            (
                r#"Object {"bed": Number(4), "to": Array [String("a"), Null], "is": Bool(true)}"#,
                r#"{"bed":4,"to":["a",null],"is":true}"#,
            ),
            ("Some(Object {})", "{}"),
            ("Some(4)", "4"),
            ("Some(city)", ""),
            ("Some(\"open", ""),
            ("Some(4) more", ""),
            ("Something", ""),
        ] {
            let found = parse(text).map(|value| value.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_nests_too_deep_is_not_read() {
        assert!(parse(&"Some(".repeat(100_000)).is_none());
    }
}
