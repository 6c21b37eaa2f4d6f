//! JSON writer.

use std::fmt;

use crate::value::Value;

/// Writes compact JSON.
pub fn write(value: &Value<'_>, out: &mut impl fmt::Write) -> fmt::Result {
    write_with(value, out, write_string)
}

/// Writes compact JSON, its strings by a function of one's own.
pub fn write_with<W: fmt::Write>(
    value: &Value<'_>,
    out: &mut W,
    string: impl Fn(&str, &mut W) -> fmt::Result + Copy,
) -> fmt::Result {
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(true) => out.write_str("true"),
        Value::Bool(false) => out.write_str("false"),
        Value::Number(number) => write!(out, "{number}"),
        Value::String(text) => string(text, out),
        Value::List(list) => {
            out.write_char('[')?;
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                write_with(item, out, string)?;
            }
            out.write_char(']')
        }
        Value::Map(map) => {
            out.write_char('{')?;
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                string(key, out)?;
                out.write_char(':')?;
                write_with(item, out, string)?;
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
