//! HIR rewriting for smaller automata: the same matches with fewer states.
//!
//! In: the HIR of an expression. Out: an equivalent one for valid UTF-8. An automaton encodes each
//! character class in bytes, for each repetition. A class of all but a few characters takes 20
//! states, but 8 if the bytes are known to be UTF-8. A case-insensitive `s` takes 4 states instead
//! of 1 because of `ſ`, which folded texts never have.

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Repetition,
};

/// Characters beyond ASCII that fold to an ASCII letter: absent from the normalised form.
const FOLDED: [char; 2] = ['\u{17f}', '\u{212a}'];

/// Returns an equivalent expression with fewer states for valid UTF-8, or with `is_folded` for its
/// normalised form.
pub(crate) fn slim(hir: &Hir, is_folded: bool) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Literal(_) => hir.clone(),
        HirKind::Class(Class::Unicode(class)) => of_class(class, is_folded),
        HirKind::Class(Class::Bytes(_)) => hir.clone(),
        HirKind::Capture(capture) => {
            let sub = Box::new(slim(&capture.sub, is_folded));
            Hir::capture(Capture { sub, ..capture.clone() })
        }
        HirKind::Repetition(repetition) => {
            let sub = Box::new(slim(&repetition.sub, is_folded));
            Hir::repetition(Repetition { sub, ..repetition.clone() })
        }
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.iter().map(|part| slim(part, is_folded)).collect())
        }
        HirKind::Concat(parts) => {
            Hir::concat(parts.iter().map(|part| slim(part, is_folded)).collect())
        }
    }
}

fn of_class(class: &ClassUnicode, is_folded: bool) -> Hir {
    let range = |(from, to)| ClassUnicode::new([ClassUnicodeRange::new(from, to)]);
    let beyond = range(('\u{80}', char::MAX));
    let mut others = class.clone();
    others.intersect(&beyond);
    let is_all = others == beyond;
    if is_folded {
        FOLDED.into_iter().for_each(|char| others.difference(&range((char, char))));
    }
    let mut ascii = class.clone();
    ascii.intersect(&range(('\0', '\x7f')));
    // A class within ASCII is one of bytes.
    let ascii = Hir::class(Class::Unicode(ascii));
    if is_all {
        return Hir::alternation(vec![ascii, any_beyond_ascii()]);
    }
    Hir::alternation(vec![ascii, Hir::class(Class::Unicode(others))])
}

/// Returns an expression of one character beyond ASCII, for valid UTF-8.
fn any_beyond_ascii() -> Hir {
    let bytes =
        |from, to| Hir::class(Class::Bytes(ClassBytes::new([ClassBytesRange::new(from, to)])));
    let inner = || bytes(0x80, 0xbf);
    let four = Hir::concat(vec![bytes(0xf0, 0xf4), inner()]);
    let three = Hir::alternation(vec![four, bytes(0xe0, 0xef)]);
    let two = Hir::alternation(vec![Hir::concat(vec![three, inner()]), bytes(0xc2, 0xdf)]);
    Hir::concat(vec![two, inner()])
}

#[cfg(test)]
mod tests {
    use regex_automata::meta::Regex;

    use super::*;
    use crate::normalise::shadow::Shadow;

    #[test]
    fn what_an_expression_finds_stays_the_same() {
        let texts = ["ab\u{e9}\u{4e2d}\u{1f600}z", "Sk\ns\u{2028}K", "\u{7ff}\u{800}\u{ffff}", ""];
        for pattern in ["[^\n]{2,3}", "(?i)s?k", r"[^\s]{1,2}", r"a|\PL", "[^a]", r"[\p{L}-]+"] {
            let hir =
                regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern).unwrap();
            let build = |hir: &Hir| Regex::builder().build_from_hir(hir).unwrap();
            let whole = build(&hir);
            let small = build(&slim(&hir, true));
            for text in texts {
                let found = |regex: &Regex| -> Vec<_> {
                    regex.find_iter(text).map(|found| found.range()).collect()
                };
                assert_eq!(found(&whole), found(&small), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn a_normalised_text_has_no_letter_that_folds_to_one_of_ascii() {
        for char in FOLDED {
            let shadow = Shadow::of(&format!("a{char}b {char} \u{434}{char}\u{434}")).text;
            assert!(!shadow.contains(char), "{shadow}");
        }
    }
}
