//! Settings parsed like Pydantic's lax mode.
//!
//! Rules: docs.pydantic.dev "Conversion Table", and Pydantic 2's behaviour for the forms of text.

use spanscore_base::settings::{Node, NodeKind};
use spanscore_base::value::{Number, Value};

/// Returns an entry by its two spellings; the camel case one wins.
pub(super) fn field<'n>(node: &'n Node, snake: &str, camel: &str) -> Option<&'n Node> {
    node.get(camel).or_else(|| node.get(snake))
}

/// Parses a text, without conversion from other types.
pub(super) fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        NodeKind::Scalar(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Parses a Boolean: also the numbers 0 and 1 and the words for yes and no.
pub(super) fn boolean(node: &Node) -> Option<bool> {
    match &node.kind {
        NodeKind::Scalar(Value::Bool(value)) => Some(*value),
        NodeKind::Scalar(Value::Number(number)) => match number.as_i64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        NodeKind::Scalar(Value::String(text)) => {
            let is_one_of = |words: &[&str]| words.iter().any(|w| text.eq_ignore_ascii_case(w));
            if is_one_of(&["1", "true", "t", "yes", "y", "on"]) {
                Some(true)
            } else if is_one_of(&["0", "false", "f", "no", "n", "off"]) {
                Some(false)
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Parses an integer: also whole doubles, Booleans and texts of an integer.
pub(super) fn integer(node: &Node) -> Option<Number> {
    match &node.kind {
        NodeKind::Scalar(Value::Bool(value)) => Some(Number::Int(i64::from(*value))),
        NodeKind::Scalar(Value::Number(number @ Number::Float(_))) => {
            number.as_i64().map(Number::Int)
        }
        NodeKind::Scalar(Value::Number(number)) => Some(number.clone()),
        NodeKind::Scalar(Value::String(text)) => integer_text(text),
        _ => None,
    }
}

/// Parses an integer; white space around it, a sign, single underscores between digits, and a
/// trailing `.000` are allowed.
fn integer_text(text: &str) -> Option<Number> {
    let text = text.trim();
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => whole,
        Some(_) => return None,
        None => text,
    };
    let (sign, digits) = match whole.as_bytes().first()? {
        b'-' => ("-", &whole[1..]),
        b'+' => ("", &whole[1..]),
        _ => ("", whole),
    };
    let underscores_stand_alone =
        digits.split('_').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if !underscores_stand_alone {
        return None;
    }
    Number::from_decimal(&format!("{sign}{}", digits.replace('_', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_from_the_texts_that_pydantic_takes() {
        for (text, expected) in [
            ("2.0", Some(2)),
            (" 2\t\n", Some(2)),
            ("\u{a0}1", Some(1)),
            ("1_0", Some(10)),
            ("1_0.0", Some(10)),
            ("+1", Some(1)),
            ("-2.0", Some(-2)),
            ("007", Some(7)),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("+_1", None),
            ("+-1", None),
            ("- 1", None),
            ("1.", None),
            (".0", None),
            ("1.5", None),
            ("1.0_0", None),
            ("0x1", None),
            ("1e0", None),
            ("٣", None),
            ("", None),
            (" ", None),
        ] {
            assert_eq!(integer_text(text), expected.map(Number::Int), "{text:?}");
        }
    }

    #[test]
    fn truth_is_read_from_the_words_and_numbers_that_pydantic_takes() {
        let read = |value: Value<'_>| boolean(&Node::from_value(&value));
        for (value, expected) in [
            (Value::from("YES"), Some(true)),
            ("off".into(), Some(false)),
            ("maybe".into(), None),
            (" 1".into(), None),
            ("1.0".into(), None),
            (Value::from(1.0), Some(true)),
            (Value::from(0), Some(false)),
            (Value::from(2), None),
            (Value::from(0.5), None),
            (Value::Null, None),
        ] {
            assert_eq!(read(value.clone()), expected, "{value}");
        }
    }
}
