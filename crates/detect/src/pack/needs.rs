//! Required literals of an expression: every match has one of them.
//!
//! Expressions with bounded repetitions are slow to run and seldom match; a literal search is fast.
//! A detector without listed literals is gated by those that its expression requires.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::compile::TextForm;
use super::expression::parsed;
use crate::prefilter::grams::commonness;

/// Shortest literal worth a search, bytes.
const LITERAL_BYTES_MIN: usize = 3;
/// Limit on written repetitions at the start.
const START_TIMES_MAX: u32 = 6;
/// Limit on literals of one expression.
const LITERALS_MAX: usize = 256;
/// Limit on texts from expanding a part of an expression.
pub(super) const SPELLED_MAX: usize = 256;

/// Literals that an expression requires.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OwnNeeds {
    /// Literals in lower case; ASCII ones for texts that are not normalised.
    pub(super) literals: Vec<String>,
    /// True if there are others that a case-insensitive byte search would miss: then a text beyond
    /// ASCII may match without any of `literals`.
    pub(super) or_non_ascii: bool,
}

impl OwnNeeds {
    /// Extracts literals of which each match has one; `None` if there are none worth a search.
    pub(super) fn of_expression(text: &str, form: TextForm) -> Option<Self> {
        let found = required(&parsed(text, form).ok()?)?;
        // The normalised form has letters beyond ASCII in one case, as do the expressions for it.
        let is_found = |literal: &String| form == TextForm::Normalised || literal.is_ascii();
        let (mut literals, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_found);
        literals.sort();
        literals.dedup();
        let is_useful = !literals.is_empty() && literals.len() <= LITERALS_MAX;
        is_useful.then_some(Self { literals, or_non_ascii: !others.is_empty() })
    }
}

/// Returns the offset of a literal in a text; for short inputs, for which preparing a search would
/// take longer.
pub(super) fn place_of(literal: &str, text: &str) -> Option<usize> {
    let literal = literal.as_bytes();
    let text = text.as_bytes();
    let first = *literal.first()?;
    memchr::memchr_iter(first, text).find(|at| text[*at..].starts_with(literal))
}

pub(super) fn required(hir: &Hir) -> Option<Vec<String>> {
    let whole = spelled(hir).and_then(worth_it);
    whole.into_iter().chain(required_of_parts(hir)).max_by_key(|literals| worth(literals))
}

fn required_of_parts(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Alternation(parts) => {
            let each: Option<Vec<_>> = parts.iter().map(required).collect();
            let all: Vec<_> = each?.into_iter().flatten().collect();
            (all.len() <= 2 * LITERALS_MAX).then_some(all)
        }
        HirKind::Concat(parts) => {
            let each = parts.iter().filter_map(required).chain(runs(parts));
            each.max_by_key(|literals| worth(literals))
        }
        _ => None,
    }
}

/// Returns the texts that adjacent parts form, with the start of the part after them.
fn runs(parts: &[Hir]) -> impl Iterator<Item = Vec<String>> {
    let mut found = Vec::new();
    let mut run = vec![String::new()];
    for part in parts {
        let longer = spelled(part).and_then(|texts| joined(&run, &texts));
        match longer {
            Some(longer) => run = longer,
            None => {
                let room = SPELLED_MAX / run.len();
                let started =
                    starts(part).and_then(|starts| joined(&run, &shortened(starts, room)));
                found.extend(started.and_then(worth_it));
                found.extend(worth_it(std::mem::replace(&mut run, vec![String::new()])));
                run = spelled(part).unwrap_or(run);
            }
        }
    }
    found.extend(worth_it(run));
    found.into_iter()
}

/// Cuts texts to the length that leaves at most this many different ones.
pub(super) fn shortened(mut texts: Vec<String>, room: usize) -> Vec<String> {
    let mut bytes = texts.iter().map(String::len).max().unwrap_or_default();
    loop {
        texts.sort_unstable();
        texts.dedup();
        if texts.len() <= room || bytes <= LITERAL_BYTES_MIN {
            return texts;
        }
        bytes -= 1;
        for text in &mut texts {
            text.truncate(text.floor_char_boundary(bytes));
        }
    }
}

/// Returns prefixes of which each match of a part has one, if they are few and none is empty.
pub(super) fn starts(hir: &Hir) -> Option<Vec<String>> {
    let found = match hir.kind() {
        HirKind::Capture(capture) => starts(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => match spelled(&repetition.sub) {
            Some(texts) => {
                let times = repetition.min.min(START_TIMES_MAX);
                (1..times).try_fold(texts.clone(), |run, _| joined(&run, &texts))
            }
            None => starts(&repetition.sub),
        },
        HirKind::Alternation(parts) => {
            let each: Option<Vec<_>> = parts.iter().map(starts).collect();
            Some(each?.into_iter().flatten().collect())
        }
        HirKind::Concat(parts) => {
            let mut run = vec![String::new()];
            for part in parts {
                let texts = spelled(part);
                let more = texts.as_ref().map_or_else(|| starts(part), |texts| Some(texts.clone()));
                let Some(longer) = more.and_then(|more| joined(&run, &more)) else { break };
                run = longer;
                if texts.is_none() {
                    break;
                }
            }
            Some(run)
        }
        _ => spelled(hir),
    };
    let texts = found.filter(|texts| texts.iter().all(|text| !text.is_empty()))?;
    Some(shortened(texts, LITERALS_MAX)).filter(|texts| texts.len() <= LITERALS_MAX)
}

/// Returns all texts that a part matches, if they are few.
pub(super) fn spelled(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        // An assertion matches no bytes.
        HirKind::Empty | HirKind::Look(_) => Some(vec![String::new()]),
        HirKind::Literal(literal) => {
            Some(vec![std::str::from_utf8(&literal.0).ok()?.to_ascii_lowercase()])
        }
        HirKind::Class(class) => spelled_class(class),
        HirKind::Capture(capture) => spelled(&capture.sub),
        HirKind::Repetition(repetition) => match (repetition.min, repetition.max) {
            (0, Some(1)) => {
                let mut texts = spelled(&repetition.sub)?;
                texts.push(String::new());
                Some(texts)
            }
            (1, Some(1)) => spelled(&repetition.sub),
            _ => None,
        },
        HirKind::Concat(parts) => {
            parts.iter().try_fold(vec![String::new()], |run, part| joined(&run, &spelled(part)?))
        }
        HirKind::Alternation(parts) => {
            let each: Option<Vec<_>> = parts.iter().map(spelled).collect();
            let all: Vec<_> = each?.into_iter().flatten().collect();
            (all.len() <= SPELLED_MAX).then_some(all)
        }
    }
}

fn spelled_class(class: &Class) -> Option<Vec<String>> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => {
            class.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Class::Bytes(class) => {
            class.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
    };
    let count: u32 = ranges.iter().map(|(start, end)| end - start + 1).fold(0, u32::saturating_add);
    let is_small = count <= 10 && ranges.iter().all(|(_, end)| *end < 0x80);
    let letters = ranges.into_iter().flat_map(|(start, end)| start..=end);
    let letter = |letter| char::from_u32(letter).map(|c| c.to_ascii_lowercase().to_string());
    is_small.then(|| letters.filter_map(letter).collect())
}

pub(super) fn joined(starts: &[String], ends: &[String]) -> Option<Vec<String>> {
    let pairs = starts.iter().flat_map(|start| ends.iter().map(move |end| format!("{start}{end}")));
    (starts.len() * ends.len() <= SPELLED_MAX).then(|| pairs.collect())
}

/// Ranks sets of literals by worth: the rarer in texts, the better.
pub(super) fn worth(literals: &[String]) -> std::cmp::Reverse<u64> {
    std::cmp::Reverse(literals.iter().map(|literal| commonness(literal)).sum())
}

fn shortest(literals: &[String]) -> usize {
    literals.iter().map(String::len).min().unwrap_or(0)
}

fn worth_it(literals: Vec<String>) -> Option<Vec<String>> {
    // At the start of a literal `^` means the start of a word.
    let is_plain = literals.iter().all(|literal| !literal.starts_with('^'));
    (is_plain && shortest(&literals) >= LITERAL_BYTES_MIN).then_some(literals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, literals: &[&str]) {
        let found = OwnNeeds::of_expression(pattern, TextForm::AsIs).unwrap_or_default();
        assert_eq!(found.literals, literals, "{pattern}");
    }

    #[test]
    fn every_branch_gives_its_longest_part() {
        check("^(?:an? )?(?:Error|exception)[a-z]{0,9} in", &["error", "exception"]);
        check("(?:the )?fault in", &["fault in"]);
        check("[a-z]{1,9} (?:time out|took too long)", &[" time out", " took too long"]);
        check(r"\bauthori[sz]ed\b", &["authori"]);
        check("(?:a{0,3}failed){2}", &["failed"]);
    }

    #[test]
    fn an_expression_that_can_do_without_has_none() {
        check("[a-z]{3,9}", &[]);
        check("(?:error)?[a-z]", &[]);
        check("error|[0-9]{3}", &[]);
        check("ошибка", &[]);
        let both = OwnNeeds { literals: vec!["fehler".into()], or_non_ascii: true };
        assert_eq!(OwnNeeds::of_expression("Fehler|ошибка", TextForm::AsIs), Some(both));
        check("no", &[]);
    }
}
