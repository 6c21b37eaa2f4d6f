//! Reader of JSON as Python's `json.loads` reads it.
//!
//! Wider than RFC 8259: `NaN`, `Infinity` and `-Infinity` are numbers, a lone surrogate in a `\u`
//! escape is kept. Narrower: integers have at most 4,300 digits.

use super::number::DIGITS_MAX;
use super::text::push_code_point;
use super::{PyError, PyStr, PyValue};
use crate::value::Number;
use crate::value::json::lexer::{JsonLexError, JsonLexer, Unescape};

/// Deepest accepted nesting, approximately CPython's default recursion limit of 1,000.
pub const DEPTH_MAX: usize = 990;

/// Reads one JSON text; nothing but white space may follow.
pub fn parse(text: &str) -> Result<PyValue<'_>, PyError> {
    let mut reader = PythonJsonReader::new(text);
    let value = reader.document()?;
    reader.end().map(|()| value)
}

/// Reads the value of one key of a JSON object: `None` if the text is no object. The whole text is
/// checked, but no other value is built.
pub fn entry<'a>(text: &'a str, key: &str) -> Result<Option<Option<PyValue<'a>>>, PyError> {
    let mut reader = PythonJsonReader { keep: false, ..PythonJsonReader::new(text) };
    reader.lexer.white_space();
    let is_object = reader.lexer.peek() == Some(b'{');
    let found = if is_object { Some(reader.entry(key)?) } else { None };
    if !is_object {
        reader.document()?;
    }
    reader.end().map(|()| found)
}

/// Open list or object.
enum OpenContainer<'a> {
    List(Vec<PyValue<'a>>),
    Dict(Vec<(PyValue<'a>, PyValue<'a>)>, PyStr<'a>),
}

/// Content of a string with escapes; lone surrogates are kept, as in Python's `str`.
#[derive(Default)]
struct Encoded(Vec<u8>);

impl Unescape for Encoded {
    fn push_plain(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn push_code_point(&mut self, code: u32) {
        push_code_point(code, &mut self.0);
    }
}

/// Converts an error of the lexer; Python's readers name no place.
fn invalid(_: JsonLexError) -> PyError {
    PyError::Invalid
}

struct PythonJsonReader<'a> {
    lexer: JsonLexer<'a>,
    /// True if values are built, not only checked.
    keep: bool,
    /// Open objects around the current value.
    depth: usize,
}

impl<'a> PythonJsonReader<'a> {
    fn new(text: &'a str) -> Self {
        Self { lexer: JsonLexer::new(text), keep: true, depth: 0 }
    }

    /// Checks that only white space follows.
    fn end(&mut self) -> Result<(), PyError> {
        if self.lexer.peek_token().is_none() { Ok(()) } else { Err(PyError::Invalid) }
    }

    /// Reads the last entry of a key in the object that starts here.
    fn entry(&mut self, wanted: &str) -> Result<Option<PyValue<'a>>, PyError> {
        self.lexer.bump();
        self.depth = 1;
        let mut found = None;
        self.lexer.white_space();
        if self.lexer.take(b'}') {
            return Ok(found);
        }
        loop {
            let key = self.key()?;
            self.keep = key.as_bytes() == wanted.as_bytes();
            let value = self.document()?;
            if self.keep {
                found = Some(value);
            }
            self.lexer.white_space();
            if self.lexer.take(b'}') {
                return Ok(found);
            }
            if !self.lexer.take(b',') {
                return Err(PyError::Invalid);
            }
            self.lexer.white_space();
        }
    }

    fn document(&mut self) -> Result<PyValue<'a>, PyError> {
        let mut open: Vec<OpenContainer<'a>> = Vec::new();
        loop {
            self.lexer.white_space();
            if matches!(self.lexer.peek(), Some(b'[' | b'{'))
                && open.len() + self.depth >= DEPTH_MAX
            {
                return Err(PyError::TooDeep);
            }
            let mut value = match self.lexer.peek() {
                Some(b'[') => {
                    self.lexer.bump();
                    self.lexer.white_space();
                    if !self.lexer.take(b']') {
                        open.push(OpenContainer::List(Vec::new()));
                        continue;
                    }
                    PyValue::List(Vec::new())
                }
                Some(b'{') => {
                    self.lexer.bump();
                    self.lexer.white_space();
                    if !self.lexer.take(b'}') {
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
                        self.lexer.white_space();
                        if !self.lexer.take(b']') {
                            break;
                        }
                        value = PyValue::List(std::mem::take(items));
                    }
                    Some(OpenContainer::Dict(entries, key)) => {
                        if self.keep {
                            entries.push((PyValue::Str(std::mem::take(key)), value));
                        }
                        self.lexer.white_space();
                        if !self.lexer.take(b'}') {
                            break;
                        }
                        value = PyValue::dict(std::mem::take(entries))?;
                    }
                }
                open.pop();
            }
            if !self.lexer.take(b',') {
                return Err(PyError::Invalid);
            }
            if let Some(OpenContainer::Dict(_, key)) = open.last_mut() {
                self.lexer.white_space();
                *key = self.key()?;
            }
        }
    }

    fn key(&mut self) -> Result<PyStr<'a>, PyError> {
        let key = self.string()?;
        self.lexer.white_space();
        if self.lexer.take(b':') { Ok(key) } else { Err(PyError::Invalid) }
    }

    fn scalar(&mut self) -> Result<PyValue<'a>, PyError> {
        let float = |value| PyValue::Number(Number::Float(value));
        match self.lexer.peek() {
            Some(b'"') => self.string().map(PyValue::Str),
            Some(b'n') => self.word("null", PyValue::None),
            Some(b't') => self.word("true", PyValue::Bool(true)),
            Some(b'f') => self.word("false", PyValue::Bool(false)),
            Some(b'N') => self.word("NaN", float(f64::NAN)),
            Some(b'I') => self.word("Infinity", float(f64::INFINITY)),
            Some(b'-') if self.lexer.take_text("-Infinity") => Ok(float(f64::NEG_INFINITY)),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &'static str, value: PyValue<'a>) -> Result<PyValue<'a>, PyError> {
        self.lexer.word(word).map(|()| value).map_err(invalid)
    }

    fn number(&mut self) -> Result<PyValue<'a>, PyError> {
        let written = self.lexer.number().map_err(invalid)?;
        let digits = written.text.trim_start_matches('-').len();
        if written.is_integer && digits > DIGITS_MAX {
            return Err(PyError::Invalid);
        }
        let number = match (self.keep, written.is_integer) {
            (false, _) => return Ok(PyValue::None),
            (true, true) => Number::from_decimal(written.text),
            (true, false) => written.text.parse().ok().map(Number::Float),
        };
        number.map(PyValue::Number).ok_or(PyError::Invalid)
    }

    fn string(&mut self) -> Result<PyStr<'a>, PyError> {
        let mut out = Encoded::default();
        let plain = self.lexer.string_into(&mut out).map_err(invalid)?;
        Ok(plain.map_or_else(|| PyStr::from_encoded(out.0), PyStr::from))
    }
}
