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
    let mut reader = PythonJsonReader::new(text);
    let value = reader.document()?;
    reader.end().map(|()| value)
}

/// Reads one JSON text for the entry of one key: `None` where the text is no object. All of the
/// text is checked, but nothing else is built.
pub fn entry<'a>(text: &'a str, key: &str) -> Result<Option<Option<PyValue<'a>>>, PyError> {
    let mut reader = PythonJsonReader { keep: false, ..PythonJsonReader::new(text) };
    reader.white_space();
    let is_object = reader.peek() == Some(b'{');
    let found = if is_object { Some(reader.entry(key)?) } else { None };
    if !is_object {
        reader.document()?;
    }
    reader.end().map(|()| found)
}

/// A list or object that has not closed yet.
enum OpenContainer<'a> {
    List(Vec<PyValue<'a>>),
    Dict(Vec<(PyValue<'a>, PyValue<'a>)>, PyStr<'a>),
}

struct PythonJsonReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Whether values are built, not only checked.
    keep: bool,
    /// Objects that are open around what is read.
    depth: usize,
}

impl<'a> PythonJsonReader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, keep: true, depth: 0 }
    }

    /// Only white space may follow.
    fn end(&mut self) -> Result<(), PyError> {
        self.white_space();
        if self.at == self.text.len() { Ok(()) } else { Err(PyError::Invalid) }
    }

    /// The last entry of a key in the object that stands here.
    fn entry(&mut self, wanted: &str) -> Result<Option<PyValue<'a>>, PyError> {
        self.at += 1;
        self.depth = 1;
        let mut found = None;
        self.white_space();
        if self.take(b'}') {
            return Ok(found);
        }
        loop {
            let key = self.key()?;
            self.keep = key.as_bytes() == wanted.as_bytes();
            let value = self.document()?;
            if self.keep {
                found = Some(value);
            }
            self.white_space();
            if self.take(b'}') {
                return Ok(found);
            }
            if !self.take(b',') {
                return Err(PyError::Invalid);
            }
            self.white_space();
        }
    }

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
        let mut open: Vec<OpenContainer<'a>> = Vec::new();
        loop {
            self.white_space();
            if matches!(self.peek(), Some(b'[' | b'{')) && open.len() + self.depth >= DEPTH_MAX {
                return Err(PyError::TooDeep);
            }
            let mut value = match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    self.white_space();
                    if !self.take(b']') {
                        open.push(OpenContainer::List(Vec::new()));
                        continue;
                    }
                    PyValue::List(Vec::new())
                }
                Some(b'{') => {
                    self.at += 1;
                    self.white_space();
                    if !self.take(b'}') {
                        let key = self.key()?;
                        open.push(OpenContainer::Dict(Vec::new(), key));
                        continue;
                    }
                    PyValue::Dict(Vec::new())
                }
                _ => self.scalar()?,
            };
            loop {
                match open.last_mut() {
                    None => return Ok(value),
                    Some(OpenContainer::List(items)) => {
                        if self.keep {
                            items.push(value);
                        }
                        self.white_space();
                        if !self.take(b']') {
                            break;
                        }
                        value = PyValue::List(std::mem::take(items));
                    }
                    Some(OpenContainer::Dict(entries, key)) => {
                        if self.keep {
                            entries.push((PyValue::Str(std::mem::take(key)), value));
                        }
                        self.white_space();
                        if !self.take(b'}') {
                            break;
                        }
                        value = PyValue::dict(std::mem::take(entries))?;
                    }
                }
                open.pop();
            }
            if !self.take(b',') {
                return Err(PyError::Invalid);
            }
            if let Some(OpenContainer::Dict(_, key)) = open.last_mut() {
                self.white_space();
                *key = self.key()?;
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
        let is_long = self.at == whole && text.trim_start_matches('-').len() > DIGITS_MAX;
        if is_long {
            return Err(PyError::Invalid);
        }
        if !self.keep {
            return Ok(PyValue::None);
        }
        if self.at > whole {
            return text
                .parse()
                .map(|value| PyValue::Number(Number::Float(value)))
                .map_err(|_| PyError::Invalid);
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
