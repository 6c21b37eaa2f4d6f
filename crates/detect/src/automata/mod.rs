//! Lazy DFAs: expressions as automata that build their states while they read.
//!
//! In goes the HIR of an expression, out comes an automaton that reads a text one way: to the end
//! of the first match, or from one place on. The states that it built for the texts it has read are
//! kept in a pool of [caches](cache_pool).

mod any_case;
pub(crate) mod cache_pool;
mod slim;

use std::ops::Range;

use regex_automata::hybrid::dfa::{Cache, DFA, OverlappingState};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind, PatternID, PatternSet};
use regex_syntax::hir::Hir;

use self::any_case::in_any_case;
use self::cache_pool::{BorrowedCache, CompiledBytes, DfaCacheSlot};
pub(crate) use self::slim::slim;
use super::limits::{DFA_BYTES_MAX, REGEX_BYTES_MAX};

/// Direction and match semantics of an automaton.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ReadingWay {
    /// Forward, leftmost-first: to the end of the first match; of those that begin there, the one
    /// that the expression prefers.
    First,
    /// Forward from one place, to any match.
    From,
    /// Backward from one place, to any match.
    Back,
}

/// A compiled expression with the pool of its lazy-DFA caches.
pub(crate) struct Automaton {
    dfa: DFA,
    notes: DfaCacheSlot<Cache>,
    reading: ReadingWay,
    _compiled: CompiledBytes,
}

/// Error of an expression that an automaton does not support, or is too large for.
pub(crate) type AutomatonError = Box<dyn std::error::Error + Send + Sync>;

impl Automaton {
    /// Compiles an expression; errors where it is too large or has Unicode word boundaries.
    pub(crate) fn new(hir: &Hir, reading: ReadingWay) -> Result<Self, AutomatonError> {
        Self::of_all(&[hir], reading)
    }

    fn of_all(hirs: &[&Hir], reading: ReadingWay) -> Result<Self, AutomatonError> {
        let nfa = thompson::Config::new()
            .utf8(false)
            .reverse(reading == ReadingWay::Back)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .which_captures(thompson::WhichCaptures::None);
        let kind =
            if reading == ReadingWay::First { MatchKind::LeftmostFirst } else { MatchKind::All };
        let config = DFA::config()
            .match_kind(kind)
            .cache_capacity(DFA_BYTES_MAX)
            .skip_cache_capacity_check(true);
        let nfa = thompson::Compiler::new().configure(nfa).build_many_from_hir(hirs)?;
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa)?;
        let bytes = dfa.get_nfa().memory_usage() + dfa.memory_usage();
        Ok(Self { dfa, notes: DfaCacheSlot::new(), reading, _compiled: CompiledBytes::new(bytes) })
    }

    /// Compiles an anchored automaton for normalised texts, letters in any case, which does not
    /// count repetitions; `None`, with a line in the log, where it cannot be compiled.
    pub(crate) fn placed(hir: &Hir, reading: ReadingWay) -> Option<Self> {
        // Case does not matter here: the search that follows tells capitals apart where they do.
        let built = Self::new(&slim(&in_any_case(hir), true), reading);
        built.inspect_err(|error| tracing::error!("a tail: {error}")).ok()
    }

    /// Compiles several expressions into one anchored automaton that tells
    /// [which](AutomatonLook::which) of them match.
    pub(crate) fn placed_all(hirs: &[&Hir]) -> Option<Self> {
        let slim: Vec<Hir> = hirs.iter().map(|hir| slim(&in_any_case(hir), true)).collect();
        let built = Self::of_all(&slim.iter().collect::<Vec<_>>(), ReadingWay::From);
        built.inspect_err(|error| tracing::error!("tails: {error}")).ok()
    }

    /// Returns an empty set with room for each of its expressions.
    pub(crate) fn none_of_all(&self) -> PatternSet {
        PatternSet::new(self.dfa.pattern_len())
    }

    /// Starts a searcher with a cache of the pool.
    pub(crate) fn look(&self) -> AutomatonLook<'_> {
        let notes = self.notes.take(|| self.dfa.create_cache());
        AutomatonLook { automaton: self, taken: Some(notes) }
    }
}

/// Searcher: an automaton with a cache, which goes back to the pool on drop.
pub(crate) struct AutomatonLook<'a> {
    automaton: &'a Automaton,
    /// `None` only while it is dropped.
    taken: Option<BorrowedCache<Cache>>,
}

impl Drop for AutomatonLook<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.automaton.notes.keep(taken);
        }
    }
}

impl AutomatonLook<'_> {
    /// Returns the end of the match in an input; `Err` where that cannot be told.
    fn end(&mut self, input: &Input<'_>) -> Result<Option<usize>, ()> {
        let Some(BorrowedCache { notes: cache, .. }) = &mut self.taken else { return Err(()) };
        let Automaton { dfa, reading, .. } = self.automaton;
        let found = match reading {
            ReadingWay::First | ReadingWay::From => dfa.try_search_fwd(cache, input),
            ReadingWay::Back => dfa.try_search_rev(cache, input),
        };
        found.map(|found| found.map(|found| found.offset())).map_err(|_| ())
    }

    /// Returns the end of the first match within a part of a text.
    pub(crate) fn first(&mut self, text: &[u8], part: Range<usize>) -> Option<usize> {
        self.end(&Input::new(text).span(part)).ok().flatten()
    }

    /// Returns true if it matches anywhere in a text.
    pub(crate) fn is_match(&mut self, text: &[u8]) -> bool {
        self.end(&Input::new(text).earliest(true)).is_ok_and(|found| found.is_some())
    }

    /// Returns the farthest end of a match that is anchored where it starts to read a part.
    pub(crate) fn held(&mut self, text: &[u8], part: Range<usize>) -> Option<usize> {
        self.end(&Input::new(text).span(part).anchored(Anchored::Yes)).ok().flatten()
    }

    /// Returns true if it matches from the start of a part on, or back from its end, and where that
    /// cannot be told.
    pub(crate) fn accepts(&mut self, text: &[u8], part: Range<usize>) -> bool {
        let input = Input::new(text).span(part).anchored(Anchored::Yes).earliest(true);
        self.end(&input).map_or(true, |found| found.is_some())
    }

    /// Collects the expressions that match from the start of a part on; all where that cannot be
    /// told.
    pub(crate) fn which(&mut self, text: &[u8], part: Range<usize>, found: &mut PatternSet) {
        found.clear();
        let input = Input::new(text).span(part).anchored(Anchored::Yes);
        let dfa = &self.automaton.dfa;
        let told = self.taken.as_mut().is_some_and(|taken| {
            dfa.try_which_overlapping_matches(&mut taken.notes, &input, found).is_ok()
        });
        if !told {
            (0..dfa.pattern_len()).filter_map(|id| PatternID::new(id).ok()).for_each(|id| {
                found.insert(id);
            });
        }
    }

    /// Calls `each` with the start of every match that ends with a part, the last first; with all
    /// places where that cannot be told.
    pub(crate) fn begins(&mut self, text: &[u8], part: Range<usize>, mut each: impl FnMut(usize)) {
        let Some(BorrowedCache { notes: cache, .. }) = &mut self.taken else { return };
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
