//! Top-level fields of a JSON object, found in one pass without building values.
//!
//! For long texts of which few fields matter. Only the first value of the text is read. As strict
//! as RFC 8259, with the limits of the reader in Dokimos: [`DEPTH_MAX`] levels, and numbers of
//! [`NUMBER_BYTES_MAX`] characters.

use super::lexer::JsonLexer;
use super::skip::{SkipLimits, skip_value};

/// Deepest nesting; deeper text is not JSON.
const DEPTH_MAX: usize = 1000;

/// Longest number; a text with a longer one is not JSON.
const NUMBER_BYTES_MAX: usize = 1000;

/// Limits of a field's value, one level below its object.
const VALUE_LIMITS: SkipLimits =
    SkipLimits { depth_max: DEPTH_MAX - 1, number_bytes_max: NUMBER_BYTES_MAX };

/// Calls `field` with each key and the text of its value, in order; `None` if the text does not
/// begin with a JSON object. Fields before an error have been passed to `field`.
pub fn walk<'a>(text: &'a str, mut field: impl FnMut(&str, &'a str)) -> Option<()> {
    let mut lexer = JsonLexer::new(text);
    lexer.white_space();
    expect(&mut lexer, b'{')?;
    lexer.white_space();
    if lexer.take(b'}') {
        return Some(());
    }
    loop {
        let key = lexer.string().ok()?;
        lexer.white_space();
        expect(&mut lexer, b':')?;
        field(&key, skip_value(&mut lexer, VALUE_LIMITS)?);
        lexer.white_space();
        if lexer.take(b'}') {
            return Some(());
        }
        expect(&mut lexer, b',')?;
        lexer.white_space();
    }
}

fn expect(lexer: &mut JsonLexer<'_>, byte: u8) -> Option<()> {
    lexer.take(byte).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Value;
    use crate::value::json::{self, hard_texts};

    fn fields(text: &str) -> Option<Vec<(String, String)>> {
        let mut found = Vec::new();
        walk(text, |key, value| found.push((key.to_owned(), value.to_owned())))?;
        Some(found)
    }

    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let expected: Option<Vec<_>> = expected
            .map(|all| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        assert_eq!(fields(text), expected, "{text}");
    }

    #[test]
    fn fields_at_the_top_are_found() {
        check(" { } x", Some(&[]));
        check(
            r#"{"a" : [1, {"b": 2}], "b":null}}"#,
            Some(&[("a", r#"[1, {"b": 2}]"#), ("b", "null")]),
        );
        check(r#"{"\u0065rror": 1}"#, Some(&[("error", "1")]));
        check(r#"{"a": 01}"#, None);
        check(r#"{"a": 1,}"#, None);
        check(r#"{'a': 1}"#, None);
        check("[1]", None);
        check("{\"a\": \"\u{1}\"}", None);
    }

    #[test]
    fn hard_texts_read_as_ever() {
        let read = |text: &str| {
            let mut told = Vec::new();
            let end = walk(text, |key, value| told.push((key.to_owned(), value.to_owned())));
            format!("{end:?} {told:?}")
        };
        insta::assert_snapshot!(hard_texts::table(read));
    }

    #[test]
    fn depth_and_numbers_are_limited() {
        let nested =
            |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(fields(&nested(DEPTH_MAX)).is_some());
        assert!(fields(&nested(DEPTH_MAX + 1)).is_none());
        let number = |bytes: usize| format!("{{\"a\":{}}}", "1".repeat(bytes));
        assert!(fields(&number(NUMBER_BYTES_MAX)).is_some());
        assert!(fields(&number(NUMBER_BYTES_MAX + 1)).is_none());
    }

    proptest! {
        #[test]
        fn reads_what_the_json_reader_reads(text in r#"\{[ {}\[\]"ab\\un0123.eE:,+-]{0,24}"#) {
            let object = match json::parse_prefix(&text) {
                Ok((Value::Map(map), _)) => Some(map),
                _ => None,
            };
            prop_assert_eq!(fields(&text).is_some(), object.is_some());
        }
    }
}
