//! YAML scalars as typed values, by the core schema of YAML 1.2.2, section 10.3.2.
//!
//! Integers beyond 64 bits stay exact. `yes`, `no`, `on` and `off` are text in YAML 1.2. A tag sets
//! the type, and a text that does not fit it is an error.

use super::super::{NodeKind, SettingsError};
use crate::value::{Number, Value};
use strum::{EnumString, IntoStaticStr};

/// Source of a scalar's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScalarForm {
    /// Its text, written without quotes.
    Plain,
    /// Its quotes: always text.
    Quoted,
    /// A tag, with or without quotes.
    Tagged(ScalarTag),
}

/// A tag of the core schema for scalars.
#[derive(Clone, Copy, PartialEq, Eq, Debug, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ScalarTag {
    /// `!!str`
    Str,
    /// `!!null`
    Null,
    /// `!!bool`
    Bool,
    /// `!!int`
    Int,
    /// `!!float`
    Float,
}

impl ScalarTag {
    /// Returns its name, without `!!`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Types a scalar. The error omits the text, which may be a secret.
pub fn typed(text: &str, form: ScalarForm) -> Result<NodeKind, SettingsError> {
    let tag = match form {
        ScalarForm::Plain => return plain(text),
        ScalarForm::Quoted | ScalarForm::Tagged(ScalarTag::Str) => {
            return Ok(NodeKind::Scalar(Value::from(text.to_owned())));
        }
        ScalarForm::Tagged(tag) => tag,
    };
    let found = plain(text)?;
    Ok(match (tag, found) {
        (ScalarTag::Null, NodeKind::Null) => NodeKind::Null,
        (ScalarTag::Bool, found @ NodeKind::Scalar(Value::Bool(_))) => found,
        (ScalarTag::Int, NodeKind::Scalar(Value::Number(number))) if number.is_integer() => {
            NodeKind::Scalar(Value::Number(number))
        }
        (ScalarTag::Float, NodeKind::Scalar(Value::Number(number))) => {
            NodeKind::Scalar(Value::Number(Number::Float(number.as_f64())))
        }
        _ => {
            let name = tag.name();
            return Err(SettingsError::new(format!("not a value of its tag `!!{name}`"))
                .with_help("where text is meant, leave out the tag, or write !!str"));
        }
    })
}

/// Types a scalar without quotes.
pub fn plain(text: &str) -> Result<NodeKind, SettingsError> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Scalar(Value::Bool(true)),
        "false" | "False" | "FALSE" => NodeKind::Scalar(Value::Bool(false)),
        _ => {
            let number = number(text)?;
            NodeKind::Scalar(number.map_or_else(|| Value::from(text.to_owned()), Value::Number))
        }
    })
}

fn number(text: &str) -> Result<Option<Number>, SettingsError> {
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    Ok(decimal(text))
}

fn decimal(text: &str) -> Option<Number> {
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
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Number::from_decimal(text);
    }
    is_float(unsigned).then(|| text.parse().ok().map(Number::Float)).flatten()
}

/// Reads a hexadecimal or octal number; `None` if there are other characters.
fn radix(digits: &str, radix: u32) -> Result<Option<Number>, SettingsError> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Ok(None);
    }
    match u128::from_str_radix(digits, radix) {
        Ok(value) => Ok(Number::from_decimal(&value.to_string())),
        Err(_) => Err(SettingsError::new("an integer of more than 128 bits")
            .with_help("write it in decimal digits, or quote it where text is meant")),
    }
}

/// Returns true if the text matches `( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?`.
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
        let kind = plain(written).expect(written);
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
        check("0xffffffffffffffff1", "295147905179352825841");
        check("1.", "1.0");
        check(".5", "0.5");
        check("-1.5e3", "-1500.0");
        check("1e3", "1000.0");
        check("18446744073709551616", "18446744073709551616");
        check("-.inf", "null");
    }

    #[test]
    fn an_integer_that_cannot_be_read_is_never_text() {
        let digits = "f".repeat(33);
        let error = plain(&format!("0x{digits}")).expect_err("more than 128 bits");
        assert!(error.message.contains("128 bits"), "{error}");
    }

    #[test]
    fn a_tag_says_what_the_text_must_be() {
        let read = |name: &str, text: &str| {
            let tag: ScalarTag = name.parse().expect(name);
            typed(text, ScalarForm::Tagged(tag)).map(|kind| {
                crate::settings::Node { kind, ..Default::default() }.to_value().to_string()
            })
        };
        for (tag, text, json) in [
            ("str", "1", "\"1\""),
            ("str", "", "\"\""),
            ("null", "~", "null"),
            ("null", "", "null"),
            ("bool", "True", "true"),
            ("int", "-0012", "-12"),
            ("int", "0x1F", "31"),
            ("float", "1", "1.0"),
            ("float", "1e3", "1000.0"),
        ] {
            assert_eq!(read(tag, text).as_deref(), Ok(json), "!!{tag} {text}");
        }
        for (tag, text) in [
            ("null", "nothing"),
            ("bool", "yes"),
            ("bool", "1"),
            ("int", "abc"),
            ("int", "1.0"),
            ("int", ""),
            ("float", "one"),
            ("float", "true"),
        ] {
            let error = read(tag, text).expect_err(text);
            assert_eq!(error.message, format!("not a value of its tag `!!{tag}`"), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_number_is_text() {
        for text in ["1_000", "1.2.3", "2s", ".", "-", "1e", "0x", "0xg", "+.e1", "inf", "nan"] {
            check(text, &format!("{text:?}"));
        }
    }
}
