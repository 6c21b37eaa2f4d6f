//! Literal suffix and prefix: cheap anchored tests of a literal's surroundings before its regex
//! runs.
//!
//! In go an expression and the literals of which each match has one, out come an expression for the
//! rest of a match, its literal included, and one for the bytes before. Anchored to the place of a
//! literal they fail after few bytes in nearly all texts, where a search of the whole window would
//! read all of it: so they tell which of the literals that occur are worth a search. They may
//! accept more than the expression has matches, never less.

mod rest;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use regex_syntax::hir::Hir;

pub(super) use self::rest::in_row;
use self::rest::rest;
use super::super::limits::REST_BYTES_MAX;
use crate::automata::{Automaton, AutomatonLook, ReadingWay};

/// Tests of both sides of a literal, compiled when first needed.
pub(crate) struct LiteralTail {
    tail: Hir,
    /// The last bytes before the literal, if `begin` is longer.
    head: Option<Hir>,
    /// All bytes of a match before the literal; `None` if that is longer than what is tested.
    begin: Option<Hir>,
    /// By the literal: the bytes of ASCII that may stand behind it, a bit each.
    pub(crate) next: BTreeMap<usize, u128>,
    compiled: OnceLock<Option<Sides>>,
}

/// Automata for both sides of a literal.
struct Sides {
    tail: Automaton,
    head: Option<Automaton>,
    begin: Option<Automaton>,
}

impl LiteralTail {
    /// Builds the tests of an expression whose matches all have one of these literals, in lower
    /// case.
    pub(super) fn new(hir: &Hir, literals: &[&str]) -> Option<Self> {
        let mut rest = rest(hir, literals)?;
        rest.follow((u128::MAX, false));
        let is_whole = rest.head.is_whole();
        let begin = rest.begin.is_whole().then(|| rest.begin.hir());
        // If nothing of it is cut off, the head is the beginning of the match, so one test does.
        let head = (!is_whole || begin.is_none()).then(|| rest.head.hir());
        Some(Self { next: rest.next, head, begin, ..Self::of(rest.tail.hir()) })
    }

    /// Renumbers the literals.
    pub(super) fn of_anchors(self, anchors: &[usize]) -> Self {
        let next = self.next.iter().map(|(&literal, &bytes)| (anchors[literal], bytes)).collect();
        Self { next, ..self }
    }

    /// Builds a test of the text from a place on alone.
    pub(super) fn of(tail: Hir) -> Self {
        let compiled = OnceLock::new();
        Self { tail, head: None, begin: None, next: BTreeMap::new(), compiled }
    }

    /// Returns the expression from the literal on.
    pub(super) fn tail(&self) -> &Hir {
        &self.tail
    }

    /// Starts a searcher; `None` if it can tell nothing of any place.
    pub(crate) fn look(&self) -> Option<TailLook<'_>> {
        let compile = || {
            let tail = Automaton::placed(&self.tail, ReadingWay::From)?;
            let back = |side: &Hir| Automaton::placed(side, ReadingWay::Back);
            let head = self.head.as_ref();
            let begin = self.begin.as_ref();
            let head = head.and_then(back);
            let begin = begin.and_then(back);
            Some(Sides { tail, head, begin })
        };
        let sides = self.compiled.get_or_init(compile).as_ref()?;
        let [head, begin] =
            [&sides.head, &sides.begin].map(|side| side.as_ref().map(Automaton::look));
        Some(TailLook { tail: sides.tail.look(), head, begin })
    }

    /// Returns true if the rest of a match may stand at this place, and where that cannot be told.
    #[cfg(test)]
    pub(super) fn may_stand_at(&self, text: &[u8], at: usize) -> bool {
        self.look().is_none_or(|mut look| look.may_stand_at(text, at))
    }
}

/// Searcher that tests one place of a literal after the other.
pub(crate) struct TailLook<'t> {
    tail: AutomatonLook<'t>,
    head: Option<AutomatonLook<'t>>,
    begin: Option<AutomatonLook<'t>>,
}

impl TailLook<'_> {
    /// Returns true if the rest of a match may stand at this place, and where that cannot be told.
    pub(crate) fn may_stand_at(&mut self, text: &[u8], at: usize) -> bool {
        let end = (at + REST_BYTES_MAX + 1).min(text.len());
        let start = at.saturating_sub(REST_BYTES_MAX + 1);
        let before = self.head.as_mut().or(self.begin.as_mut());
        self.tail.accepts(text, at..end)
            && before.is_none_or(|before| before.accepts(text, start..at))
    }

    /// Calls `each` with all places in a part at which a match around the literal at its end may
    /// begin; `false` if they are not known.
    pub(crate) fn begins(
        &mut self,
        text: &[u8],
        part: Range<usize>,
        each: impl FnMut(usize),
    ) -> bool {
        let Some(begin) = &mut self.begin else { return false };
        begin.begins(text, part, each);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile::TextForm;
    use super::super::expression::parsed;
    use super::*;

    #[track_caller]
    fn check(pattern: &str, literals: &[&str], stands: &[&str], not: &[&str]) {
        let tail =
            LiteralTail::new(&parsed(pattern, TextForm::Normalised).unwrap(), literals).unwrap();
        let at = |text: &str| {
            let place = literals.iter().filter_map(|literal| text.to_lowercase().find(literal));
            tail.may_stand_at(text.as_bytes(), place.min().unwrap())
        };
        for text in stands {
            assert!(at(text), "{pattern} {text}");
        }
        for text in not {
            assert!(!at(text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_literal_without_the_rest_of_a_match_is_not_worth_a_search() {
        check("ab{0,3} key[0-9]{1,4}", &["key"], &["AB KEY1"], &["key1", "b key1", "a keyx"]);
        let verbs = "(?:forget|ignor(?:e|ing)) (?:all|any) rules";
        check(verbs, &["ignor", "forget"], &["forget all rules"], &["ignore it", "forget rules"]);
        check(r"\b(?:x|y)_(token|key)\b", &["_token", "_key"], &["x_key."], &["_keys", "_tokens"]);
        check("(?:abc[0-9]){2}x", &["abc"], &["abc1abc2x", "abc2x"], &["abc1abd", "abc1"]);
    }

    #[test]
    fn a_long_rest_is_cut() {
        check(
            r"\b(?:key_[a-z]{90}[a-z]{90}|abc)\b",
            &["key", "abc"],
            &[&format!("key_{}", "x".repeat(180)), "abc."],
            &["key", "key_1", "abcd"],
        );
    }
}
