//! Long-token expressions: those whose matches are parts of long tokens.
//!
//! Keys of many vendors have no literal of three bytes, but all are long and without white space.
//! So their expressions run only in the few long tokens of a text.

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::bytes::TOKEN_BYTES_MIN;

/// Returns true if each match is [long enough](TOKEN_BYTES_MIN) and only visible ASCII.
pub(super) fn is_in_token(hir: &Hir) -> bool {
    hir.properties().minimum_len().is_some_and(|least| least >= TOKEN_BYTES_MIN) && is_visible(hir)
}

fn is_visible(hir: &Hir) -> bool {
    let is_in = |first: u32, last: u32| first > u32::from(b' ') && last <= u32::from(b'~');
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => literal.0.iter().all(u8::is_ascii_graphic),
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().all(|range| is_in(range.start().into(), range.end().into()))
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().all(|range| is_in(range.start().into(), range.end().into()))
        }
        HirKind::Capture(capture) => is_visible(&capture.sub),
        HirKind::Repetition(repetition) => is_visible(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(is_visible),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::compile::TextForm;
    use crate::pack::expression::parsed;

    #[test]
    fn expressions_of_long_tokens_are_told_from_others() {
        let check = |pattern: &str| is_in_token(&parsed(pattern, TextForm::Normalised).unwrap());
        assert!(check(r"\b(?:a|b)_[A-Za-z0-9]{18}\b") && check(r"\d/([0-9]{19}|x{18})$"));
        assert!(!check(r"\ba_[A-Za-z0-9]{17}\b"), "shorter than what counts as long");
        assert!(!check("key [a-z]{20}") && !check(r"[^,]{20}") && !check("é[a-z]{20}"));
    }
}
