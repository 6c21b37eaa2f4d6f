//! JavaScript's text functions, reproduced exactly for `compat: iris`.
//!
//! Lengths, words and printed numbers follow ECMAScript: UTF-16 lengths, its white space, ASCII
//! word characters, ties away from zero. [`regex`] has the regular expressions, [`safe`] the
//! source's safety check. The default behaviour uses none of it.

pub(in crate::kinds::outputs::output_rules) mod json;
pub(in crate::kinds::outputs::output_rules) mod safe;

/// Returns the length in UTF-16 code units.
pub(in crate::kinds::outputs::output_rules) fn length(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(char::len_utf16).sum()
}

/// Returns true for white space and line terminators of ECMAScript: U+FEFF is one, U+0085 and
/// U+200B are not.
pub(in crate::kinds::outputs::output_rules) fn is_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// Returns true if the text has only white space.
pub(in crate::kinds::outputs::output_rules) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Formats like `Number.prototype.toFixed`: exact decimal value, ties away from zero, exponent form
/// from 1e21.
pub(in crate::kinds::outputs::output_rules) fn to_fixed(value: f64, digits: usize) -> String {
    if !value.is_finite() || value.abs() >= 1e21 {
        return number(value);
    }
    // Sixty more digits represent a tie of doubles exactly.
    let exact = format!("{:.*}", digits + 60, value.abs());
    let cut = exact.len() - 60;
    let (kept, rest) = exact.split_at(cut);
    let mut kept: Vec<u8> = kept.bytes().collect();
    if rest.as_bytes().first().is_some_and(|&digit| digit >= b'5') {
        round_up(&mut kept);
    }
    let mut text: String = kept.into_iter().map(char::from).collect();
    if text.ends_with('.') {
        text.pop();
    }
    if value < 0.0 {
        text.insert(0, '-');
    }
    text
}

fn round_up(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        match *digit {
            b'.' => {}
            b'9' => *digit = b'0',
            _ => {
                *digit += 1;
                return;
            }
        }
    }
    digits.insert(0, b'1');
}

/// Formats a number like a template literal: the shortest form that parses to the same value, with
/// an exponent below 1e-6 and from 1e21.
pub(in crate::kinds::outputs::output_rules) fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&value.abs()) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

/// Rounds as `Math.round(x * 1000) / 1000`: half up.
pub(in crate::kinds::outputs::output_rules) fn round3(value: f64) -> f64 {
    let scaled = value * 1000.0;
    let floor = scaled.floor();
    // `(x + 0.5).floor()` would round up the double just below a half.
    (if scaled - floor >= 0.5 { floor + 1.0 } else { floor }) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_digits_round_ties_away_from_zero() {
        assert_eq!(to_fixed(12.5, 0), "13");
        assert_eq!(to_fixed(0.03125, 4), "0.0313");
        assert_eq!(to_fixed(1.005, 2), "1.00");
        assert_eq!(to_fixed(99.96, 1), "100.0");
        assert_eq!(to_fixed(1e21, 4), "1e+21");
        assert_eq!(to_fixed(-0.00001, 2), "-0.00");
    }

    #[test]
    fn three_decimals_round_half_up() {
        assert_eq!(round3(0.0005), 0.001);
        assert_eq!(round3(0.000_499_999_999_999_999_9), 0.0);
        assert_eq!(round3(-0.0005), 0.0);
        assert_eq!(round3(-0.0015), -0.001);
    }

    #[test]
    fn numbers_print_as_javascript_prints_them() {
        assert_eq!(number(1e-7), "1e-7");
        assert_eq!(number(1e21), "1e+21");
        assert_eq!(number(0.000001), "0.000001");
        assert_eq!(number(5.0), "5");
        assert_eq!(number(123_456_789_012_345_680_000.0), "123456789012345680000");
    }

    #[test]
    fn lengths_and_space_are_those_of_utf16() {
        assert_eq!(length("a🙂"), 3);
        assert!(is_blank("\u{feff}\u{3000}"));
        assert!(!is_blank("\u{200b}"));
        assert!(!is_blank("\u{85}"));
    }
}
