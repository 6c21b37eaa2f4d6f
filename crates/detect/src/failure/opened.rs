//! Opened expressions: each runs only where a literal stands without which it cannot match.
//!
//! One pass over a text finds the literals of all expressions. How far each stands from the place
//! that its expression is bound to, in bytes and in spaces, leaves a few places at which a few
//! expressions are tried.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::literals::LiteralSet;
use super::openers::{Distance, Opener, openers};
use crate::normalise::escaped;
use crate::normalise::shadow::Shadow;
use crate::tree::{ExpressionTree, MatchStart, steps_for};

/// Spaces of a text whose places are known.
const SPACES: usize = 16;

/// A text as expressions see it: normalised, and in small letters where capitals do not matter.
pub(super) struct FoldedText<'t> {
    text: &'t str,
    normal: OnceCell<Cow<'t, str>>,
    small: OnceCell<String>,
    /// Literals in it.
    literals: OnceCell<Vec<(u16, u32)>>,
}

impl<'t> FoldedText<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let normal = OnceCell::new();
        Self { text, normal, small: OnceCell::new(), literals: OnceCell::new() }
    }

    /// Takes it as it is.
    pub(super) fn plain(text: &'t str) -> Self {
        Self { normal: Cow::Borrowed(text).into(), ..Self::of(text) }
    }

    /// Returns true if it is as it was.
    pub(super) fn is_plain(&self) -> bool {
        self.normal().len() == self.text.len() && self.normal() == self.text
    }

    fn normal(&self) -> &str {
        self.normal.get_or_init(|| {
            let is_folded = !self.text.is_ascii() || escaped::occurs(self.text);
            if is_folded { Shadow::of(self.text).text.into() } else { self.text.into() }
        })
    }

    /// Returns it in small letters; those beyond ASCII always are.
    pub(super) fn small(&self) -> &str {
        self.small.get_or_init(|| self.normal().to_ascii_lowercase())
    }

    fn literals(&self, literals: &LiteralSet) -> &[(u16, u32)] {
        self.literals.get_or_init(|| literals.places(self.small()))
    }
}

/// Place where matches of an expression begin.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Begin {
    Text,
    Line,
    Anywhere,
}

/// Expression as it is added.
pub(super) struct NewExpression<'n> {
    pub(super) tree: ExpressionTree,
    pub(super) begin: Begin,
    pub(super) case_sensitive: bool,
    /// True if its alternatives cannot be tried one by one.
    pub(super) is_whole: bool,
    /// Literals in small letters of which the text of a match has one; none if they do not matter.
    pub(super) needs: &'n [String],
}

/// One alternative of an expression.
struct Branch {
    expression: usize,
    tree: ExpressionTree,
    start: MatchStart,
    begin: Begin,
    case_sensitive: bool,
}

/// Continuation of a search behind a match.
pub(super) enum Onward {
    /// To the next match.
    Next,
    /// To the next expression.
    NextExpression,
    Stop,
}

/// A branch, and places where matches of it may begin.
type BranchPlaces = (usize, Range<usize>);

/// Compiled alternatives of several expressions, in the order in which they were added.
#[derive(Default)]
pub(super) struct OpenedExpressions {
    /// Number of expressions.
    count: usize,
    /// By the number of a literal its branches, with what they have before it.
    openers: Vec<Vec<(usize, Distance)>>,
    branches: Vec<Branch>,
    /// Branches without a literal.
    unopened: Vec<usize>,
}

impl OpenedExpressions {
    /// Adds an expression, which gets the next number.
    pub(super) fn add(&mut self, new: NewExpression<'_>, literals: &mut LiteralSet) {
        let NewExpression { tree, begin, case_sensitive, is_whole, needs } = new;
        let trees = if is_whole { vec![tree] } else { tree.split() };
        for tree in trees {
            let branch = self.branches.len();
            let found = openers(&tree, needs).into_iter();
            let numbered = |Opener { literal, before }| Some((literals.number(&literal)?, before));
            let found: Vec<(usize, Distance)> =
                found.map(numbered).collect::<Option<_>>().unwrap_or_default();
            if found.is_empty() {
                self.unopened.push(branch);
            }
            for (number, before) in found {
                if self.openers.len() <= number {
                    self.openers.resize_with(number + 1, Vec::new);
                }
                self.openers[number].push((branch, before));
            }
            let start = tree.start();
            let expression = self.count;
            self.branches.push(Branch { expression, tree, start, begin, case_sensitive });
        }
        self.count += 1;
    }

    /// Returns the branches that may match a text, in their order, with the places where their
    /// matches may begin.
    fn branches_for(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> Vec<BranchPlaces> {
        let mut spaces = [usize::MAX; SPACES];
        for (place, at) in spaces.iter_mut().zip(memchr::memchr_iter(b' ', text.small().as_bytes()))
        {
            *place = at;
        }
        let mut found: Vec<BranchPlaces> =
            self.unopened.iter().map(|&branch| (branch, 0..usize::MAX)).collect();
        for &(number, at) in text.literals(literals) {
            let at = at as usize;
            for &(branch, before) in self.openers.get(usize::from(number)).into_iter().flatten() {
                let is_bound = self.branches[branch].begin == Begin::Text;
                let is_near = || spaces.get(before.spaces).is_none_or(|space| *space >= at);
                if before.bytes == usize::MAX {
                    found.push((branch, 0..usize::MAX));
                } else if !is_bound || before.bytes >= at && is_near() {
                    found.push((branch, at.saturating_sub(before.bytes)..at + 1));
                }
            }
        }
        found.sort_unstable_by_key(|(branch, begins)| (*branch, begins.start));
        found.dedup_by(|(branch, begins), (last, before)| {
            let meets = branch == last && begins.start <= before.end;
            if meets {
                before.end = before.end.max(begins.end);
            }
            meets
        });
        found
    }

    /// Returns the expressions that a text opens.
    #[cfg(test)]
    pub(super) fn opened(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> Vec<usize> {
        let mut found = self.branches_for(text, literals);
        found.dedup_by_key(|(branch, _)| *branch);
        found.into_iter().map(|(branch, _)| self.branches[branch].expression).collect()
    }

    /// Goes through the matches in a text by expression, with the text that it is in; returns the
    /// number of steps.
    pub(super) fn search<'t>(
        &self,
        text: &'t FoldedText<'_>,
        literals: &LiteralSet,
        mut found: impl FnMut(usize, &'t str, Range<usize>) -> Onward,
    ) -> usize {
        let steps = steps_for(text.small().as_bytes());
        let mut steps_left = steps;
        let mut done = usize::MAX;
        for places in self.branches_for(text, literals).chunk_by(|one, next| one.0 == next.0) {
            let branch = &self.branches[places[0].0];
            let text = if branch.case_sensitive { text.normal() } else { text.small() };
            let mut next = 0;
            while branch.expression != done
                && let Some(at) = branch.find(text, (next, places), &mut steps_left)
            {
                next = at.end.max(at.start + 1);
                match found(branch.expression, text, at) {
                    Onward::Next => {}
                    Onward::NextExpression => done = branch.expression,
                    Onward::Stop => return steps - steps_left,
                }
            }
        }
        steps - steps_left
    }
}

impl Branch {
    /// Returns the first match from a place on that begins at one of these places.
    fn find(
        &self,
        text: &str,
        (from, places): (usize, &[BranchPlaces]),
        steps_left: &mut usize,
    ) -> Option<Range<usize>> {
        let text = text.as_bytes();
        let tried = |at: usize| {
            let end = || self.tree.match_at(text, at, steps_left);
            self.start.fits(text, at).then(end).flatten().map(|end| at..end)
        };
        let first = (from == 0).then_some(0);
        match self.begin {
            Begin::Anywhere => {
                let begins = places.iter().map(|(_, begins)| begins);
                let begins = begins.flat_map(|it| it.start.max(from)..it.end.min(text.len() + 1));
                { begins }.find_map(tried)
            }
            Begin::Text => first.and_then(tried),
            Begin::Line => {
                let before = from.saturating_sub(1);
                let ends = memchr::memchr_iter(b'\n', text.get(before..)?);
                let may_begin = |at: &usize| {
                    let next = places.partition_point(|(_, begins)| begins.end <= *at);
                    places.get(next).is_some_and(|(_, begins)| begins.contains(at))
                };
                let begins = first.into_iter().chain(ends.map(|end| before + end + 1));
                begins.filter(may_begin).find_map(tried)
            }
        }
    }
}
