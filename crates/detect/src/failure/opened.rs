//! Opened expressions: each runs only where a literal stands without which it cannot match.
//!
//! One pass over a text finds the literals of all expressions. How far each stands from the place
//! that its expression is bound to, in bytes and in spaces, leaves a few places at which a few
//! expressions are tried.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use hashbrown::HashMap;

use super::literals::LiteralFinder;
use super::openers::{Distance, Opener, openers};
use super::tree::{MatchStart, Tree, steps_for};
use crate::normalise::escaped;
use crate::normalise::shadow::Shadow;

/// Spaces of a text whose places are known.
const SPACES: usize = 16;

/// A text as expressions see it: normalised, and in small letters where capitals do not matter.
pub(super) struct FoldedText<'t> {
    normal: Cow<'t, str>,
    small: OnceCell<String>,
}

impl<'t> FoldedText<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let is_folded = !text.is_ascii() || escaped::occurs(text);
        let normal = if is_folded { Shadow::of(text).text.into() } else { text.into() };
        Self { normal, small: OnceCell::new() }
    }

    /// Takes it as it is.
    pub(super) fn plain(text: &'t str) -> Self {
        Self { normal: text.into(), small: OnceCell::new() }
    }

    /// Returns it in small letters; those beyond ASCII always are.
    pub(super) fn small(&self) -> &str {
        self.small.get_or_init(|| self.normal.to_ascii_lowercase())
    }
}

/// Place where matches of an expression begin.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Begin {
    Text,
    Line,
    Anywhere,
}

/// One alternative of an expression.
struct Branch {
    expression: usize,
    tree: Arc<Tree>,
    start: MatchStart,
    begin: Begin,
    case_sensitive: bool,
}

/// Places at which a branch is tried.
struct Candidate {
    branch: u16,
    from: u32,
    to: u32,
}

/// Continuation of a search behind a match.
pub(super) enum Onward {
    /// To the next match.
    Next,
    /// To the next expression.
    NextExpression,
    Stop,
}

/// Compiled alternatives of several expressions, in the order in which they were added.
#[derive(Default)]
pub(super) struct OpenedExpressions {
    by_literal: HashMap<String, usize>,
    /// Literals, and the branches of each, with what they have before it.
    openers: Vec<(String, Vec<(u16, Distance)>)>,
    finder: LiteralFinder,
    branches: Vec<Branch>,
    /// Branches without a literal.
    unopened: Vec<u16>,
}

impl OpenedExpressions {
    /// Adds an expression: by its alternatives, or whole.
    pub(super) fn add(&mut self, expression: usize, trees: Vec<Arc<Tree>>, begin: Begin, case_sensitive: bool) {
        for tree in trees {
            let branch = self.branches.len() as u16;
            match openers(&tree) {
                Some(found) => found.into_iter().for_each(|opener| self.open(branch, opener)),
                None => self.unopened.push(branch),
            }
            let start = tree.start();
            self.branches.push(Branch { expression, tree, start, begin, case_sensitive });
        }
    }

    fn open(&mut self, branch: u16, opener: Opener) {
        let Self { by_literal, openers, finder, .. } = self;
        let index = *by_literal.entry_ref(&*opener.literal).or_insert_with(|| {
            finder.enter(opener.literal.as_bytes(), openers.len() as u16);
            openers.push((opener.literal.clone(), Vec::new()));
            openers.len() - 1
        });
        openers[index].1.push((branch, opener.before));
    }

    /// Returns the places at which expressions may match a text, in the order of these.
    fn candidates(&self, text: &FoldedText<'_>) -> Vec<Candidate> {
        let bytes = text.small().as_bytes();
        let mut spaces = [usize::MAX; SPACES];
        for (place, at) in spaces.iter_mut().zip(memchr::memchr_iter(b' ', bytes)) {
            *place = at;
        }
        let mut found = Vec::new();
        self.finder.search(bytes, |number, at| {
            let (literal, branches) = &self.openers[usize::from(number)];
            if !bytes[at..].starts_with(literal.as_bytes()) {
                return;
            }
            for &(branch, before) in branches {
                let from = at.saturating_sub(before.bytes);
                let is_bound = self.branches[usize::from(branch)].begin == Begin::Text;
                let is_near = || spaces.get(before.spaces).is_none_or(|space| *space >= at);
                if !is_bound || from == 0 && is_near() {
                    let to = if is_bound { 0 } else { at };
                    found.push(Candidate { branch, from: from as u32, to: to as u32 });
                }
            }
        });
        for &branch in &self.unopened {
            let is_bound = self.branches[usize::from(branch)].begin == Begin::Text;
            let to = if is_bound { 0 } else { bytes.len() };
            found.push(Candidate { branch, from: 0, to: to as u32 });
        }
        found.sort_unstable_by_key(|it| (it.branch, it.from));
        found
    }

    /// Returns the expressions that a text opens.
    #[cfg(test)]
    pub(super) fn opened(&self, text: &FoldedText<'_>) -> Vec<usize> {
        let branch = |it: &Candidate| self.branches[usize::from(it.branch)].expression;
        self.candidates(text).iter().map(branch).collect()
    }

    /// Goes through the matches in a text by expression, with the text that it is in; returns the
    /// number of steps.
    pub(super) fn search<'t>(
        &self,
        text: &'t FoldedText<'_>,
        mut found: impl FnMut(usize, &'t str, Range<usize>) -> Onward,
    ) -> usize {
        let steps = steps_for(&text.normal);
        let mut steps_left = steps;
        let mut done = usize::MAX;
        let candidates = self.candidates(text);
        for places in candidates.chunk_by(|a, b| a.branch == b.branch) {
            let branch = &self.branches[usize::from(places[0].branch)];
            let mut next = 0;
            for candidate in places {
                next = next.max(candidate.from as usize);
                while branch.expression != done
                    && let Some(at) = branch.find(text, next..=candidate.to as usize, &mut steps_left)
                {
                    next = at.end.max(at.start + 1);
                    match found(branch.expression, branch.text(text), at) {
                        Onward::Next => {}
                        Onward::NextExpression => done = branch.expression,
                        Onward::Stop => return steps - steps_left,
                    }
                }
                next = next.max(candidate.to as usize + 1);
            }
        }
        steps - steps_left
    }
}

impl Branch {
    /// Returns the text that it reads.
    fn text<'t>(&self, text: &'t FoldedText<'_>) -> &'t str {
        if self.case_sensitive { &text.normal } else { text.small() }
    }

    /// Returns the first match that begins at one of these places.
    fn find(
        &self,
        text: &FoldedText<'_>,
        places: RangeInclusive<usize>,
        steps_left: &mut usize,
    ) -> Option<Range<usize>> {
        let text = self.text(text);
        let begins = |at: &usize| {
            let is_there = match self.begin {
                Begin::Text => *at == 0,
                Begin::Line => *at == 0 || text.as_bytes()[at - 1] == b'\n',
                Begin::Anywhere => true,
            };
            is_there && self.start.fits(text, *at)
        };
        let mut places = places.filter(begins);
        places.find_map(|at| Some(at..self.tree.match_at(text, at, steps_left)?))
    }
}
