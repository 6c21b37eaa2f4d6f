//! Plain YAML scalars to typed values: the core schema of YAML 1.2.2, section 10.3.2.
//!
//! Integers beyond 64 bits stay exact. `yes`, `no`, `on` and `off` are text, as YAML 1.2 has it.

use crate::settings::NodeKind;
use crate::value::{Number, Value};

/// Types a plain scalar.
pub(super) fn plain(text: &str) -> NodeKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return NodeKind::Null,
        "true" | "True" | "TRUE" => return NodeKind::Scalar(Value::Bool(true)),
        "false" | "False" | "FALSE" => return NodeKind::Scalar(Value::Bool(false)),
        _ => {}
    }
    let value = number(text).map_or_else(|| Value::from(text.to_owned()), Value::Number);
    NodeKind::Scalar(value)
}

/// A scalar that stays text.
pub(super) fn text(text: impl Into<String>) -> NodeKind {
    NodeKind::Scalar(Value::from(text.into()))
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let first = unsigned.bytes().next()?;
    if !first.is_ascii_digit() && first != b'.' {
        return None;
    }
    match text {
        ".nan" | ".NaN" | ".NAN" => return Some(Number::Float(f64::NAN)),
        _ if matches!(unsigned, ".inf" | ".Inf" | ".INF") => {
            let infinity = if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY };
            return Some(Number::Float(infinity));
        }
        _ => {}
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Number::from_decimal(text);
    }
    is_float(unsigned).then(|| text.parse().ok().map(Number::Float)).flatten()
}

fn radix(digits: &str, radix: u32) -> Option<Number> {
    let digits_only = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    digits_only.then(|| u64::from_str_radix(digits, radix).ok().map(Number::from)).flatten()
}

/// `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = digits(after);
        if whole == 0 && fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        None => rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, json: &str) {
        let kind = plain(written);
        let node = crate::settings::Node { kind, ..Default::default() };
        assert_eq!(node.to_value().to_string(), json, "{written}");
    }

    #[test]
    fn plain_scalars_have_the_types_of_the_core_schema() {
        check("", "null");
        check("~", "null");
        check("True", "true");
        check("yes", "\"yes\"");
        check("12", "12");
        check("+12", "12");
        check("-0012", "-12");
        check("0o17", "15");
        check("0xfF", "255");
        check("1.", "1.0");
        check(".5", "0.5");
        check("-1.5e3", "-1500.0");
        check("1e3", "1000.0");
        check("18446744073709551616", "18446744073709551616");
        check("-.inf", "null");
    }

    #[test]
    fn what_only_looks_like_a_number_is_text() {
        for text in ["1_000", "1.2.3", "2s", ".", "-", "1e", "0x", "0xg", "+.e1", "inf", "nan"] {
            check(text, &format!("{text:?}"));
        }
    }
}
