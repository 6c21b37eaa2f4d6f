//! Automata that are held to one place of a text.

use std::ops::Range;

use regex_automata::hybrid::dfa::{Cache, DFA, OverlappingState};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition,
};

use crate::detect::caches::{self, AutomatonNotes};
use crate::detect::limits::{DFA_BYTES_MAX, REGEX_BYTES_MAX};

/// Which way an automaton reads.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Way {
    Forward,
    Back,
}

/// Times more than the least from which a repetition may go on without end. An automaton that
/// counts has a state for each set of numbers that it may have come to: behind words that occur
/// again and again it makes a new one with nearly every byte.
const COUNTED_TIMES_MAX: u32 = 1;

/// A compiled expression with what its searches note.
pub(super) struct Automaton {
    dfa: DFA,
    /// What its notes are kept under.
    owner: u32,
    way: Way,
}

impl Automaton {
    /// One for letters in any case; `None`, with a line in the log, where it cannot be compiled.
    pub(super) fn new(hir: &Hir, way: Way) -> Option<Self> {
        let nfa = thompson::Config::new()
            .utf8(false)
            .reverse(way == Way::Back)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .which_captures(thompson::WhichCaptures::None);
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(DFA_BYTES_MAX)
            .skip_cache_capacity_check(true);
        let failed = |error: &dyn std::fmt::Display| tracing::error!("a tail: {error}");
        // Where capitals matter the search that follows tells them apart.
        let hir = in_any_case(hir);
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(&hir);
        let nfa = nfa.inspect_err(|error| failed(error)).ok()?;
        let built = DFA::builder().configure(config).build_from_nfa(nfa);
        let dfa = built.inspect_err(|error| failed(error)).ok()?;
        Some(Self { dfa, owner: caches::owner(), way })
    }

    /// Begins to look at places.
    pub(super) fn look(&self) -> AutomatonLook<'_> {
        let cache = match caches::take(self.owner) {
            Some(AutomatonNotes::Placed(cache)) => cache,
            _ => Box::new(self.dfa.create_cache()),
        };
        AutomatonLook { automaton: self, cache: Some(cache) }
    }
}

/// An automaton that looks at one place after the other.
pub(super) struct AutomatonLook<'a> {
    automaton: &'a Automaton,
    /// `None` only while it ends.
    cache: Option<Box<Cache>>,
}

impl Drop for AutomatonLook<'_> {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.take() {
            caches::keep(self.automaton.owner, AutomatonNotes::Placed(cache));
        }
    }
}

impl AutomatonLook<'_> {
    /// Whether it matches from the start of a part on, or back from its end; `true` where that
    /// cannot be told.
    pub(super) fn accepts(&mut self, text: &[u8], part: Range<usize>) -> bool {
        let (Automaton { dfa, way, .. }, Some(cache)) = (self.automaton, &mut self.cache) else {
            return true;
        };
        let input = Input::new(text).span(part).anchored(Anchored::Yes).earliest(true);
        let found = match way {
            Way::Forward => dfa.try_search_fwd(cache, &input),
            Way::Back => dfa.try_search_rev(cache, &input),
        };
        found.map_or(true, |found| found.is_some())
    }

    /// Where all matches back from the end of a part begin, the last first; all places where that
    /// cannot be told.
    pub(super) fn begins(&mut self, text: &[u8], part: Range<usize>, mut each: impl FnMut(usize)) {
        let Some(cache) = &mut self.cache else { return };
        let mut state = OverlappingState::start();
        let input = Input::new(text).span(part.clone()).anchored(Anchored::Yes);
        loop {
            if self.automaton.dfa.try_search_overlapping_rev(cache, &input, &mut state).is_err() {
                return part.rev().for_each(each);
            }
            let Some(found) = state.get_match() else { return };
            each(found.offset());
        }
    }
}

/// The same in any case of the letters of ASCII, others are in lower case; without the numbers of
/// repetitions.
fn in_any_case(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
        HirKind::Literal(literal) => {
            Hir::concat(literal.0.iter().map(|&byte| either(byte)).collect())
        }
        HirKind::Class(class) => {
            let mut class = class.clone();
            match &mut class {
                // Without the tables of case, nothing is known and the class stays as it is.
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
    let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
    let ranges = [lower, upper].map(|byte| ClassBytesRange::new(byte, byte));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}

/// Whether a class has most characters: what remains when a few are taken out has the letters
/// beyond ASCII in both cases, and to fold each of a million takes a millisecond.
fn is_wide(class: &ClassUnicode) -> bool {
    class.iter().map(|range| u32::from(range.end()) - u32::from(range.start())).sum::<u32>()
        > 0x1_0000
}
