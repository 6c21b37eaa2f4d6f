//! Python's string and bytes literals.

use std::borrow::Cow;

use super::text::push_code_point;
use super::{PyError, PyStr};

/// String literal and the byte after it.
pub(super) struct StringLiteral<'a> {
    pub(super) content: StringContent<'a>,
    pub(super) end: usize,
}

/// Content of a string literal.
pub(super) enum StringContent<'a> {
    Str(PyStr<'a>),
    Bytes(Cow<'a, [u8]>),
}

struct StringSyntax {
    raw: bool,
    bytes: bool,
    quote: u8,
    triple: bool,
}

/// Reads the string literal at `at`: optional prefix, then a quote. `None` without one.
pub(super) fn read(text: &str, at: usize) -> Result<Option<StringLiteral<'_>>, PyError> {
    let bytes = text.as_bytes();
    let prefix = bytes[at..].iter().take(3).take_while(|b| b.is_ascii_alphabetic()).count();
    let quote_at = at + prefix;
    let Some(quote @ (b'\'' | b'"')) = bytes.get(quote_at).copied() else { return Ok(None) };
    let (raw, is_bytes) = match bytes[at..quote_at].to_ascii_lowercase().as_slice() {
        b"" | b"u" => (false, false),
        b"r" => (true, false),
        b"b" => (false, true),
        b"br" | b"rb" => (true, true),
        _ => return Err(PyError::Invalid),
    };
    let triple = bytes[quote_at..].starts_with(&[quote; 3]);
    let start = quote_at + if triple { 3 } else { 1 };
    let form = StringSyntax { raw, bytes: is_bytes, quote, triple };
    let (stop, plain) = find_end(bytes, start, &form)?;
    let end = stop + if triple { 3 } else { 1 };
    let body = &text[start..stop];
    if is_bytes && !body.is_ascii() {
        return Err(PyError::Invalid);
    }
    let content = match (plain, is_bytes) {
        (true, false) => StringContent::Str(PyStr::from(body)),
        (true, true) => StringContent::Bytes(Cow::Borrowed(body.as_bytes())),
        (false, false) => StringContent::Str(PyStr::from_encoded(decode(body, &form)?)),
        (false, true) => StringContent::Bytes(Cow::Owned(decode(body, &form)?)),
    };
    Ok(Some(StringLiteral { content, end }))
}

/// Returns the place of the closing quote, and true if the body has no escapes.
fn find_end(bytes: &[u8], start: usize, form: &StringSyntax) -> Result<(usize, bool), PyError> {
    let mut at = start;
    let mut plain = true;
    loop {
        match bytes.get(at) {
            None => return Err(PyError::Invalid),
            Some(b'\\') => {
                plain &= form.raw;
                // A line end after a backslash is one character in any encoding.
                let line_end = bytes[at + 1..].starts_with(b"\r\n");
                plain &= !matches!(bytes.get(at + 1), Some(b'\r'));
                at += if line_end { 3 } else { 2 };
            }
            Some(b'\n' | b'\r') if !form.triple => return Err(PyError::Invalid),
            Some(b'\r') => {
                plain = false;
                at += 1;
            }
            Some(b) if *b == form.quote => {
                if !form.triple || bytes[at..].starts_with(&[form.quote; 3]) {
                    return Ok((at, plain));
                }
                at += 1;
            }
            Some(_) => at += 1,
        }
    }
}

/// Resolves escapes and line ends.
fn decode(body: &str, form: &StringSyntax) -> Result<Vec<u8>, PyError> {
    let bytes = body.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        at += 1;
        match byte {
            b'\r' => {
                at += usize::from(bytes.get(at) == Some(&b'\n'));
                out.push(b'\n');
            }
            b'\\' if !form.raw => at = escape(body, at, form, &mut out)?,
            _ => out.push(byte),
        }
    }
    Ok(out)
}

/// Resolves the escape after the backslash before `at`; returns the place after it.
fn escape(body: &str, at: usize, form: &StringSyntax, out: &mut Vec<u8>) -> Result<usize, PyError> {
    let bytes = body.as_bytes();
    let Some(kind) = bytes.get(at).copied() else { return Err(PyError::Invalid) };
    let single = match kind {
        b'\n' => return Ok(at + 1),
        b'\r' => return Ok(at + 1 + usize::from(bytes.get(at + 1) == Some(&b'\n'))),
        b'\\' | b'\'' | b'"' => kind,
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'0'..=b'7' => return Ok(octal(bytes, at, form, out)),
        b'x' => return hex(bytes, at + 1, 2, form, out),
        b'u' if !form.bytes => return hex(bytes, at + 1, 4, form, out),
        b'U' if !form.bytes => return hex(bytes, at + 1, 8, form, out),
        // Character names need the Unicode name table, too large for this use.
        b'N' if !form.bytes => return Err(PyError::Invalid),
        _ => {
            // An unknown escape stays as written.
            out.push(b'\\');
            return Ok(at);
        }
    };
    out.push(single);
    Ok(at + 1)
}

fn octal(bytes: &[u8], at: usize, form: &StringSyntax, out: &mut Vec<u8>) -> usize {
    let digits = bytes[at..].iter().take(3).take_while(|b| (b'0'..=b'7').contains(b));
    let (len, code) =
        digits.fold((0, 0), |(len, code), b| (len + 1, code * 8 + u32::from(b - b'0')));
    push(code, form, out);
    at + len
}

fn hex(
    bytes: &[u8],
    at: usize,
    len: usize,
    form: &StringSyntax,
    out: &mut Vec<u8>,
) -> Result<usize, PyError> {
    let digits = bytes.get(at..at + len).ok_or(PyError::Invalid)?;
    let mut code = 0u32;
    for byte in digits {
        let digit = (*byte as char).to_digit(16).ok_or(PyError::Invalid)?;
        code = code << 4 | digit;
    }
    if code > 0x10_ffff {
        return Err(PyError::Invalid);
    }
    push(code, form, out);
    Ok(at + len)
}

fn push(code: u32, form: &StringSyntax, out: &mut Vec<u8>) {
    if form.bytes {
        out.push(code as u8);
    } else {
        push_code_point(code, out);
    }
}
