//! First digit of a detector's matches: a cheap test before its expression runs.
//!
//! In: an expression whose matches all have a digit. Out: the possible bytes of a match from the
//! first digit on, and the match bounds before it. They select the numbers worth a search. They may
//! accept more than the expression matches, never less.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use super::ahead::Ahead;
use super::tail::{in_row, tail};
use crate::pack::match_bounds::{self, MatchBounds};

/// Limit on paths of a match to its first digit.
const WAYS_MAX: usize = 64;

/// Match bounds around one byte of a match, with the possible next bytes.
#[derive(Clone, PartialEq)]
pub(crate) struct Point {
    /// Span of a match before the byte, and from there to its end.
    pub(crate) reach: MatchBounds,
    /// Possible bytes from the first digit on, or after the `@`.
    pub(crate) ahead: Ahead,
}

impl Point {
    /// Builds it around the first digit; `None` if a match may have no digit, may start within a
    /// number, or has too many paths to its first digit.
    pub(super) fn digit(hir: &Hir) -> Option<Self> {
        let mut ways = Ways::default();
        ways.walk(std::slice::from_ref(hir), 0, true)?;
        let after = hir.properties().maximum_len()?;
        let ahead = *Ahead::of(&Hir::alternation(ways.tails), &[""]).first()?;
        Some(Self { reach: MatchBounds { before: ways.before, after, past: 0 }, ahead })
    }

    /// Builds it around an `@`; `None` if a match may have none.
    pub(super) fn at_sign(hir: &Hir) -> Option<Self> {
        let reach = *match_bounds::reaches(hir, &["@"])?.get(&0)?;
        Some(Self { reach, ahead: *Ahead::of(&tail(hir, &["@"])?, &["@"]).first()? })
    }
}

#[derive(Default)]
struct Ways {
    tails: Vec<Hir>,
    before: usize,
}

/// Digits in a class.
#[derive(PartialEq)]
enum Digits {
    None,
    Some,
    Only,
}

fn digits_of(class: &Class) -> Digits {
    let mut any = false;
    let mut other = false;
    let mut add = |start: u32, end: u32| {
        any |= start <= u32::from(b'9') && end >= u32::from(b'0');
        other |= start < u32::from(b'0') || end > u32::from(b'9');
    };
    match class {
        Class::Unicode(class) => {
            class.iter().for_each(|range| add(range.start().into(), range.end().into()));
        }
        Class::Bytes(class) => {
            class.iter().for_each(|range| add(range.start().into(), range.end().into()));
        }
    }
    match (any, other) {
        (false, _) => Digits::None,
        (true, true) => Digits::Some,
        (true, false) => Digits::Only,
    }
}

/// Returns true if a part can match no digit.
fn has_no_digit(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => !literal.0.iter().any(u8::is_ascii_digit),
        HirKind::Class(class) => digits_of(class) == Digits::None,
        HirKind::Capture(capture) => has_no_digit(&capture.sub),
        HirKind::Repetition(repetition) => has_no_digit(&repetition.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(has_no_digit),
    }
}

impl Ways {
    /// Follows consecutive parts to the first digit, after `before` bytes; `inside` while the byte
    /// before the match may be a digit too.
    fn walk(&mut self, row: &[Hir], before: usize, inside: bool) -> Option<()> {
        if self.tails.len() > WAYS_MAX {
            return None;
        }
        let (first, rest) = row.split_first()?;
        if has_no_digit(first) {
            let properties = first.properties();
            let bounded = properties.minimum_len().is_some_and(|least| least > 0)
                || matches!(first.kind(), HirKind::Look(Look::Start | Look::WordAscii));
            if matches!(first.kind(), HirKind::Alternation(_)) && !bounded {
                return self.walk_each(first, rest, before, inside);
            }
            return self.walk(rest, before + properties.maximum_len()?, inside && !bounded);
        }
        match first.kind() {
            HirKind::Alternation(_) => self.walk_each(first, rest, before, inside),
            HirKind::Capture(capture) => {
                self.walk(&joined(&[(*capture.sub).clone()], rest), before, inside)
            }
            HirKind::Concat(parts) => self.walk(&joined(parts, rest), before, inside),
            HirKind::Repetition(repetition) => self.walk_times(repetition, rest, before, inside),
            HirKind::Class(class) => {
                if digits_of(class) == Digits::Some {
                    self.walk(rest, before + first.properties().maximum_len()?, false)?;
                }
                self.end_at(row, before, inside)
            }
            HirKind::Literal(literal) => {
                let at = literal.0.iter().position(u8::is_ascii_digit)?;
                let parts = joined(&[Hir::literal(literal.0[at..].to_vec())], rest);
                self.end_at(&parts, before + at, inside && at == 0)
            }
            HirKind::Empty | HirKind::Look(_) => None,
        }
    }

    fn walk_each(&mut self, first: &Hir, rest: &[Hir], before: usize, inside: bool) -> Option<()> {
        let HirKind::Alternation(parts) = first.kind() else { return None };
        for part in parts {
            self.walk(&joined(std::slice::from_ref(part), rest), before, inside)?;
        }
        Some(())
    }

    fn walk_times(
        &mut self,
        repetition: &Repetition,
        rest: &[Hir],
        before: usize,
        inside: bool,
    ) -> Option<()> {
        let max = repetition.max?;
        let times = |min: u32, max: u32| {
            Hir::repetition(Repetition { min, max: Some(max), ..repetition.clone() })
        };
        if let HirKind::Class(class) = repetition.sub.kind()
            && digits_of(class) == Digits::Some
        {
            // The digit is one of these, or follows them all.
            let all = before + max as usize * repetition.sub.properties().maximum_len()?;
            self.end_at(&joined(&[times(1, max)], rest), all, inside)?;
            return self.walk(rest, all, inside && repetition.min == 0);
        }
        if repetition.min == 0 {
            self.walk(rest, before, inside)?;
        }
        let once = [(*repetition.sub).clone(), times(repetition.min.saturating_sub(1), max - 1)];
        self.walk(&joined(&once, rest), before, inside)
    }

    fn end_at(&mut self, row: &[Hir], before: usize, inside: bool) -> Option<()> {
        if inside {
            return None;
        }
        self.before = self.before.max(before);
        let (first, rest) = row.split_first()?;
        self.tails.push(in_row(first.clone(), rest));
        Some(())
    }
}

fn joined(first: &[Hir], rest: &[Hir]) -> Vec<Hir> {
    first.iter().chain(rest).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::compile::TextForm;
    use crate::pack::expression::parsed;

    #[track_caller]
    fn check(pattern: &str, before: usize, stands: &[&str], not: &[&str]) {
        let number = Point::digit(&parsed(pattern, TextForm::Normalised).unwrap()).unwrap();
        assert_eq!(number.reach.before, before, "{pattern}");
        let at = |text: &str| {
            let place = text.bytes().position(|byte| byte.is_ascii_digit()).unwrap();
            number.ahead.fits(text.as_bytes(), place)
        };
        for text in stands {
            assert!(at(text), "{pattern} {text}");
        }
        for text in not {
            assert!(!at(text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_number_without_the_rest_of_a_match_is_not_worth_a_search() {
        check(r"\b\d{3}-\d{2}\b", 0, &["a 123-45."], &["1234-56", "12-34", "123-4."]);
        check(r"(?:^|[^\w.-])(\d{2}\.\d)", 4, &["x 12.3"], &["1.2"]);
        check(r"\b[A-Z]{2} ?\d{2} ?[A-Z0-9]{4}\b", 3, &["de12 34xy"], &["de 1.", "de 12 3."]);
        check(r"\b(?:[XYZ]-?)?\d{3}[A-Z]\b", 2, &["x-123k", "123k"], &["x-1234"]);
        check(r"\b[A-Z0-9]{4}-\d\b", 5, &["ab1d-2", "abcd-2", "a1-2"], &["a1_2"]);
    }

    #[test]
    fn what_may_start_within_a_number_or_have_none_is_left_alone() {
        for pattern in [r"\d{4}x", r"\b[A-F0-9]{4}\b", r"\b(?:\d{3})?x\b", r" ?\d{3}"] {
            assert!(
                Point::digit(&parsed(pattern, TextForm::Normalised).unwrap()).is_none(),
                "{pattern}"
            );
        }
    }
}
