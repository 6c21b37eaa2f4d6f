//! JSON as Python's `json.loads` reads it.
//!
//! Wider than RFC 8259: `NaN`, `Infinity` and `-Infinity` are numbers, a lone surrogate in a `\u`
//! escape is kept. Narrower: integers have at most 4,300 digits.

use super::number::DIGITS_MAX;
use super::text::push_code_point;
use super::{PyError, PyStr, PyValue};
use crate::value::Number;

/// Deepest nesting that is read: about where CPython's default recursion limit of 1,000 stops.
pub const DEPTH_MAX: usize = 990;

/// Reads one JSON text; nothing but white space may follow.
pub fn parse(text: &str) -> Result<PyValue<'_>, PyError> {
    let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
    let value = reader.document()?;
    reader.white_space();
    if reader.at == text.len() { Ok(value) } else { Err(PyError::Invalid) }
}

/// A list or object that has not closed yet.
enum Open<'a> {
    List(Vec<PyValue<'a>>),
    Dict(Vec<(PyValue<'a>, PyValue<'a>)>, PyStr<'a>),
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Whether that byte stands here; if so, it is passed.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn document(&mut self) -> Result<PyValue<'a>, PyError> {
        let mut open: Vec<Open<'a>> = Vec::new();
        loop {
            self.white_space();
            if matches!(self.peek(), Some(b'[' | b'{')) && open.len() >= DEPTH_MAX {
                return Err(PyError::TooDeep);
            }
            let mut value = match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    self.white_space();
                    if !self.take(b']') {
                        open.push(Open::List(Vec::new()));
                        continue;
                    }
                    PyValue::List(Vec::new())
                }
                Some(b'{') => {
                    self.at += 1;
                    self.white_space();
                    if !self.take(b'}') {
                        let key = self.key()?;
                        open.push(Open::Dict(Vec::new(), key));
                        continue;
                    }
                    PyValue::Dict(Vec::new())
                }
                _ => self.scalar()?,
            };
            loop {
                let Some(innermost) = open.pop() else { return Ok(value) };
                match self.close(innermost, value)? {
                    Closed::Value(closed) => value = closed,
                    Closed::More(innermost) => {
                        open.push(innermost);
                        break;
                    }
                }
            }
        }
    }

    /// Puts a value into its list or object, and reads what separates it from the next.
    fn close(&mut self, open: Open<'a>, value: PyValue<'a>) -> Result<Closed<'a>, PyError> {
        self.white_space();
        match open {
            Open::List(mut items) => {
                items.push(value);
                if self.take(b']') {
                    return Ok(Closed::Value(PyValue::List(items)));
                }
                let more = self.take(b',');
                if more { Ok(Closed::More(Open::List(items))) } else { Err(PyError::Invalid) }
            }
            Open::Dict(mut entries, key) => {
                entries.push((PyValue::Str(key), value));
                if self.take(b'}') {
                    return Ok(Closed::Value(PyValue::dict(entries)?));
                }
                if !self.take(b',') {
                    return Err(PyError::Invalid);
                }
                self.white_space();
                let key = self.key()?;
                Ok(Closed::More(Open::Dict(entries, key)))
            }
        }
    }

    fn key(&mut self) -> Result<PyStr<'a>, PyError> {
        if self.peek() != Some(b'"') {
            return Err(PyError::Invalid);
        }
        let key = self.string()?;
        self.white_space();
        if self.take(b':') { Ok(key) } else { Err(PyError::Invalid) }
    }

    fn scalar(&mut self) -> Result<PyValue<'a>, PyError> {
        let float = |value| PyValue::Number(Number::Float(value));
        match self.peek() {
            Some(b'"') => self.string().map(PyValue::Str),
            Some(b'n') => self.word("null", PyValue::None),
            Some(b't') => self.word("true", PyValue::Bool(true)),
            Some(b'f') => self.word("false", PyValue::Bool(false)),
            Some(b'N') => self.word("NaN", float(f64::NAN)),
            Some(b'I') => self.word("Infinity", float(f64::INFINITY)),
            Some(b'-') if self.bytes.get(self.at + 1) == Some(&b'I') => {
                self.word("-Infinity", float(f64::NEG_INFINITY))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(PyError::Invalid),
        }
    }

    fn word(&mut self, word: &str, value: PyValue<'a>) -> Result<PyValue<'a>, PyError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(PyError::Invalid)
        }
    }

    fn digits(&mut self) -> usize {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += len;
        len
    }

    fn number(&mut self) -> Result<PyValue<'a>, PyError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return Err(PyError::Invalid);
        }
        let whole = self.at;
        for (marks, signed) in [(&b"."[..], false), (&b"eE"[..], true)] {
            let back = self.at;
            if self.peek().is_some_and(|b| marks.contains(&b)) {
                self.at += 1;
                if signed && matches!(self.peek(), Some(b'+' | b'-')) {
                    self.at += 1;
                }
                if self.digits() == 0 {
                    // What follows is then no part of the number, and no JSON either.
                    self.at = back;
                }
            }
        }
        let text = &self.text[start..self.at];
        if self.at > whole {
            return text
                .parse()
                .map(|value| PyValue::Number(Number::Float(value)))
                .map_err(|_| PyError::Invalid);
        }
        if text.trim_start_matches('-').len() > DIGITS_MAX {
            return Err(PyError::Invalid);
        }
        Number::from_decimal(text).map(PyValue::Number).ok_or(PyError::Invalid)
    }

    fn string(&mut self) -> Result<PyStr<'a>, PyError> {
        self.at += 1;
        let start = self.at;
        self.plain_text();
        if self.take(b'"') {
            return Ok(PyStr::from(&self.text[start..self.at - 1]));
        }
        let mut out = self.bytes[start..self.at].to_vec();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(PyStr::from_encoded(out));
                }
                Some(b'\\') => self.escape(&mut out)?,
                _ => return Err(PyError::Invalid),
            }
            let from = self.at;
            self.plain_text();
            out.extend_from_slice(&self.bytes[from..self.at]);
        }
    }

    /// Skips to the next quote, backslash or control character.
    fn plain_text(&mut self) {
        let rest = &self.bytes[self.at..];
        let stop = rest.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20);
        self.at += stop.unwrap_or(rest.len());
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), PyError> {
        let kind = self.bytes.get(self.at + 1).copied().ok_or(PyError::Invalid)?;
        self.at += 2;
        out.push(match kind {
            b'"' | b'\\' | b'/' => kind,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode_escape(out),
            _ => return Err(PyError::Invalid),
        });
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut Vec<u8>) -> Result<(), PyError> {
        let mut code = self.hex4()?;
        if (0xd800..0xdc00).contains(&code) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
            } else {
                self.at = back;
            }
        }
        push_code_point(code, out);
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, PyError> {
        let digits = self.bytes.get(self.at..self.at + 4).ok_or(PyError::Invalid)?;
        self.at += 4;
        digits.iter().try_fold(0, |code, byte| {
            let digit = (*byte as char).to_digit(16).ok_or(PyError::Invalid)?;
            Ok(code << 4 | digit)
        })
    }
}

enum Closed<'a> {
    Value(PyValue<'a>),
    More(Open<'a>),
}
