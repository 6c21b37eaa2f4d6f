//! Python's number literals.

use num_bigint::BigUint;

use super::PyError;
use crate::value::Number;

/// Largest number of decimal digits that Python converts from or to text.
pub(super) const DIGITS_MAX: usize = 4300;

/// A number literal.
pub(super) struct NumberLiteral {
    /// Its value; 0 if too large.
    pub(super) value: Number,
    /// True if a `j` follows.
    pub(super) imaginary: bool,
    /// True for an integer that Python reads but cannot print.
    pub(super) too_large: bool,
    /// Length in bytes.
    pub(super) len: usize,
}

/// Reads the number at the start of a text, which starts with a digit or with `.` and a digit.
pub(super) fn read(text: &str) -> Result<NumberLiteral, PyError> {
    let bytes = text.as_bytes();
    if let [b'0', kind, ..] = bytes
        && let Some(bits) = radix_bits(*kind)
    {
        return read_radix(bytes, bits);
    }
    let mut at = digits(bytes, 0)?;
    let whole_end = at;
    if bytes.get(at) == Some(&b'.') {
        at = digits(bytes, at + 1)?;
        if at == 1 {
            return Err(PyError::Invalid);
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(bytes, at + 1 + sign)?;
        if end == at + 1 + sign {
            return Err(PyError::Invalid);
        }
        at = end;
    }
    let plain: String = text[..at].chars().filter(|c| *c != '_').collect();
    let imaginary = matches!(bytes.get(at), Some(b'j' | b'J'));
    let len = at + usize::from(imaginary);
    ends(bytes, len)?;
    if imaginary || at > whole_end {
        let value = plain.parse().map_err(|_| PyError::Invalid)?;
        return Ok(NumberLiteral { value: Number::Float(value), imaginary, too_large: false, len });
    }
    let significant = plain.trim_start_matches('0');
    let leading_zero = significant.len() != plain.len() && !significant.is_empty();
    if leading_zero || significant.len() > DIGITS_MAX {
        return Err(PyError::Invalid);
    }
    let value = Number::from_decimal(&plain).ok_or(PyError::Invalid)?;
    Ok(NumberLiteral { value, imaginary, too_large: false, len })
}

/// Returns the bits per digit of the radix letter after `0`.
fn radix_bits(letter: u8) -> Option<u32> {
    match letter {
        b'x' | b'X' => Some(4),
        b'o' | b'O' => Some(3),
        b'b' | b'B' => Some(1),
        _ => None,
    }
}

/// Skips digits with single underscores between them.
fn digits(bytes: &[u8], mut at: usize) -> Result<usize, PyError> {
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
        if bytes.get(at) == Some(&b'_') {
            at += 1;
            if !bytes.get(at).is_some_and(u8::is_ascii_digit) {
                return Err(PyError::Invalid);
            }
        }
    }
    Ok(at)
}

/// Fails if a letter, digit or underscore follows a number.
fn ends(bytes: &[u8], at: usize) -> Result<(), PyError> {
    match bytes.get(at) {
        Some(b) if b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80 => Err(PyError::Invalid),
        _ => Ok(()),
    }
}

fn read_radix(bytes: &[u8], bits: u32) -> Result<NumberLiteral, PyError> {
    let mut at = 2;
    let mut values = Vec::new();
    loop {
        at += usize::from(bytes.get(at) == Some(&b'_'));
        let Some(digit) = bytes.get(at).and_then(|b| (*b as char).to_digit(1 << bits)) else {
            return Err(PyError::Invalid);
        };
        values.push(digit as u8);
        at += 1;
        let more = bytes.get(at).is_some_and(|b| *b == b'_' || b.is_ascii_alphanumeric());
        if !more {
            break;
        }
    }
    ends(bytes, at)?;
    let value = from_digits(&values, bits);
    let too_large = value.is_none();
    let value = value.unwrap_or(Number::Int(0));
    Ok(NumberLiteral { value, imaginary: false, too_large, len: at })
}

/// Converts binary digits to a number; `None` past [`DIGITS_MAX`] decimal digits.
fn from_digits(digits: &[u8], bits: u32) -> Option<Number> {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = &digits[zeros..];
    // A decimal digit has less than four bits: a literal of megabytes ends here.
    if digits.len() * bits as usize > DIGITS_MAX * 4 {
        return None;
    }
    let text = BigUint::from_radix_be(digits, 1 << bits)?.to_string();
    if text.len() > DIGITS_MAX { None } else { Number::from_decimal(&text) }
}
