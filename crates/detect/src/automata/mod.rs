//! Lazy DFAs: expressions as automata that build their states while they read.
//!
//! In goes the HIR of an expression, out comes an automaton that reads a text one way: to the end
//! of the first match, or from one place on. The states that it built for the texts it has read are
//! kept in a pool of [caches](cache_pool).

pub(crate) mod cache_pool;
mod slim;

use std::ops::Range;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use self::cache_pool::{BorrowedCache, CompiledBytes, DfaCacheSlot};
pub(crate) use self::slim::slim;
use super::limits::{DFA_BYTES_MAX, REGEX_BYTES_MAX};

/// Direction and match semantics of an automaton.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ReadingWay {
    /// Forward, leftmost-first: to the end of the first match; of those that begin there, the one
    /// that the expression prefers.
    First,
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
        let nfa = thompson::Compiler::new().configure(nfa).build_from_hir(hir)?;
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa)?;
        let bytes = dfa.get_nfa().memory_usage() + dfa.memory_usage();
        Ok(Self { dfa, notes: DfaCacheSlot::new(), reading, _compiled: CompiledBytes::new(bytes) })
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
            ReadingWay::First => dfa.try_search_fwd(cache, input),
            ReadingWay::Back => dfa.try_search_rev(cache, input),
        };
        found.map(|found| found.map(|found| found.offset())).map_err(|_| ())
    }

    /// Returns the end of the first match within a part of a text.
    pub(crate) fn first(&mut self, text: &[u8], part: Range<usize>) -> Option<usize> {
        self.end(&Input::new(text).span(part)).ok().flatten()
    }

    /// Returns the farthest end of a match that is anchored where it starts to read a part.
    pub(crate) fn held(&mut self, text: &[u8], part: Range<usize>) -> Option<usize> {
        self.end(&Input::new(text).span(part).anchored(Anchored::Yes)).ok().flatten()
    }
}
