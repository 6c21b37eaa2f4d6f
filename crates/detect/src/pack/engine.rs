//! Regex engine: compiled expressions, in up to three automata.
//!
//! One automaton finds where the first match ends, a second one reads back from there to its
//! beginning, and a third finds its groups: the latter two are compiled when there is a match, and
//! with a known beginning of a match the second is never needed.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::meta::{self, Regex};
use regex_automata::{Anchored, Input, Span};
use regex_syntax::hir::Hir;

use super::super::limits::{DFA_BYTES_MAX, REGEX_BYTES_MAX};
use crate::automata::cache_pool::{BorrowedCache, CompiledBytes, DfaCacheSlot};
use crate::automata::{Automaton, AutomatonError, AutomatonLook, ReadingWay};

/// A compiled expression.
pub(crate) enum RegexEngine {
    /// An expression in the `regex` crate's syntax; can be anchored to a part of a text.
    Linear(Box<Linear>),
    /// An expression that asks for more than automata that read one way can tell: a `\b` of
    /// Unicode's words.
    General(General),
    /// An expression in ECMAScript's syntax.
    Javascript(regex::bytes::Regex),
}

/// Automata of one expression.
pub(crate) struct Linear {
    hir: Hir,
    first: Automaton,
    /// `None` where it cannot be compiled.
    back: OnceLock<Option<Automaton>>,
    groups: OnceLock<Option<General>>,
}

/// An expression under the `regex` crate's meta engine, which chooses by itself how it searches.
pub(crate) struct General {
    regex: Box<Regex>,
    notes: DfaCacheSlot<meta::Cache>,
    _compiled: CompiledBytes,
}

impl General {
    /// Compiles it with lazy automata, or for groups alone.
    fn new(hir: &Hir, with_automata: bool) -> Result<Self, AutomatonError> {
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .hybrid(with_automata)
            .dfa(with_automata)
            // A one-pass DFA is faster for groups, and takes a mebibyte for each expression.
            .onepass(false)
            .hybrid_cache_capacity(DFA_BYTES_MAX);
        let regex = Regex::builder().configure(config).build_from_hir(hir)?;
        let _compiled = CompiledBytes::new(regex.memory_usage());
        Ok(Self { regex: Box::new(regex), notes: DfaCacheSlot::new(), _compiled })
    }

    fn look(&self) -> GeneralLook<'_> {
        let notes = self.notes.take(|| self.regex.create_cache());
        GeneralLook { general: self, taken: Some(notes) }
    }
}

impl Linear {
    fn back(&self) -> Option<&Automaton> {
        let compile = || {
            let built = Automaton::new(&self.hir, ReadingWay::Back);
            built.inspect_err(|error| tracing::error!("an expression: {error}")).ok()
        };
        self.back.get_or_init(compile).as_ref()
    }

    fn groups(&self) -> Option<&General> {
        if self.hir.properties().explicit_captures_len() == 0 {
            return None;
        }
        let compile = || {
            let built = General::new(&self.hir, false);
            built.inspect_err(|error| tracing::error!("an expression: {error}")).ok()
        };
        self.groups.get_or_init(compile).as_ref()
    }
}

impl RegexEngine {
    /// Compiles the automaton for the ends of matches; the meta engine where that is not supported.
    pub(super) fn linear(hir: Hir) -> Result<Self, AutomatonError> {
        match Automaton::new(&hir, ReadingWay::First) {
            Ok(first) => {
                let back = OnceLock::new();
                let groups = OnceLock::new();
                Ok(Self::Linear(Box::new(Linear { hir, first, back, groups })))
            }
            Err(_) => Ok(Self::General(General::new(&hir, true)?)),
        }
    }

    /// Compiles the backward automaton too, which may be too large.
    pub(super) fn complete(&self) -> Result<(), AutomatonError> {
        if let Self::Linear(linear) = self {
            let _ = linear.back.set(Some(Automaton::new(&linear.hir, ReadingWay::Back)?));
        }
        Ok(())
    }

    /// Starts a searcher.
    pub(crate) fn look(&self) -> EngineLook<'_> {
        match self {
            Self::Linear(linear) => {
                EngineLook::Linear(LinearLook { linear, first: linear.first.look(), back: None })
            }
            Self::General(general) => EngineLook::General(general.look()),
            Self::Javascript(regex) => EngineLook::Javascript(regex),
        }
    }
}

/// Searcher of one part of a text after the other.
pub(crate) enum EngineLook<'e> {
    Linear(LinearLook<'e>),
    General(GeneralLook<'e>),
    Javascript(&'e regex::bytes::Regex),
}

/// Searcher by automata.
pub(crate) struct LinearLook<'e> {
    linear: &'e Linear,
    first: AutomatonLook<'e>,
    /// Started at the first match that needs it.
    back: Option<AutomatonLook<'e>>,
}

/// Searcher by the meta engine.
pub(crate) struct GeneralLook<'e> {
    general: &'e General,
    /// `None` only while it is dropped.
    taken: Option<BorrowedCache<meta::Cache>>,
}

impl Drop for GeneralLook<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.general.notes.keep(taken);
        }
    }
}

impl LinearLook<'_> {
    fn find(&mut self, text: &[u8], part: Range<usize>) -> Option<Range<usize>> {
        let end = self.first.first(text, part.clone())?;
        if end == part.start {
            return Some(end..end);
        }
        if self.back.is_none() {
            self.back = Some(self.linear.back()?.look());
        }
        let start = self.back.as_mut()?.held(text, part.start..end)?;
        Some(start..end)
    }
}

impl GeneralLook<'_> {
    fn find(&mut self, input: &Input<'_>) -> Option<Range<usize>> {
        let found = self.general.regex.search_with(&mut self.taken.as_mut()?.notes, input)?;
        Some(found.range())
    }

    fn group(&mut self, text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
        let regex = &self.general.regex;
        if regex.captures_len() < 2 {
            return None;
        }
        let mut groups = regex.create_captures();
        let input = Input::new(text).span(Span::from(found)).anchored(Anchored::Yes);
        regex.search_captures_with(&mut self.taken.as_mut()?.notes, &input, &mut groups);
        (1..regex.captures_len())
            .find_map(|index| groups.get_group(index))
            .map(|group| group.range())
    }
}

impl EngineLook<'_> {
    /// Returns the first match within a part of a text; the text around the part counts for `\b`
    /// and the like.
    pub(super) fn find(&mut self, text: &[u8], part: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Linear(linear) => linear.find(text, part),
            Self::General(general) => general.find(&Input::new(text).span(Span::from(part))),
            Self::Javascript(regex) => {
                regex.find_at(&text[..part.end], part.start).map(|found| found.range())
            }
        }
    }

    /// Returns the first group of a match that took part, where the expression has any.
    pub(super) fn group(&mut self, text: &[u8], found: Range<usize>) -> Option<Range<usize>> {
        match self {
            Self::Linear(look) => look.linear.groups()?.look().group(text, found),
            Self::General(general) => general.group(text, found),
            Self::Javascript(regex) if regex.captures_len() > 1 => {
                regex.captures_at(text, found.start)?.get(1).map(|group| group.range())
            }
            Self::Javascript(_) => None,
        }
    }
}
