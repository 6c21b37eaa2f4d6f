//! Reader of Python literals, as `ast.literal_eval` reads them.
//!
//! Strings of all prefixes but `f`, bytes, numbers, `None`, `True`, `False`, `...`, tuples, lists,
//! sets, dicts, `set()`, signs on numbers, and a real plus or minus an imaginary number. Names,
//! calls, operators and `\N{...}` escapes are refused.

use super::number;
use super::strings::{self, StringContent};
use super::{PyError, PyValue};
use crate::value::Number;

/// Deepest accepted nesting of brackets: CPython's limit.
pub const DEPTH_MAX: usize = 200;

/// Reads one literal, with optional white space, line ends and comments around it.
pub fn parse(text: &str) -> Result<PyValue<'_>, PyError> {
    read(text, false)
}

/// Reads one literal that is plain data. Stops at the first part that Python refuses or that has no
/// JSON form (sets, bytes, complex numbers, keys that are not texts), so that the rest of a long
/// text is not read in vain.
pub(super) fn parse_plain(text: &str) -> Result<PyValue<'_>, PyError> {
    read(text, true)
}

fn read(text: &str, is_plain: bool) -> Result<PyValue<'_>, PyError> {
    if text.contains('\0') {
        return Err(PyError::Invalid);
    }
    let text = text.trim_start_matches([' ', '\t']);
    let mut reader = PythonLiteralReader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        open: vec![OpenBracket::new(b' ')],
        fault: None,
        is_plain,
    };
    reader.blank_lines()?;
    reader.document()
}

/// Kind of the expression of a value: signs and sums accept only some kinds.
#[derive(Clone, Copy, Default, PartialEq)]
enum ExpressionKind {
    /// A number without a sign.
    Constant,
    /// A number with a sign.
    Signed,
    /// Anything else.
    #[default]
    Other,
}

type Operand<'a> = (PyValue<'a>, ExpressionKind);

/// Open bracket, or the whole text (`b' '`).
#[derive(Default)]
struct OpenBracket<'a> {
    bracket: u8,
    items: Vec<PyValue<'a>>,
    /// Kind of the first operand, which may be in parentheses.
    single: ExpressionKind,
    commas: usize,
    keys: Vec<PyValue<'a>>,
    is_dict: bool,
    sign: Option<u8>,
    left: Option<(PyValue<'a>, u8)>,
    /// Error found before the current operand.
    earlier_fault: Option<PyError>,
}

impl OpenBracket<'_> {
    fn new(bracket: u8) -> Self {
        Self { bracket, ..Self::default() }
    }

    /// Returns true if an item or the end may follow.
    fn is_between(&self) -> bool {
        self.sign.is_none() && self.left.is_none() && self.keys.len() == self.value_count()
    }

    fn value_count(&self) -> usize {
        if self.is_dict { self.items.len() } else { self.keys.len() }
    }
}

struct PythonLiteralReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    open: Vec<OpenBracket<'a>>,
    /// Error that only evaluation finds; a later syntax error takes precedence.
    fault: Option<PyError>,
    /// True to accept only plain data, so that the first such error ends the reading.
    is_plain: bool,
}

impl<'a> PythonLiteralReader<'a> {
    /// Records an evaluation error, or fails if only plain data is accepted.
    fn found_fault(&mut self, fault: PyError) -> Result<(), PyError> {
        self.fault.get_or_insert(fault);
        if self.is_plain { Err(fault) } else { Ok(()) }
    }

    /// Passes on a value that is not plain data, or fails if only plain data is accepted.
    fn only_python(&self, value: PyValue<'a>) -> Result<PyValue<'a>, PyError> {
        if self.is_plain { Err(PyError::Invalid) } else { Ok(value) }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn frame(&mut self) -> Result<&mut OpenBracket<'a>, PyError> {
        self.open.last_mut().ok_or(PyError::Invalid)
    }

    /// Consumes a line end (`\n`, `\r\n` or `\r`), if one is next.
    fn line_end(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let len = match rest {
            [b'\r', b'\n', ..] => 2,
            [b'\n' | b'\r', ..] => 1,
            _ => 0,
        };
        self.at += len;
        len > 0
    }

    /// Skips white space and comments between two tokens; line ends only inside brackets.
    fn skip(&mut self) -> Result<(), PyError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\x0c') => self.at += 1,
                Some(b'#') => self.comment(),
                Some(b'\\') => {
                    self.at += 1;
                    if !self.line_end() || self.at == self.bytes.len() {
                        return Err(PyError::Invalid);
                    }
                }
                Some(b'\n' | b'\r') if self.open.len() > 1 => {
                    self.line_end();
                }
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) {
        let rest = &self.bytes[self.at..];
        let stop = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
        self.at += stop.unwrap_or(rest.len());
    }

    /// Skips empty lines; the text after them must not be indented.
    fn blank_lines(&mut self) -> Result<(), PyError> {
        loop {
            let mut indented = false;
            while let Some(byte @ (b' ' | b'\t' | b'\x0c')) = self.peek() {
                indented = byte != b'\x0c';
                self.at += 1;
            }
            if self.peek() == Some(b'#') {
                indented = false;
                self.comment();
            }
            if !self.line_end() {
                return if indented { Err(PyError::Invalid) } else { Ok(()) };
            }
        }
    }

    fn document(&mut self) -> Result<PyValue<'a>, PyError> {
        loop {
            self.skip()?;
            let frame = self.frame()?;
            let unsigned = frame.sign.is_none();
            let between = frame.is_between();
            let after_comma = between && frame.commas > 0;
            let starts = unsigned && frame.left.is_none();
            if starts {
                let fault = self.fault;
                self.frame()?.earlier_fault = fault;
            }
            let mut operand = match self.peek() {
                Some(sign @ (b'+' | b'-')) if unsigned => {
                    self.frame()?.sign = Some(sign);
                    self.at += 1;
                    continue;
                }
                Some(bracket @ (b'(' | b'[' | b'{')) => {
                    if self.open.len() > DEPTH_MAX {
                        return Err(PyError::Invalid);
                    }
                    self.open.push(OpenBracket::new(bracket));
                    self.at += 1;
                    continue;
                }
                Some(b')' | b']' | b'}') if between => self.close()?,
                _ if after_comma && self.at_end() => return self.finish(),
                _ => self.atom()?,
            };
            loop {
                operand = self.combine(operand)?;
                self.skip()?;
                match self.after(operand)? {
                    Next::Operand => break,
                    Next::Closed(closed) => operand = closed,
                    Next::End => return self.finish(),
                }
            }
        }
    }

    /// Returns true at the end of the expression: of the text, or of its line.
    fn at_end(&self) -> bool {
        self.open.len() == 1 && matches!(self.peek(), None | Some(b'\n' | b'\r'))
    }

    /// Returns the value of the whole text, if only blank lines follow.
    fn finish(&mut self) -> Result<PyValue<'a>, PyError> {
        self.line_end();
        self.blank_lines()?;
        let frame = self.open.pop().ok_or(PyError::Invalid)?;
        if self.at < self.bytes.len() {
            return Err(PyError::Invalid);
        }
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(close_parenthesis(frame).0),
        }
    }

    /// Applies the preceding sign and sum to an operand.
    fn combine(&mut self, (value, shape): Operand<'a>) -> Result<Operand<'a>, PyError> {
        let frame = self.frame()?;
        let sign = frame.sign.take();
        let left = frame.left.take();
        let (value, shape) = match sign {
            None => (value, shape),
            Some(_) if shape != ExpressionKind::Constant => {
                (self.malformed()?, ExpressionKind::Other)
            }
            Some(sign) => {
                (if sign == b'-' { negate(value)? } else { value }, ExpressionKind::Signed)
            }
        };
        let Some((left, operator)) = left else { return Ok((value, shape)) };
        match (left, value) {
            (PyValue::Number(left), PyValue::Complex(re, im))
                if shape == ExpressionKind::Constant =>
            {
                let real = left.as_f64();
                if real.is_infinite() && left.is_integer() {
                    self.found_fault(PyError::TooLarge)?;
                }
                let sum = match operator {
                    b'-' => PyValue::Complex(real - re, 0.0 - im),
                    _ => PyValue::Complex(real + re, 0.0 + im),
                };
                Ok((sum, ExpressionKind::Other))
            }
            _ => Ok((self.malformed()?, ExpressionKind::Other)),
        }
    }

    /// Replaces an operation that Python parses but refuses before evaluating its operands.
    fn malformed(&mut self) -> Result<PyValue<'a>, PyError> {
        let earlier = self.frame()?.earlier_fault;
        self.fault = earlier.or(Some(PyError::Invalid));
        self.only_python(PyValue::None)
    }

    /// Reads the token after an operand.
    fn after(&mut self, (value, shape): Operand<'a>) -> Result<Next<'a>, PyError> {
        let token = self.peek();
        if self.at_end() {
            self.put(value, shape)?;
            return Ok(Next::End);
        }
        self.at += 1;
        let is_plain = self.is_plain;
        let frame = self.frame()?;
        let is_set = frame.bracket == b'{' && !frame.is_dict && token == Some(b',');
        let is_key = token == Some(b':');
        if is_plain && (is_set || is_key && !matches!(value, PyValue::Str(_))) {
            return Err(PyError::Invalid);
        }
        match token {
            Some(operator @ (b'+' | b'-')) => {
                frame.left = Some((value, operator));
                Ok(Next::Operand)
            }
            Some(b',') => {
                self.put(value, shape)?;
                self.frame()?.commas += 1;
                Ok(Next::Operand)
            }
            Some(b':') if frame.bracket == b'{' && frame.is_between() => {
                if !frame.is_dict && !frame.items.is_empty() {
                    return Err(PyError::Invalid);
                }
                frame.is_dict = true;
                frame.keys.push(value);
                Ok(Next::Operand)
            }
            Some(b')' | b']' | b'}') => {
                self.at -= 1;
                self.put(value, shape)?;
                self.close().map(Next::Closed)
            }
            _ => Err(PyError::Invalid),
        }
    }

    /// Adds a finished operand to its bracket.
    fn put(&mut self, value: PyValue<'a>, shape: ExpressionKind) -> Result<(), PyError> {
        let frame = self.frame()?;
        if frame.is_dict && frame.keys.len() != frame.items.len() + 1 {
            return Err(PyError::Invalid);
        }
        let member = if frame.is_dict { frame.keys.last() } else { Some(&value) };
        let unhashable = frame.bracket == b'{' && member.is_some_and(|m| !m.is_hashable());
        frame.single = shape;
        frame.items.push(value);
        if unhashable {
            self.found_fault(PyError::Unhashable)?;
        }
        Ok(())
    }

    /// Closes the innermost bracket.
    fn close(&mut self) -> Result<Operand<'a>, PyError> {
        let closer = self.peek();
        self.at += 1;
        let frame = self.open.pop().ok_or(PyError::Invalid)?;
        let value = match (frame.bracket, closer) {
            (b'(', Some(b')')) => return Ok(close_parenthesis(frame)),
            (b'[', Some(b']')) => Ok(PyValue::List(frame.items)),
            (b'{', Some(b'}')) if frame.is_dict || frame.items.is_empty() => {
                PyValue::dict(frame.keys.into_iter().zip(frame.items).collect())
            }
            (b'{', Some(b'}')) => PyValue::set(frame.items),
            _ => return Err(PyError::Invalid),
        };
        let value = value.unwrap_or_else(|fault| {
            self.fault.get_or_insert(fault);
            PyValue::None
        });
        Ok((value, ExpressionKind::Other))
    }

    fn atom(&mut self) -> Result<Operand<'a>, PyError> {
        if let Some(value) = self.strings()? {
            return Ok((value, ExpressionKind::Other));
        }
        let rest = &self.bytes[self.at..];
        match rest {
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => {
                let literal = number::read(&self.text[self.at..])?;
                if literal.too_large {
                    self.found_fault(PyError::TooLarge)?;
                }
                self.at += literal.len;
                let value = if literal.imaginary {
                    self.only_python(PyValue::Complex(0.0, literal.value.as_f64()))?
                } else {
                    PyValue::Number(literal.value)
                };
                Ok((value, ExpressionKind::Constant))
            }
            [b'.', b'.', b'.', ..] => {
                self.at += 3;
                Ok((self.only_python(PyValue::Ellipsis)?, ExpressionKind::Other))
            }
            _ => self.word().map(|value| (value, ExpressionKind::Other)),
        }
    }

    fn word(&mut self) -> Result<PyValue<'a>, PyError> {
        let rest = &self.bytes[self.at..];
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80;
        let len = rest.iter().take_while(is_part).count();
        let word = &rest[..len];
        let is_letter = |c: char| c == '_' || c.is_alphanumeric();
        if !word.is_ascii() && !self.text[self.at..self.at + len].chars().all(is_letter) {
            // Not a name: Python finds that before it evaluates any value.
            return Err(PyError::Invalid);
        }
        self.at += len;
        match word {
            b"None" => Ok(PyValue::None),
            b"True" => Ok(PyValue::Bool(true)),
            b"False" => Ok(PyValue::Bool(false)),
            b"set" => {
                self.skip()?;
                if self.peek() != Some(b'(') {
                    return Err(PyError::Invalid);
                }
                self.at += 1;
                self.open.push(OpenBracket::new(b'('));
                self.skip()?;
                match self.close()? {
                    (PyValue::Tuple(none), _) if none.is_empty() => Ok(PyValue::Set(none)),
                    _ => Err(PyError::Invalid),
                }
            }
            [] | [b'0'..=b'9', ..] => Err(PyError::Invalid),
            _ => {
                self.found_fault(PyError::Invalid)?;
                Ok(PyValue::None)
            }
        }
    }

    /// Reads adjacent string literals as one.
    fn strings(&mut self) -> Result<Option<PyValue<'a>>, PyError> {
        let Some(first) = strings::read(self.text, self.at)? else { return Ok(None) };
        self.at = first.end;
        let mut joined = first.content;
        loop {
            self.skip()?;
            let Some(next) = strings::read(self.text, self.at)? else { break };
            self.at = next.end;
            match (&mut joined, next.content) {
                (StringContent::Str(joined), StringContent::Str(next)) => joined.append(&next),
                (StringContent::Bytes(joined), StringContent::Bytes(next)) => {
                    joined.to_mut().extend_from_slice(&next);
                }
                _ => return Err(PyError::Invalid),
            }
        }
        Ok(Some(match joined {
            StringContent::Str(text) => PyValue::Str(text),
            StringContent::Bytes(bytes) => self.only_python(PyValue::Bytes(bytes))?,
        }))
    }
}

enum Next<'a> {
    /// Another operand must follow, or a closing bracket after a comma.
    Operand,
    /// A bracket closed.
    Closed(Operand<'a>),
    /// The expression ended.
    End,
}

/// Returns a parenthesised operand, or a tuple.
fn close_parenthesis(mut frame: OpenBracket<'_>) -> Operand<'_> {
    if frame.commas == 0
        && let Some(value) = frame.items.pop()
    {
        return (value, frame.single);
    }
    (PyValue::Tuple(frame.items), ExpressionKind::Other)
}

fn negate(value: PyValue<'_>) -> Result<PyValue<'_>, PyError> {
    Ok(match value {
        PyValue::Number(Number::Float(value)) => PyValue::Number(Number::Float(-value)),
        PyValue::Number(number) => {
            let text = number.to_string();
            let negative = Number::from_decimal(&format!("-{text}")).ok_or(PyError::Invalid)?;
            PyValue::Number(negative)
        }
        PyValue::Complex(re, im) => PyValue::Complex(-re, -im),
        _ => return Err(PyError::Invalid),
    })
}
