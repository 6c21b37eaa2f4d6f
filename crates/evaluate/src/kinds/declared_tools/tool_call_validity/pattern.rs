//! Cost of a schema's patterns: steps to parse, compile and apply them.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Longest pattern, bytes; each byte may stand for a class of 700 ranges.
pub(super) const TEXT_MAX: usize = 4096;

/// Steps to parse a byte of a pattern, then a Unicode class, then one for both cases.
const STEPS_PER_BYTE: usize = 60;
const STEPS_PER_CLASS: usize = 4_000;
const STEPS_PER_FOLDED: usize = 60_000;
/// Limit on the counted parts and states; patterns of an allowed size have fewer.
pub(super) const PARTS_MAX: usize = 1 << 20;
/// Steps of an automaton per byte, then per simultaneous state.
const STEPS_PER_TEXT_BYTE: f64 = 4.0;
const STEPS_PER_PLACE: f64 = 1.0;

/// Returns true if a text is a regular expression or too long to be parsed.
pub(super) fn is_regular_expression(text: &str) -> bool {
    // Only parsed: the translation of a two-byte class takes kilobytes.
    text.len() > TEXT_MAX || regex_syntax::ast::parse::Parser::new().parse(text).is_ok()
}

/// Returns the steps to parse a pattern.
pub(super) fn steps_to_parse(text: &str) -> usize {
    let classes =
        text.matches('\\').count() + text.matches("[^").count() + text.matches('.').count();
    let per_class = if text.contains("(?") { STEPS_PER_FOLDED } else { STEPS_PER_CLASS };
    text.len() * STEPS_PER_BYTE + classes * per_class
}

/// Counts the compiled parts of a pattern, with repetitions expanded.
pub(super) fn parts(text: &str) -> usize {
    counted(text, &|class| match class {
        Class::Unicode(class) => class.ranges().len(),
        Class::Bytes(class) => class.ranges().len(),
    })
}

/// Returns the steps to search a byte of a text: an automaton may be in many states at once.
pub(super) fn steps_per_byte(text: &str) -> f64 {
    STEPS_PER_TEXT_BYTE + counted(text, &|_| 1) as f64 * STEPS_PER_PLACE
}

fn counted(text: &str, of_class: &dyn Fn(&Class) -> usize) -> usize {
    regex_syntax::parse(text).map_or(text.len(), |hir| count(&hir, of_class))
}

fn count(hir: &Hir, of_class: &dyn Fn(&Class) -> usize) -> usize {
    let found = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => of_class(class),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1) as usize;
            count(&repetition.sub, of_class).saturating_mul(times)
        }
        HirKind::Capture(capture) => 1 + count(&capture.sub, of_class),
        HirKind::Concat(list) | HirKind::Alternation(list) => {
            list.iter().fold(1, |sum: usize, part| sum.saturating_add(count(part, of_class)))
        }
    };
    found.min(PARTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_parts_of_a_pattern_count_as_often_as_they_may_be_there() {
        assert_eq!(parts("[ab]{10}"), 10 * parts("[ab]"));
        assert!(parts(r"\w{1,100}") > 50 * parts("[a-z]{1,100}"));
        assert_eq!(parts("((((a{1000}){1000}){1000}){1000})"), PARTS_MAX);
        assert!(steps_per_byte(r"\w{1,100}") < 2.0 * steps_per_byte("[a-z]{1,100}"));
    }
}
