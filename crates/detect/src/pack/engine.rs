//! Regex engine: lazy automata for searches that take a tree too many steps.

use std::ops::Range;

use regex_automata::meta::{self, Regex};
use regex_automata::{Input, Span};
use regex_syntax::hir::Hir;

use super::super::limits::{DFA_BYTES_MAX, REGEX_BYTES_MAX};
use crate::automata::cache_pool::{BorrowedCache, CompiledBytes, DfaCacheSlot};
use crate::tree::TreeMatch;

/// Compiled expression.
pub(crate) enum RegexEngine {
    /// An expression in the `regex` crate's syntax.
    Linear(Linear),
    /// An expression in ECMAScript's syntax.
    Javascript(regex::bytes::Regex),
}

/// Expression with the `regex` crate's meta engine, which chooses the search strategy.
pub(crate) struct Linear {
    regex: Box<Regex>,
    notes: DfaCacheSlot<meta::Cache>,
    _compiled: CompiledBytes,
}

impl RegexEngine {
    /// Compiles an expression; fails if it is too large.
    pub(super) fn linear(hir: &Hir) -> Result<Self, Box<meta::BuildError>> {
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            // A one-pass DFA is faster for groups, but takes a mebibyte per expression.
            .onepass(false)
            .hybrid_cache_capacity(DFA_BYTES_MAX);
        let regex = Regex::builder().configure(config).build_from_hir(hir)?;
        let _compiled = CompiledBytes::new(regex.memory_usage());
        let regex = Box::new(regex);
        Ok(Self::Linear(Linear { regex, notes: DfaCacheSlot::new(), _compiled }))
    }

    /// Starts a searcher.
    pub(crate) fn look(&self) -> EngineLook<'_> {
        match self {
            Self::Linear(linear) => {
                let notes = linear.notes.take(|| linear.regex.create_cache());
                EngineLook::Linear(LinearLook { linear, taken: Some(notes) })
            }
            Self::Javascript(regex) => EngineLook::Javascript(regex),
        }
    }
}

/// Searcher for successive parts of a text.
pub(crate) enum EngineLook<'e> {
    Linear(LinearLook<'e>),
    Javascript(&'e regex::bytes::Regex),
}

/// Searcher by the meta engine, with a cache of the pool.
pub(crate) struct LinearLook<'e> {
    linear: &'e Linear,
    /// `None` only during the drop.
    taken: Option<BorrowedCache<meta::Cache>>,
}

impl Drop for LinearLook<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.linear.notes.keep(taken);
        }
    }
}

impl LinearLook<'_> {
    fn find(&mut self, input: &Input<'_>) -> Option<TreeMatch> {
        let regex = &self.linear.regex;
        let cache = &mut self.taken.as_mut()?.notes;
        if regex.captures_len() < 2 {
            let whole = regex.search_with(cache, input)?.range();
            return Some(TreeMatch { whole, group: None });
        }
        let mut groups = regex.create_captures();
        regex.search_captures_with(cache, input, &mut groups);
        let group = (1..regex.captures_len()).find_map(|index| groups.get_group(index));
        Some(TreeMatch { whole: groups.get_match()?.range(), group: group.map(|it| it.range()) })
    }
}

impl EngineLook<'_> {
    /// Returns the first match within a part of a text, with the first group that took part; the
    /// surrounding text counts for `\b` and other assertions.
    pub(super) fn find(&mut self, text: &[u8], part: Range<usize>) -> Option<TreeMatch> {
        match self {
            Self::Linear(linear) => linear.find(&Input::new(text).span(Span::from(part))),
            Self::Javascript(regex) if regex.captures_len() < 2 => {
                let whole = regex.find_at(&text[..part.end], part.start)?.range();
                Some(TreeMatch { whole, group: None })
            }
            Self::Javascript(regex) => {
                let groups = regex.captures_at(&text[..part.end], part.start)?;
                let group = groups.get(1).map(|group| group.range());
                Some(TreeMatch { whole: groups.get(0)?.range(), group })
            }
        }
    }
}
