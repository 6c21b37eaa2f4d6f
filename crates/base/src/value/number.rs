//! Exact numbers of any size.

use std::cmp::Ordering;
use std::fmt;

/// Number as written: an integer of any size, or a binary fraction.
///
/// Equality is by exact value: `1` equals `1.0`, 2^53+1 differs from its nearest double, and a NaN
/// equals nothing.
#[derive(Clone, Debug)]
pub enum Number {
    /// An integer of 64 bits.
    Int(i64),
    /// An integer beyond 64 bits: decimal digits without leading zeros, `-` in front if negative.
    Big(Box<str>),
    /// A number written with a fraction or an exponent.
    Float(f64),
}

impl Number {
    /// Reads the decimal form of an integer: an optional `-`, then digits.
    pub fn from_decimal(text: &str) -> Option<Self> {
        if let Ok(value) = text.parse::<i64>() {
            return Some(Self::Int(value));
        }
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = digits.trim_start_matches('0');
        let text = format!("{sign}{}", if digits.is_empty() { "0" } else { digits });
        Some(match text.parse::<i64>() {
            Ok(value) => Self::Int(value),
            Err(_) => Self::Big(text.into()),
        })
    }

    /// Returns true if it was written as an integer.
    pub fn is_integer(&self) -> bool {
        !matches!(self, Self::Float(_))
    }

    /// Returns the nearest double.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Big(text) => text.parse().unwrap_or(f64::NAN),
            Self::Float(value) => *value,
        }
    }

    /// Returns the integer, if it fits 64 bits (a zero fraction is allowed).
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Big(_) => None,
            Self::Float(value) => {
                let whole = *value as i64;
                (whole as f64 == *value
                    && compare_int_float(whole, *value) == Some(Ordering::Equal))
                .then_some(whole)
            }
        }
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or_else(|_| Self::Big(value.to_string().into()), Self::Int)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(*a, *b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(*b, *a).map(Ordering::reverse),
            (Self::Big(a), Self::Big(b)) => Some(compare_decimal(a, b)),
            (Self::Big(a), Self::Int(_)) => Some(sign_of(a)),
            (Self::Int(_), Self::Big(b)) => Some(sign_of(b).reverse()),
            (Self::Big(a), Self::Float(b)) => compare_big_float(a, *b),
            (Self::Float(a), Self::Big(b)) => compare_big_float(b, *a).map(Ordering::reverse),
        }
    }
}

/// Returns the order of a number beyond 64 bits relative to any `i64`.
fn sign_of(big: &str) -> Ordering {
    if big.starts_with('-') { Ordering::Less } else { Ordering::Greater }
}

fn compare_int_float(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // ±2^63 are exact doubles, and every floored double between converts to `i64` without loss.
    if b >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = b.floor();
    Some(match a.cmp(&(whole as i64)) {
        Ordering::Equal if b > whole => Ordering::Less,
        order => order,
    })
}

fn compare_big_float(a: &str, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b.is_infinite() {
        return Some(if b > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    // `{:.0}` prints every digit of an integral double; all doubles of this size are integral.
    Some(compare_decimal(a, &format!("{b:.0}")))
}

fn compare_decimal(a: &str, b: &str) -> Ordering {
    match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (None, None) => (a.len(), a).cmp(&(b.len(), b)),
        (Some(a), Some(b)) => (b.len(), b).cmp(&(a.len(), a)),
    }
}

/// Writes the JSON form. A double has the fewest digits that read back as the same double, always
/// with a fraction or an exponent. Infinities and NaN print as `null`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Big(text) => f.write_str(text),
            Self::Float(value) if !value.is_finite() => f.write_str("null"),
            Self::Float(value) => {
                let size = value.abs();
                if size != 0.0 && !(1e-5..1e16).contains(&size) {
                    write!(f, "{value:e}")
                } else {
                    write!(f, "{value:?}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_exact_value() {
        let check = |a: Number, b: Number, equal: bool| {
            assert_eq!(a == b, equal, "{a} and {b}");
            assert_eq!(b == a, equal, "{b} and {a}");
        };
        let big = |text: &str| Number::from_decimal(text).unwrap_or(Number::Int(0));
        check(Number::Int(1), Number::Float(1.0), true);
        check(Number::Int(0), Number::Float(-0.0), true);
        check(Number::Int(9_007_199_254_740_993), Number::Float(9_007_199_254_740_992.0), false);
        check(Number::Int(i64::MAX), Number::Float(9_223_372_036_854_775_807.0), false);
        check(Number::from(u64::MAX), Number::Float(u64::MAX as f64), false);
        check(big("18446744073709551616"), Number::Float(18_446_744_073_709_551_616.0), true);
        check(big("-18446744073709551616"), Number::Float(-18_446_744_073_709_551_616.0), true);
        check(big("00018446744073709551616"), big("18446744073709551616"), true);
        check(big("100000000000000000000000"), big("100000000000000000000001"), false);
        check(Number::Float(f64::NAN), Number::Float(f64::NAN), false);
        check(Number::Float(0.1), Number::Int(0), false);
    }

    #[test]
    fn doubles_print_so_that_they_read_back() {
        for (value, text) in
            [(1.0, "1.0"), (1e16, "1e16"), (0.1, "0.1"), (1e-7, "1e-7"), (-2.5, "-2.5")]
        {
            assert_eq!(Number::Float(value).to_string(), text);
        }
    }
}
