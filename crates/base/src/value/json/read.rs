//! JSON reader: text to values.

use super::lexer::{JsonLexError, JsonLexer};
use crate::value::{Map, Number, Value};

/// Deepest accepted nesting.
pub const DEPTH_MAX: usize = 512;

/// Error of a text that is not JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JsonError {
    /// The text breaks the grammar at this byte.
    #[error("not valid JSON at byte {0}")]
    Syntax(usize),
    /// The text nests deeper than [`DEPTH_MAX`].
    #[error("JSON nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

impl From<JsonLexError> for JsonError {
    fn from(error: JsonLexError) -> Self {
        Self::Syntax(error.at)
    }
}

/// Reads one JSON text; nothing but white space may follow.
pub fn parse(text: &str) -> Result<Value<'_>, JsonError> {
    let mut reader = JsonReader { lexer: JsonLexer::new(text) };
    let value = reader.document()?;
    match reader.lexer.peek_token() {
        None => Ok(value),
        Some(_) => reader.fail(),
    }
}

/// Reads the JSON value at the start of a text, and returns it with the byte after it.
pub fn parse_prefix(text: &str) -> Result<(Value<'_>, usize), JsonError> {
    let mut reader = JsonReader { lexer: JsonLexer::new(text) };
    let value = reader.document()?;
    Ok((value, reader.lexer.at()))
}

/// Entries initially reserved for an object.
const ENTRIES_GUESS: usize = 4;

struct JsonReader<'a> {
    lexer: JsonLexer<'a>,
}

impl<'a> JsonReader<'a> {
    fn document(&mut self) -> Result<Value<'a>, JsonError> {
        self.lexer.white_space();
        self.value(0)
    }

    fn fail<T>(&self) -> Result<T, JsonError> {
        Err(JsonError::Syntax(self.lexer.at()))
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        match self.lexer.peek() {
            Some(b'"') => Ok(Value::String(self.lexer.string()?)),
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.fail(),
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, JsonError> {
        self.lexer.word(word)?;
        Ok(value)
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let written = self.lexer.number()?;
        let integer = if written.is_integer { Number::from_decimal(written.text) } else { None };
        let number = integer.or_else(|| written.text.parse().ok().map(Number::Float));
        number.map_or_else(|| self.fail(), |number| Ok(Value::Number(number)))
    }

    fn list(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        if depth >= DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        self.lexer.bump();
        let mut list = Vec::new();
        self.lexer.white_space();
        if self.lexer.take(b']') {
            return Ok(Value::List(list));
        }
        loop {
            self.lexer.white_space();
            list.push(self.value(depth + 1)?);
            self.lexer.white_space();
            if self.lexer.take(b']') {
                return Ok(Value::List(list));
            }
            if !self.lexer.take(b',') {
                return self.fail();
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        if depth >= DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        self.lexer.bump();
        self.lexer.white_space();
        if self.lexer.take(b'}') {
            return Ok(Value::Map(Map::new()));
        }
        let mut entries = Vec::with_capacity(ENTRIES_GUESS);
        loop {
            self.lexer.white_space();
            let key = self.lexer.string()?;
            self.lexer.white_space();
            if !self.lexer.take(b':') {
                return self.fail();
            }
            self.lexer.white_space();
            entries.push((key, self.value(depth + 1)?));
            self.lexer.white_space();
            if self.lexer.take(b'}') {
                return Ok(Value::Map(Map::from_entries(entries)));
            }
            if !self.lexer.take(b',') {
                return self.fail();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json::hard_texts;

    fn check(text: &str, printed: &str) {
        match parse(text) {
            Ok(value) => assert_eq!(value.to_string(), printed, "{text}"),
            Err(error) => assert_eq!(error.to_string(), printed, "{text}"),
        }
    }

    #[test]
    fn values_read_and_print() {
        check(
            r#" {"a": [1, 2.50, -0, 1e3], "b": {"c": null}} "#,
            r#"{"a":[1,2.5,0,1000.0],"b":{"c":null}}"#,
        );
        check("18446744073709551617", "18446744073709551617");
        check(r#""\u00e9\ud83d\ude00\n\/""#, "\"é😀\\n/\"");
        check(r#""\ud800x""#, "\"\u{fffd}x\"");
        check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#);
        check("\"\u{1}\"", "not valid JSON at byte 1");
        check("[1,]", "not valid JSON at byte 3");
        check("01", "not valid JSON at byte 1");
        check("nul", "not valid JSON at byte 0");
        check("", "not valid JSON at byte 0");
        check("{\"a\" 1}", "not valid JSON at byte 5");
        check("\u{feff}1", "not valid JSON at byte 0");
    }

    #[test]
    fn hard_texts_read_as_ever() {
        let read = |text: &str| match parse(text) {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        };
        insta::assert_snapshot!(hard_texts::table(read));
    }

    #[test]
    fn nesting_is_read_to_the_limit_and_refused_one_past_it() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(DEPTH_MAX)).is_ok());
        assert_eq!(parse(&nested(DEPTH_MAX + 1)), Err(JsonError::TooDeep));
    }
}
