//! Bytes after a literal of a match: a cheap test before its expression runs.
//!
//! In: an expression and the literal that it begins with. Out: the possible ASCII bytes of a match
//! at each of the next offsets. Most occurrences of literals belong to no match, and fail at the
//! first or second byte.

use std::collections::BTreeSet;

use regex_automata::nfa::thompson::{self, NFA, State, Transition};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::Hir;

use crate::limits::REGEX_BYTES_MAX;

/// Number of tested bytes after a literal.
pub(crate) const AHEAD: usize = 8;
/// Set of letters, digits and `_`.
pub(crate) const OF_WORD: u128 = 0x07ff_fffe_87ff_fffe_03ff_0000_0000_0000;

/// Sets of possible ASCII bytes at each offset; other bytes are always possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ahead(pub(crate) [u128; AHEAD]);

impl Default for Ahead {
    fn default() -> Self {
        Self::ANY
    }
}

impl Ahead {
    /// Accepts any bytes.
    pub(crate) const ANY: Self = Self([u128::MAX; AHEAD]);

    /// Returns true if a match may continue at an offset of a text.
    #[inline]
    pub(crate) fn fits(&self, text: &[u8], at: usize) -> bool {
        for (set, &byte) in self.0.iter().zip(text.get(at..).unwrap_or_default()) {
            if !byte.is_ascii() {
                return true;
            }
            if set >> byte & 1 == 0 {
                return false;
            }
        }
        true
    }

    /// Computes the first bytes of an expression's matches, except at the beginning of a text.
    pub(super) fn of_matches(hir: &Hir) -> Self {
        Self::of(hir, &[""])[0]
    }

    /// Computes the possible bytes after each of these literals at the beginning of an expression;
    /// any bytes if unknown.
    pub(super) fn of(hir: &Hir, literals: &[&str]) -> Vec<Self> {
        let config = thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .which_captures(thompson::WhichCaptures::None);
        let built = thompson::Compiler::new().configure(config).build_from_hir(hir);
        let nfa = built.ok();
        let behind = |literal: &&str| Front::behind(nfa.as_ref()?, literal);
        literals.iter().map(|literal| behind(literal).unwrap_or(Self::ANY)).collect()
    }
}

/// Byte before an offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    OfWord,
    Other,
    Unknown,
}

/// NFA state with the preceding byte, and the possible next bytes.
type Standing = (StateID, Before, u128);

/// Set of possible NFA states.
struct Front<'n> {
    nfa: &'n NFA,
    states: BTreeSet<Standing>,
}

impl<'n> Front<'n> {
    fn behind(nfa: &'n NFA, literal: &str) -> Option<Ahead> {
        let start = (nfa.start_anchored(), Before::Unknown, u128::MAX);
        let mut front = Front { nfa, states: BTreeSet::new() };
        front.enter(start);
        for &byte in literal.as_bytes() {
            let is_it = |found: u8| found.eq_ignore_ascii_case(&byte);
            front = front.next(|_, found| is_it(found));
        }
        if front.states.is_empty() {
            return None;
        }
        let mut sets = Ahead::ANY.0;
        for set in &mut sets {
            let mut found = 0;
            let mut is_over = false;
            for (state, _, mask) in &front.states {
                if matches!(nfa.state(*state), State::Match { .. }) {
                    found |= mask;
                    is_over = true;
                }
            }
            let next = front.next(|mask, byte| {
                let bits = bits(byte) & mask;
                found |= bits;
                bits != 0
            });
            *set = found;
            if is_over {
                break;
            }
            front = next;
        }
        Some(Ahead(sets))
    }

    /// Adds a state, and its epsilon closure.
    fn enter(&mut self, (state, before, mask): Standing) {
        if !self.states.insert((state, before, mask)) {
            return;
        }
        match self.nfa.state(state) {
            State::Look { look, next } => {
                let mask = match (look, before) {
                    (Look::WordAscii, Before::OfWord) => mask & !OF_WORD,
                    (Look::WordAscii, Before::Other) => mask & OF_WORD,
                    (Look::End, _) => 0,
                    // It is tested only after the beginning of a text.
                    (Look::Start, _) => return,
                    _ => mask,
                };
                self.enter((*next, before, mask));
            }
            State::Union { alternates } => {
                alternates.iter().for_each(|next| self.enter((*next, before, mask)));
            }
            State::BinaryUnion { alt1, alt2 } => {
                [*alt1, *alt2].into_iter().for_each(|next| self.enter((next, before, mask)));
            }
            State::Capture { next, .. } => self.enter((*next, before, mask)),
            _ => {}
        }
    }

    /// Advances by the bytes that `takes` accepts.
    fn next(&self, mut takes: impl FnMut(u128, u8) -> bool) -> Self {
        let mut all = Front { nfa: self.nfa, states: BTreeSet::new() };
        for (state, _, mask) in &self.states {
            for Transition { start, end, next } in transitions(self.nfa.state(*state)) {
                for byte in start..=end {
                    if takes(*mask, byte) {
                        let is_of_word = bits(byte) & OF_WORD != 0;
                        let before = if is_of_word { Before::OfWord } else { Before::Other };
                        all.enter((next, before, u128::MAX));
                    }
                }
            }
        }
        all
    }
}

fn transitions(state: &State) -> Vec<Transition> {
    match state {
        State::ByteRange { trans } => vec![*trans],
        State::Sparse(sparse) => sparse.transitions.to_vec(),
        State::Dense(dense) => {
            let of =
                |byte| Some(Transition { start: byte, end: byte, next: dense.matches_byte(byte)? });
            (0..=u8::MAX).filter_map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns an ASCII byte in both cases as a set; an empty set for other bytes.
fn bits(byte: u8) -> u128 {
    let bit = |byte: u8| 1u128.checked_shl(byte.into()).unwrap_or_default();
    bit(byte.to_ascii_lowercase()) | bit(byte.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::compile::TextForm;
    use crate::pack::expression::parsed;

    #[track_caller]
    fn check(pattern: &str, literal: &str, stands: &[&str], not: &[&str]) {
        let hir = parsed(pattern, TextForm::Normalised).unwrap();
        let ahead = Ahead::of(&hir, &[literal])[0];
        let fits = |text: &&&str| ahead.fits(text.as_bytes(), 0);
        assert_eq!(stands.iter().find(|text| !fits(text)), None, "{pattern}");
        assert_eq!(not.iter().find(fits), None, "{pattern}");
    }

    #[test]
    fn what_follows_a_literal_is_told_by_its_next_bytes() {
        check("key[0-9]{1,4}x", "key", &["1x", "12X", "1234x"], &["x", "1 ", "1.2x"]);
        check(r"(?:forget|ignor(?:e|ing)) all", "ignor", &["e all", "ING ALL"], &["e it", "ant"]);
        check(r"_key\b", "_key", &["", " s", ".", "é"], &["s", "_", "1"]);
        check(r"a(?:b|\bc)d", "a", &["bd!"], &["cd", "be"]);
        check(r"\d{3}-\d{2}$", "", &["123-45"], &["123-456", "12-34"]);
    }
}
