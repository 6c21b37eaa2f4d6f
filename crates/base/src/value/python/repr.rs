//! Python's `repr` and `str`.

use std::fmt::{self, Write};

use super::printable::is_printable;
use super::{PyStr, PyValue};
use crate::value::Number;

impl PyValue<'_> {
    /// Returns Python's `repr`.
    pub fn repr(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write_repr(&mut out);
        out
    }

    /// Returns Python's `str`: a text unchanged, anything else as its `repr`. Lone surrogates of a
    /// text become U+FFFD.
    pub fn to_text(&self) -> String {
        match self {
            Self::Str(text) => text.clone().into_text().into_owned(),
            other => other.repr(),
        }
    }

    /// Writes Python's `repr`.
    pub fn write_repr(&self, out: &mut impl Write) -> fmt::Result {
        match self {
            Self::None => out.write_str("None"),
            Self::Bool(true) => out.write_str("True"),
            Self::Bool(false) => out.write_str("False"),
            Self::Ellipsis => out.write_str("Ellipsis"),
            Self::Number(Number::Float(value)) => write_float(*value, true, out),
            Self::Number(number) => write!(out, "{number}"),
            Self::Complex(re, im) => write_complex(*re, *im, out),
            Self::Str(text) => write_text(text, out),
            Self::Bytes(bytes) => write_bytes(bytes, out),
            Self::List(items) => write_items("[", items, "]", out),
            Self::Tuple(items) if items.len() == 1 => write_items("(", items, ",)", out),
            Self::Tuple(items) => write_items("(", items, ")", out),
            Self::Set(items) if items.is_empty() => out.write_str("set()"),
            Self::Set(items) => write_items("{", items, "}", out),
            Self::Dict(entries) => {
                out.write_char('{')?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.write_str(", ")?;
                    }
                    key.write_repr(out)?;
                    out.write_str(": ")?;
                    value.write_repr(out)?;
                }
                out.write_char('}')
            }
        }
    }
}

fn write_items(
    open: &str,
    items: &[PyValue<'_>],
    close: &str,
    out: &mut impl Write,
) -> fmt::Result {
    out.write_str(open)?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        item.write_repr(out)?;
    }
    out.write_str(close)
}

/// Writes the shortest digits, with an exponent below 1e-4 and from 1e16 on. `point` adds `.0`
/// where the text would read as an integer.
fn write_float(value: f64, point: bool, out: &mut impl Write) -> fmt::Result {
    if value.is_nan() {
        return out.write_str("nan");
    }
    if value.is_infinite() {
        return out.write_str(if value > 0.0 { "inf" } else { "-inf" });
    }
    let size = value.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        return if point { write!(out, "{value:?}") } else { write!(out, "{value}") };
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    write!(out, "{digits}e{sign}{exponent:0>2}")
}

fn write_complex(re: f64, im: f64, out: &mut impl Write) -> fmt::Result {
    if re == 0.0 && re.is_sign_positive() {
        write_float(im, false, out)?;
        return out.write_char('j');
    }
    out.write_char('(')?;
    write_float(re, false, out)?;
    if im.is_nan() || im.is_sign_positive() {
        out.write_char('+')?;
    }
    write_float(im, false, out)?;
    out.write_str("j)")
}

fn quote_for(bytes: &[u8]) -> char {
    if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' }
}

/// Returns the escape shared by texts and bytes; `None` for other characters.
fn short_escape(code: u32, quote: char) -> Option<&'static str> {
    match code {
        0x5c => Some("\\\\"),
        0x0a => Some("\\n"),
        0x0d => Some("\\r"),
        0x09 => Some("\\t"),
        0x27 if quote == '\'' => Some("\\'"),
        _ => None,
    }
}

fn write_text(text: &PyStr<'_>, out: &mut impl Write) -> fmt::Result {
    let quote = quote_for(text.as_bytes());
    out.write_char(quote)?;
    for code in text.code_points() {
        if let Some(escape) = short_escape(code, quote) {
            out.write_str(escape)?;
        } else if let Some(character) = char::from_u32(code).filter(|char| is_printable(*char)) {
            out.write_char(character)?;
        } else if code < 0x100 {
            write!(out, "\\x{code:02x}")?;
        } else if code < 0x10000 {
            write!(out, "\\u{code:04x}")?;
        } else {
            write!(out, "\\U{code:08x}")?;
        }
    }
    out.write_char(quote)
}

fn write_bytes(bytes: &[u8], out: &mut impl Write) -> fmt::Result {
    let quote = quote_for(bytes);
    write!(out, "b{quote}")?;
    for byte in bytes {
        if let Some(escape) = short_escape(u32::from(*byte), quote) {
            out.write_str(escape)?;
        } else if (0x20..0x7f).contains(byte) {
            out.write_char(*byte as char)?;
        } else {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    out.write_char(quote)
}
