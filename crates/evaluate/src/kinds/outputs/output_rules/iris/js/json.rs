//! Validator of JSON texts that agrees with `JSON.parse`.
//!
//! Accepts any depth and exponent, and lone surrogates in escapes; white space is the grammar's
//! four characters. Linear in the text.

use spanscore_base::value::json::lexer::JsonLexer;
use spanscore_base::value::json::skip::{SkipLimits, skip_value};

/// Returns true if `JSON.parse` would accept the text.
pub(in crate::kinds::outputs::output_rules) fn is_json(text: &str) -> bool {
    let mut lexer = JsonLexer::new(text);
    skip_value(&mut lexer, SkipLimits::NONE).is_some() && lexer.peek_token().is_none()
}

// Included by path: a feature of `base` would build `base` and its dependents a second time for
// tests.
#[cfg(test)]
#[path = "../../../../../../../base/src/value/json/hard_texts.rs"]
mod hard_texts;

#[cfg(test)]
mod tests {
    use super::{hard_texts, is_json};

    #[test]
    fn hard_texts_read_as_ever() {
        insta::assert_snapshot!(hard_texts::table(|text| is_json(text).to_string()));
    }

    #[test]
    fn accepts_what_json_parse_accepts() {
        for text in ["1e400", "\"\\ud800\"", "{\"a\":1,\"a\":[]}", " \n\t\r{} ", "-0.5E+1", "null"]
        {
            assert!(is_json(text), "{text}");
        }
        assert!(is_json(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))));
    }

    #[test]
    fn refuses_what_json_parse_refuses() {
        for text in [
            "", "\u{a0}7", "\u{feff}[]", "[1,]", "{'a':1}", "NaN", "01", "1.", "{\"a\"}", "[",
            "\"\n\"",
        ] {
            assert!(!is_json(text), "{text:?}");
        }
    }
}
