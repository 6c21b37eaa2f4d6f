//! Reading and writing JSON.
//!
//! RFC 8259, strict, with these limits: [`DEPTH_MAX`] levels; lone surrogates in `\u` escapes
//! become U+FFFD. Numbers stay exact ([`Number`]); one written with a fraction or an exponent is a
//! double, and may overflow to infinity.

#[cfg(test)]
pub(crate) mod hard_texts;

use std::borrow::Cow;
use std::fmt;

use super::{Map, Number, Value};

/// Deepest nesting that is read; deeper text is refused.
pub const DEPTH_MAX: usize = 512;

/// Why a text is not JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JsonError {
    /// The text breaks the grammar at this byte.
    #[error("not valid JSON at byte {0}")]
    Syntax(usize),
    /// The text nests deeper than [`DEPTH_MAX`].
    #[error("JSON nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

/// Reads one JSON text; nothing but white space may follow.
pub fn parse(text: &str) -> Result<Value<'_>, JsonError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    let value = reader.document()?;
    reader.white_space();
    if reader.at == reader.bytes.len() { Ok(value) } else { Err(JsonError::Syntax(reader.at)) }
}

/// Reads the JSON value at the start of a text and gives back the byte after it.
pub fn parse_prefix(text: &str) -> Result<(Value<'_>, usize), JsonError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    let value = reader.document()?;
    Ok((value, reader.at))
}

/// Entries of an object for which room is made at once.
const ENTRIES_GUESS: usize = 4;

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Value<'a>, JsonError> {
        self.white_space();
        self.value(0)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn fail<T>(&self) -> Result<T, JsonError> {
        Err(JsonError::Syntax(self.at))
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.fail(),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, JsonError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            self.fail()
        }
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.fail(),
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
            integer = false;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
            integer = false;
        }
        let text = &self.text[start..self.at];
        let number = if integer { Number::from_decimal(text) } else { None };
        let number = number.or_else(|| text.parse().ok().map(Number::Float));
        number.map_or_else(|| self.fail(), |number| Ok(Value::Number(number)))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        self.digits();
        if self.at == start { self.fail() } else { Ok(()) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        self.plain_text();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut out = String::with_capacity(self.at - start + 16);
        out.push_str(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => self.escape(&mut out)?,
                _ => return self.fail(),
            }
            let from = self.at;
            self.plain_text();
            out.push_str(&self.text[from..self.at]);
        }
    }

    /// Skips to the next quote, backslash or control character.
    fn plain_text(&mut self) {
        let rest = &self.bytes[self.at..];
        let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        // The smallest byte of all is found several at once; most texts hold no control character.
        let lowest = rest[..plain].iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte));
        let is_control = |byte: &u8| *byte < 0x20;
        self.at += if is_control(&lowest) {
            rest.iter().position(is_control).unwrap_or(plain)
        } else {
            plain
        };
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        self.at += 1;
        let Some(kind) = self.peek() else { return self.fail() };
        self.at += 1;
        out.push(match kind {
            b'"' | b'\\' | b'/' => kind as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(out),
            _ => {
                self.at -= 1;
                return self.fail();
            }
        });
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                return Ok(());
            }
            self.at = back;
        }
        out.push(char::from_u32(first).unwrap_or('\u{fffd}'));
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| (b as char).to_digit(16));
            let Some(digit) = digit else { return self.fail() };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn list(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        if depth >= DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        self.at += 1;
        let mut list = Vec::new();
        self.white_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(list));
        }
        loop {
            self.white_space();
            list.push(self.value(depth + 1)?);
            self.white_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(list));
                }
                _ => return self.fail(),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        if depth >= DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        self.at += 1;
        self.white_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(Map::new()));
        }
        let mut entries = Vec::with_capacity(ENTRIES_GUESS);
        loop {
            self.white_space();
            if self.peek() != Some(b'"') {
                return self.fail();
            }
            let key = self.string()?;
            self.white_space();
            if self.peek() != Some(b':') {
                return self.fail();
            }
            self.at += 1;
            self.white_space();
            entries.push((key, self.value(depth + 1)?));
            self.white_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Map(Map::from_entries(entries)));
                }
                _ => return self.fail(),
            }
        }
    }
}

/// Writes compact JSON.
pub fn write(value: &Value<'_>, out: &mut impl fmt::Write) -> fmt::Result {
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(true) => out.write_str("true"),
        Value::Bool(false) => out.write_str("false"),
        Value::Number(number) => write!(out, "{number}"),
        Value::String(text) => write_string(text, out),
        Value::List(list) => {
            out.write_char('[')?;
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                write(item, out)?;
            }
            out.write_char(']')
        }
        Value::Map(map) => {
            out.write_char('{')?;
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                write_string(key, out)?;
                out.write_char(':')?;
                write(item, out)?;
            }
            out.write_char('}')
        }
    }
}

/// Writes a JSON string with its quotes.
pub fn write_string(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.write_str(&text[from..at])?;
        if escape.is_empty() {
            write!(out, "\\u{byte:04x}")?;
        } else {
            out.write_str(escape)?;
        }
        from = at + 1;
    }
    out.write_str(&text[from..])?;
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

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
