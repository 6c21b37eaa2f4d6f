//! Prefilter: search for a word in the bytes of a text in any escaped form, before parsing.

use memchr::{memchr_iter, memmem};

/// Returns true if a text, or a value serialised in it again, may contain a word of ASCII letters,
/// digits, `_` and `-`.
pub(crate) fn may_hold(text: &[u8], word: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !word.bytes().all(is_plain)
        || memmem::find(text, word.as_bytes()).is_some()
        || escapes_letters(text)
}

/// Returns true if a JSON or Python escape may mean an ASCII letter, digit or such a sign: most
/// escapes mean quotes, line ends or non-ASCII characters.
fn escapes_letters(text: &[u8]) -> bool {
    memchr_iter(b'\\', text).any(|at| match text.get(at + 1..).unwrap_or_default() {
        [b'u', code @ ..] => code.starts_with(b"00") && code.get(2).is_none_or(|it| *it < b'8'),
        [b'x', code @ ..] => code.first().is_none_or(|it| *it < b'8'),
        [b'N' | b'U' | b'0'..=b'7', ..] => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_be_held_wherever_it_or_an_escape_for_its_letters_stands() {
        for text in [
            r#"{"is_error": true}"#,
            r#"{"is_\u0065rror": true}"#,
            r#""{\"is_\\u0065rror\": true}""#,
            r"is_\x65rror=True",
            r"is_\145rror",
            r"\N{LATIN SMALL LETTER E}",
            r"cut \u00",
        ] {
            assert!(may_hold(text.as_bytes(), "error"), "{text}");
        }
        for text in [r#"{"note": "f\u00fcr\n\"dich\" \xfc"}"#, "", "Error", r"cut \"] {
            assert!(!may_hold(text.as_bytes(), "error"), "{text}");
        }
        assert!(may_hold(b"", "a b"));
    }
}
