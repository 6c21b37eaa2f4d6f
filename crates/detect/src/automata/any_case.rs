//! Case-insensitive copies of expressions for anchored tests, without counted repetitions.

use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition,
};

/// Largest difference between the bounds of a repetition that stays counted; wider ones repeat
/// without end. A DFA that counts has a state for each set of counts that it may have come to:
/// behind words that occur again and again it makes a new one with nearly every byte.
const COUNTED_TIMES_MAX: u32 = 1;

/// Returns the same expression for ASCII letters in any case (others are in lower case), with wide
/// repetitions unbounded: it accepts all that the expression does, and more.
pub(super) fn in_any_case(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
        HirKind::Literal(literal) => {
            Hir::concat(literal.0.iter().map(|&byte| either(byte)).collect())
        }
        HirKind::Class(class) => {
            let mut class = class.clone();
            match &mut class {
                // Without the tables of case nothing is known, and the class stays as it is.
                Class::Unicode(class) if is_wide(class) => {
                    let mut ascii = ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')]);
                    ascii.intersect(class);
                    ascii.try_case_fold_simple().unwrap_or_default();
                    class.union(&ascii);
                }
                Class::Unicode(class) => class.try_case_fold_simple().unwrap_or_default(),
                Class::Bytes(class) => class.case_fold_simple(),
            }
            Hir::class(class)
        }
        HirKind::Capture(capture) => in_any_case(&capture.sub),
        HirKind::Repetition(repetition) => {
            let is_counted =
                repetition.max.is_none_or(|max| max - repetition.min <= COUNTED_TIMES_MAX);
            let max = repetition.max.filter(|_| is_counted);
            let sub = Box::new(in_any_case(&repetition.sub));
            Hir::repetition(Repetition { sub, max, ..repetition.clone() })
        }
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(in_any_case).collect()),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(in_any_case).collect()),
    }
}

fn either(byte: u8) -> Hir {
    let lower = byte.to_ascii_lowercase();
    let upper = byte.to_ascii_uppercase();
    let ranges = [lower, upper].map(|byte| ClassBytesRange::new(byte, byte));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}

/// Returns true if a class has most characters. A class that leaves out a few has the letters
/// beyond ASCII in both cases already, and folding each of a million takes a millisecond.
fn is_wide(class: &ClassUnicode) -> bool {
    class.iter().map(|range| u32::from(range.end()) - u32::from(range.start())).sum::<u32>()
        > 0x1_0000
}
