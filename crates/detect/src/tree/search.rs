//! Search of a text for a match of an expression.
//!
//! Alternatives with a literal prefix, or anchored at the start, are found by that, in a fraction
//! of the time of trying each offset.

use memchr::memmem::Finder;
use regex_syntax::hir::{Hir, Look};

use super::{ExpressionTree, MatchStart, alternatives, steps_for};

/// Limit on prefixes that are searched one by one.
const LEADS_MAX: usize = 32;

/// Trees of an expression.
pub(crate) struct SearchTree {
    /// Alternatives with a literal prefix, all anchored ones as one, and all others as one.
    parts: Vec<SearchPart>,
}

struct SearchPart {
    tree: ExpressionTree,
    start: MatchStart,
    is_at_start: bool,
    /// Literal prefix of matches.
    lead: Option<Finder<'static>>,
}

impl SearchTree {
    /// Builds trees; `in_small` for matching lower-case texts case-insensitively.
    pub(crate) fn of(hir: &Hir, in_small: bool) -> Self {
        let part = |hir: &Hir| SearchPart::of(ExpressionTree::of(hir, in_small));
        let mut at_start = Vec::new();
        let mut others = Vec::new();
        let mut led = Vec::new();
        for hir in alternatives(hir) {
            match part(&hir) {
                part if part.is_at_start => at_start.push(hir),
                part if part.lead.is_some() => led.push((hir, part)),
                _ => others.push(hir),
            }
        }
        let (led, mut parts): (Vec<Hir>, Vec<SearchPart>) = led.into_iter().unzip();
        if parts.len() > LEADS_MAX {
            others.extend(led);
            parts.clear();
        }
        let joined = [at_start, others].into_iter().filter(|all| !all.is_empty());
        parts.extend(joined.map(|all| part(&Hir::alternation(all))));
        Self { parts }
    }

    /// Returns true if a text contains a match.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        let mut steps_left = steps_for(text.as_bytes());
        self.parts.iter().any(|part| part.is_in(text.as_bytes(), &mut steps_left))
    }

    /// Returns the end of a match at the start of a text, of the first of [`Self::parts`] that has
    /// one; their order is not the expression's.
    pub(crate) fn end_of_first(&self, text: &str) -> Option<usize> {
        let text = text.as_bytes();
        let mut steps_left = steps_for(text);
        self.parts.iter().find_map(|part| part.tree.match_at(text, 0, &mut steps_left))
    }

    /// Returns true if a match begins at the start of a text.
    pub(crate) fn begins(&self, text: &str) -> bool {
        self.end_of_first(text).is_some()
    }
}

impl SearchPart {
    fn of(tree: ExpressionTree) -> Self {
        let lead = tree.lead().map(|literal| Finder::new(literal).into_owned());
        Self { start: tree.start(), is_at_start: tree.is_at(Look::Start), lead, tree }
    }

    fn is_in(&self, text: &[u8], steps_left: &mut usize) -> bool {
        let mut is_at = |at: usize| {
            self.start.fits(text, at) && self.tree.match_at(text, at, steps_left).is_some()
        };
        match &self.lead {
            _ if self.is_at_start => is_at(0),
            Some(lead) => places_of(lead, text).any(is_at),
            None => (0..=text.len()).any(is_at),
        }
    }
}

/// Returns the offsets of a literal in a text, including overlapping ones.
pub(crate) fn places_of(literal: &Finder<'_>, text: &[u8]) -> impl Iterator<Item = usize> {
    let next = |from: usize| Some(from + literal.find(text.get(from..)?)?);
    std::iter::successors(next(0), move |at| next(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::compile::TextForm;
    use crate::pack::expression::plain_of;

    #[track_caller]
    fn check(pattern: &str, has: &[&str], not: &[&str]) {
        let hir = plain_of(pattern, TextForm::AsIs).unwrap();
        let tree = SearchTree::of(&hir, true);
        assert_eq!(has.iter().find(|text| !tree.is_match(text)), None, "{pattern}");
        assert_eq!(not.iter().find(|text| tree.is_match(text)), None, "{pattern}");
    }

    #[test]
    fn each_alternative_is_found_by_what_it_begins_with() {
        check(
            r"\b(?:if|so that|no)\b",
            &["what if", "no", "and so that it"],
            &["iffy", "so, that"],
        );
        check(r"\*\*\w|^\d|[:?]$", &["a ***b", "1 b", "why?"], &["a **", "b 1", ": x"]);
        check("(?:=[^=]*){3}", &["a=1 b=2 c=3"], &["a=1 b=2"]);
    }

    #[test]
    fn repetitions_within_others_are_read_in_time() {
        check(&format!("{}a{}b", "(?:".repeat(40), "*)*".repeat(40)), &["aab", "b"], &["aa"]);
        check(&format!("{}a{}b", "(?:".repeat(40), "+){2,}".repeat(40)), &[], &["b", "ab"]);
    }
}
