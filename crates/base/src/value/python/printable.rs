//! Characters that Python's `repr` escapes.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, HirKind};

/// Characters beyond ASCII that `repr` prints unescaped: those assigned in Unicode 14.0, the
/// version of CPython 3.11, except separators, controls, formats, surrogates and private use.
const PATTERN: &str = r"[\p{age=14.0}--[\p{C}\p{Z}]]";

static PRINTABLE: LazyLock<Option<ClassUnicode>> =
    LazyLock::new(|| match regex_syntax::parse(PATTERN).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        _ => None,
    });

/// Returns true if `repr` prints the character unescaped.
pub(super) fn is_printable(char: char) -> bool {
    if char.is_ascii() {
        return (' '..='~').contains(&char);
    }
    let ranges = PRINTABLE.as_ref().map_or(&[][..], |class| class.ranges());
    let at = ranges.partition_point(|range| range.end() < char);
    ranges.get(at).is_some_and(|range| range.start() <= char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_is_what_python_3_11_says() {
        let printable = (char::MIN..=char::MAX).filter(|char| is_printable(*char));
        let codes: Vec<u64> = printable.map(u64::from).collect();
        assert_eq!((codes.len(), codes.iter().sum()), (144_516, 14_867_683_184_u64));
    }
}
