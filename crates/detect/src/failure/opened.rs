//! Expressions that are run only where a literal of theirs stands, and never by lazy automata.
//!
//! In goes a text, out come the alternatives that may match it, with the part in which each may
//! stand. One pass finds the literals; what is known of the bytes around each, and of its distance
//! from the place that an expression is bound to, leaves few of them. Those that are left run by
//! bounded backtracking, from one place on: no state is made that another text would need anew.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::HashMap;
use regex_automata::{Anchored, Input, Span};

use crate::automata::AutomatonError;
use crate::normalise::escaped;
use crate::normalise::shadow::Shadow;
use crate::pack::engine::General;
use crate::pack::openings::{Opening, PatternBranch, rough};
use crate::prefilter::sieve::{Hits, Sieve};

/// A text as expressions see it: normalised, and in small letters where capitals do not matter.
pub(super) struct FoldedText<'t> {
    normal: Cow<'t, str>,
    small: OnceCell<Vec<u8>>,
}

impl<'t> FoldedText<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let is_folded = !text.is_ascii() || escaped::occurs(text);
        let normal = if is_folded { Shadow::of(text).text.into() } else { text.into() };
        Self { normal, small: OnceCell::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.normal.as_bytes()
    }

    /// Returns it in small letters; those beyond ASCII always are.
    pub(super) fn small(&self) -> &[u8] {
        self.small.get_or_init(|| self.bytes().to_ascii_lowercase())
    }
}

/// One alternative of an expression.
pub(super) struct Branch {
    /// Number of its expression.
    pub(super) expression: usize,
    alternative: PatternBranch,
    binding: Binding,
    /// Sets of its literals, of each of which a match has one.
    sets: u8,
    /// Accepts all texts that it matches, and more.
    rough: OnceLock<Option<General>>,
    exact: OnceLock<Option<General>>,
}

/// Bounds of an expression to a place and to capitals.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Binding {
    /// Place where its matches begin.
    pub(super) begin: Begin,
    /// True if capitals matter.
    pub(super) case_sensitive: bool,
}

/// Beginning of matches.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Begin {
    /// At that of the text.
    Text,
    /// At that of a line.
    Line,
    /// Anywhere.
    Anywhere,
}

impl Branch {
    /// Returns the text that it reads.
    pub(super) fn text<'t>(&self, text: &'t FoldedText<'_>) -> &'t [u8] {
        if self.binding.case_sensitive { text.bytes() } else { text.small() }
    }

    /// Returns its first match in a part of the text that it reads.
    pub(super) fn find(&self, text: &[u8], part: &OpenedPart) -> Option<Range<usize>> {
        let bound = if part.is_anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(text).span(Span::from(part.part.clone())).anchored(bound);
        let rough = self.rough.get_or_init(|| {
            let rough = rough(&self.alternative.hir);
            rough.and_then(|hir| General::new(&hir, false).ok())
        });
        if let Some(rough) = rough
            && rough.look().find(&input.clone().earliest(true)).is_none()
        {
            return None;
        }
        let compiled =
            || self.compiled().inspect_err(|error| tracing::error!("an expression: {error}")).ok();
        self.exact.get_or_init(compiled).as_ref()?.look().find(&input)
    }

    fn compiled(&self) -> Result<General, AutomatonError> {
        General::new(&self.alternative.hir, false)
    }

    /// Returns true if it may begin with the byte that a text begins with.
    fn may_begin(&self, text: &[u8]) -> bool {
        let fits = |byte: &u8| *byte > 0x7f || self.alternative.first >> byte & 1 == 1;
        self.binding.begin != Begin::Text || text.first().is_none_or(fits)
    }
}

/// A literal of a branch.
struct Opener {
    branch: u16,
    /// Number of the set that the literal is of.
    set: u8,
    opening: Opening,
}

/// A branch that may match, and the part of the text in which it may.
#[derive(Clone)]
pub(super) struct OpenedPart {
    pub(super) branch: u16,
    pub(super) part: Range<usize>,
    /// Number of the set of literals that it is by.
    set: u8,
    /// True if its matches begin where the part does.
    pub(super) is_anchored: bool,
}

/// Compiled alternatives of several expressions, in the order in which they were added.
pub(super) struct OpenedExpressions {
    /// Sieve for literals in ASCII.
    ascii: Sieve,
    /// Sieve for the others.
    wide: Sieve,
    /// By literal.
    openers: Vec<Vec<Opener>>,
    branches: Vec<Branch>,
    /// Branches without a literal.
    unopened: Vec<u16>,
}

/// Collects alternatives.
#[derive(Default)]
pub(super) struct OpenedBuilder {
    literals: Vec<String>,
    by_literal: HashMap<String, usize>,
    openers: Vec<Vec<Opener>>,
    branches: Vec<Branch>,
    unopened: Vec<u16>,
}

impl OpenedBuilder {
    /// Adds an alternative of an expression.
    pub(super) fn add(&mut self, expression: usize, alternative: PatternBranch, binding: Binding) {
        let branch = self.branches.len() as u16;
        let mut alternative = alternative;
        let openings = std::mem::take(&mut alternative.openings);
        let sets = openings.len() as u8;
        if openings.is_empty() {
            self.unopened.push(branch);
        }
        for (set, openings) in (0..).zip(openings) {
            openings.into_iter().for_each(|opening| self.open(Opener { branch, set, opening }));
        }
        let (rough, exact) = Default::default();
        self.branches.push(Branch { expression, alternative, binding, sets, rough, exact });
    }

    fn open(&mut self, opener: Opener) {
        let literal = &opener.opening.literal;
        let index = *self.by_literal.entry(literal.clone()).or_insert_with(|| {
            self.literals.push(literal.clone());
            self.openers.push(Vec::new());
            self.literals.len() - 1
        });
        self.openers[index].push(opener);
    }

    pub(super) fn build(self) -> OpenedExpressions {
        let is_wide = |index: usize| !self.literals[index].is_ascii();
        OpenedExpressions {
            ascii: Sieve::new(&self.literals, true, |index| !is_wide(index)),
            wide: Sieve::new(&self.literals, false, is_wide),
            openers: self.openers,
            branches: self.branches,
            unopened: self.unopened,
        }
    }
}

impl OpenedExpressions {
    /// Compiles all branches, so that each mistake is found; else each is when first needed.
    pub(super) fn compile(&self) -> Result<(), AutomatonError> {
        self.branches.iter().try_for_each(|branch| {
            let _ = branch.exact.set(Some(branch.compiled()?));
            Ok(())
        })
    }

    /// Returns a branch by its number.
    pub(super) fn branch(&self, candidate: &OpenedPart) -> &Branch {
        &self.branches[usize::from(candidate.branch)]
    }

    /// Returns the branches that may match a text, in their order; parts of one do not overlap.
    pub(super) fn candidates(&self, text: &FoldedText<'_>) -> Vec<OpenedPart> {
        let bytes = text.bytes();
        let mut hits = Hits::default();
        let is_wide = !bytes.is_ascii();
        let top = if is_wide { u8::MAX } else { 0x7f };
        self.ascii.find(bytes, 0..bytes.len(), top, &mut hits);
        if is_wide {
            self.wide.find(bytes, 0..bytes.len(), top, &mut hits);
        }
        let mut found: Vec<OpenedPart> = Vec::new();
        for &(literal, at) in &hits.places {
            let openers = self.openers[usize::from(literal)].iter();
            found.extend(openers.filter_map(|opener| self.opened(opener, at as usize, bytes)));
        }
        let unopened = self.unopened.iter().map(|&branch| OpenedPart {
            branch,
            part: 0..bytes.len(),
            set: 0,
            is_anchored: self.branches[usize::from(branch)].binding.begin == Begin::Text,
        });
        found.extend(unopened.filter(|candidate| self.branch(candidate).may_begin(bytes)));
        found.sort_unstable_by_key(|it| (it.branch, it.set, it.part.start));
        self.retain_complete(&mut found);
        found.dedup_by(|next, last| {
            let meets = next.branch == last.branch
                && next.is_anchored == last.is_anchored
                && if next.is_anchored {
                    next.part.start == last.part.start
                } else {
                    next.part.start <= last.part.end
                };
            if meets {
                last.part.end = last.part.end.max(next.part.end);
            }
            meets
        });
        found
    }

    /// Retains the candidates by the first set of their branch, where something of each was found.
    fn retain_complete(&self, found: &mut Vec<OpenedPart>) {
        let mut complete = None;
        for index in (0..found.len()).rev() {
            let OpenedPart { branch, set, .. } = found[index];
            let sets = self.branches[usize::from(branch)].sets;
            if set > 0 {
                complete = Some(branch);
            } else if sets > 1 && complete != Some(branch) {
                found[index].set = u8::MAX;
            }
        }
        found.retain(|candidate| candidate.set == 0);
    }

    /// Returns the branch of a literal that stands at this place, if it may match around it.
    fn opened(&self, opener: &Opener, at: usize, text: &[u8]) -> Option<OpenedPart> {
        let Opener { branch, set, opening } = opener;
        let Branch { alternative, binding, .. } = &self.branches[usize::from(*branch)];
        let next = text.get(at + opening.literal.len());
        let goes_on = next.is_none_or(|&next| next > 0x7f || opening.next >> next & 1 == 1);
        let end = at.saturating_add(opening.after);
        if !goes_on || alternative.is_last && end < text.len() {
            return None;
        }
        let begin = match binding.begin {
            Begin::Text => Some(0),
            Begin::Line if opening.lines == 0 => {
                Some(memchr::memrchr(b'\n', &text[..at]).map_or(0, |line| line + 1))
            }
            Begin::Anywhere if opening.before == 0 => Some(at),
            Begin::Line | Begin::Anywhere => None,
        };
        if let Some(begin) = begin {
            let before = &text[begin..at];
            let is_far = before.len() > opening.before
                || memchr::memchr_iter(b' ', before).nth(opening.spaces).is_some();
            let first = text.get(begin).copied().unwrap_or(u8::MAX);
            if is_far || first <= 0x7f && alternative.first >> first & 1 == 0 {
                return None;
            }
        }
        let start = begin.unwrap_or(at.saturating_sub(opening.before));
        let part = start..end.min(text.len());
        Some(OpenedPart { branch: *branch, part, set: *set, is_anchored: begin.is_some() })
    }
}
