//! Expressions gated by literals: each runs only near a literal that every match has.
//!
//! One pass over a text finds the literals of all expressions. Three tests leave a few places for a
//! few expressions: the bytes beside a literal, its distance in bytes and spaces from the anchor of
//! its expression, and a second literal if one is common.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::literals::{EDGE_BYTES, FoundLiteral, LiteralSet};
use super::openers::{Opener, openers};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::normalise::escaped;
use crate::normalise::shadow::Shadow;
use crate::tree::beside::Begin;
use crate::tree::{ExpressionTree, MatchStart, alternatives, steps_for};
use regex_syntax::hir::{Hir, Look};

/// A short text has nothing between its edges.
const _: () = assert!(MESSAGE_BYTES_MAX <= 2 * EDGE_BYTES);
/// Number of spaces whose offsets are known.
const SPACES: usize = 16;

/// Text as expressions see it: normalised, and in lower case for case-insensitive ones.
pub(super) struct FoldedText<'t> {
    text: &'t str,
    normal: OnceCell<Cow<'t, str>>,
    small: OnceCell<String>,
    /// Literals in it.
    literals: OnceCell<Vec<FoundLiteral>>,
    /// Offsets of its first spaces.
    spaces: OnceCell<[usize; SPACES]>,
}

impl<'t> FoldedText<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self {
            text,
            normal: OnceCell::new(),
            small: OnceCell::new(),
            literals: OnceCell::new(),
            spaces: OnceCell::new(),
        }
    }

    /// Takes a text unchanged.
    pub(super) fn plain(text: &'t str) -> Self {
        Self { normal: Cow::Borrowed(text).into(), ..Self::of(text) }
    }

    /// Returns true if it is unchanged.
    pub(super) fn is_plain(&self) -> bool {
        self.normal().len() == self.text.len() && self.normal() == self.text
    }

    fn normal(&self) -> &str {
        self.normal.get_or_init(|| {
            let is_folded = !self.text.is_ascii() || escaped::occurs(self.text);
            if is_folded { Shadow::of(self.text).text.into() } else { self.text.into() }
        })
    }

    /// Returns it in lower case; letters beyond ASCII already are.
    pub(super) fn small(&self) -> &str {
        self.small.get_or_init(|| self.normal().to_ascii_lowercase())
    }

    fn spaces(&self) -> &[usize; SPACES] {
        self.spaces.get_or_init(|| {
            let mut spaces = [usize::MAX; SPACES];
            let found = memchr::memchr_iter(b' ', self.small().as_bytes());
            spaces.iter_mut().zip(found).for_each(|(place, at)| *place = at);
            spaces
        })
    }

    /// Returns the literals in it; only one set may be used per text.
    pub(super) fn literals(&self, literals: &LiteralSet) -> &[FoundLiteral] {
        self.literals.get_or_init(|| literals.places(self.small()))
    }
}

/// Expression to add.
pub(super) struct NewExpression<'n> {
    pub(super) hir: &'n Hir,
    pub(super) begin: Begin,
    pub(super) case_sensitive: bool,
    /// True if its alternatives cannot be tried one by one.
    pub(super) is_whole: bool,
    /// True if it is only searched in texts of at most [`MESSAGE_BYTES_MAX`].
    pub(super) is_of_short: bool,
    /// Literals in lower case of which a matched text has one; empty without such a condition.
    pub(super) needs: &'n [String],
}

/// One alternative of an expression.
struct Branch {
    expression: usize,
    tree: ExpressionTree,
    start: MatchStart,
    begin: Begin,
    case_sensitive: bool,
    /// True if each match has two literals.
    is_paired: bool,
}

/// Literal that opens a branch.
struct BranchOpener {
    branch: usize,
    /// True for the one of a pair that determines the start of a match.
    is_first: bool,
    opener: Opener,
    /// Index of the next opener of the same literal.
    next: u32,
}

/// Index that means no opener.
const NONE: u32 = u32::MAX;

/// Openers of one literal, with their greatest reach: most of its places in a text are beyond it.
#[derive(Clone, Copy)]
struct LiteralOpeners {
    /// Index of the first opener.
    first: u32,
    /// Greatest distance before the literal, bytes and spaces.
    bytes: u32,
    spaces: u32,
}

impl LiteralOpeners {
    const EMPTY: Self = Self { first: NONE, bytes: 0, spaces: 0 };

    fn may_stand(&self, at: u32, spaces: &[usize; SPACES]) -> bool {
        let is_beyond = |space: &usize| (*space as u64) < u64::from(at);
        at <= self.bytes && !spaces.get(self.spaces as usize).is_some_and(is_beyond)
    }
}

/// Continuation of a search after a match.
pub(super) enum Onward {
    /// With the next match.
    Next,
    /// With the next expression.
    NextExpression,
    Stop,
}

/// Branch, and places where its matches may begin.
type BranchPlaces = (usize, Range<usize>);

/// Compiled alternatives of several expressions, in the order of addition.
#[derive(Default)]
pub(super) struct OpenedExpressions {
    /// Number of expressions.
    count: usize,
    /// Openers by literal number.
    by_literal: Vec<LiteralOpeners>,
    openers: Vec<BranchOpener>,
    branches: Vec<Branch>,
    /// Branches without a literal.
    unopened: Vec<usize>,
}

impl OpenedExpressions {
    /// Adds an expression, which gets the next number.
    pub(super) fn add(&mut self, new: NewExpression<'_>, literals: &mut LiteralSet) {
        let NewExpression { hir, begin, case_sensitive, is_whole, is_of_short, needs } = new;
        let split = if is_whole { vec![hir.clone()] } else { alternatives(hir) };
        for hir in split {
            let tree = ExpressionTree::of(&hir, !case_sensitive);
            let begin = if tree.is_at(Look::Start) { Begin::Text } else { begin };
            let branch = self.branches.len();
            let both = openers(&tree, needs, begin);
            let is_paired = self.enter(branch, (begin, is_of_short), both, literals);
            let start = tree.start();
            let expression = self.count;
            self.branches.push(Branch {
                expression,
                tree,
                start,
                begin,
                case_sensitive,
                is_paired,
            });
        }
        self.count += 1;
    }

    /// Adds the literals of a branch; returns true if it has a pair.
    fn enter(
        &mut self,
        branch: usize,
        (begin, is_of_short): (Begin, bool),
        both: [Vec<Opener>; 2],
        literals: &mut LiteralSet,
    ) -> bool {
        let mut numbered = |opener: Opener| {
            let is_at_edge = is_of_short || opener.is_at_edge(begin, EDGE_BYTES);
            Some((literals.number(&opener.literal, is_at_edge)?, opener))
        };
        let mut of = |all: Vec<Opener>| all.into_iter().map(&mut numbered).collect();
        let both: [Option<Vec<(usize, Opener)>>; 2] = both.map(&mut of);
        let [Some(first), Some(other)] = both else {
            // One of them exceeds the limit.
            self.unopened.push(branch);
            return false;
        };
        if first.is_empty() {
            self.unopened.push(branch);
        }
        let is_paired = !other.is_empty();
        for (all, is_first) in [(first, true), (other, false)] {
            for (number, opener) in all {
                if self.by_literal.len() <= number {
                    self.by_literal.resize(number + 1, LiteralOpeners::EMPTY);
                }
                let of_literal = &mut self.by_literal[number];
                let bound = |most: usize| u32::try_from(most).ok().filter(|_| begin == Begin::Text);
                let reach = |most: usize| bound(most).unwrap_or(u32::MAX);
                of_literal.bytes = of_literal.bytes.max(reach(opener.before.bytes));
                of_literal.spaces = of_literal.spaces.max(reach(opener.before.spaces));
                let next = of_literal.first;
                of_literal.first = self.openers.len() as u32;
                self.openers.push(BranchOpener { branch, is_first, opener, next });
            }
        }
        is_paired
    }

    /// Returns the branches that may match a text, in order, with the possible starts of their
    /// matches.
    fn branches_for(&self, text: &FoldedText<'_>, literals: &[FoundLiteral]) -> Vec<BranchPlaces> {
        let spaces = text.spaces();
        let mut found: Vec<BranchPlaces> =
            self.unopened.iter().map(|&branch| (branch, 0..usize::MAX)).collect();
        let mut others = Vec::new();
        for &(number, at) in literals {
            let of_literal = self.by_literal.get(usize::from(number));
            let Some(of_literal) = of_literal.filter(|it| it.may_stand(at, spaces)) else {
                continue;
            };
            let at = at as usize;
            let mut index = of_literal.first;
            while let Some(BranchOpener { branch, is_first, opener, next }) =
                self.openers.get(index as usize)
            {
                index = *next;
                let before = opener.before;
                let is_bound = self.branches[*branch].begin == Begin::Text;
                let is_near = || spaces.get(before.spaces).is_none_or(|space| *space >= at);
                if is_bound && (before.bytes < at || !is_near())
                    || !opener.fits(text.small().as_bytes(), at)
                {
                    continue;
                }
                match (is_first, before.bytes) {
                    (false, _) => others.push(*branch),
                    (true, usize::MAX) => found.push((*branch, 0..usize::MAX)),
                    (true, bytes) => found.push((*branch, at.saturating_sub(bytes)..at + 1)),
                }
            }
        }
        others.sort_unstable();
        found.retain(|(branch, _)| {
            !self.branches[*branch].is_paired || others.binary_search(branch).is_ok()
        });
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

    /// Returns the expressions opened by a text.
    #[cfg(test)]
    pub(super) fn opened(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> Vec<usize> {
        let mut found = self.branches_for(text, text.literals(literals));
        found.dedup_by_key(|(branch, _)| *branch);
        found.into_iter().map(|(branch, _)| self.branches[branch].expression).collect()
    }

    /// Returns the expressions that match a text: those it opens, and those of all.
    #[cfg(test)]
    pub(super) fn matched(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> [Vec<usize>; 2] {
        let mut opened = Vec::new();
        self.search(text, &literals.places(text.small()), |expression, _, _| {
            opened.push(expression);
            Onward::NextExpression
        });
        let is_in = |branch: &&Branch| {
            let text = if branch.case_sensitive { text.normal() } else { text.small() };
            let mut steps_left = steps_for(text.as_bytes());
            branch.find(text, (0, &[(0, 0..usize::MAX)]), &mut steps_left).is_some()
        };
        let mut all: Vec<usize> =
            self.branches.iter().filter(is_in).map(|branch| branch.expression).collect();
        all.dedup();
        [opened, all]
    }

    /// Returns true if a text has a match.
    pub(super) fn is_match(&self, text: &FoldedText<'_>, literals: &[FoundLiteral]) -> bool {
        let mut is_match = false;
        self.search(text, literals, |_, _, _| {
            is_match = true;
            Onward::Stop
        });
        is_match
    }

    /// Visits the matches in a text by expression, each with its text; returns the number of steps.
    pub(super) fn search<'t>(
        &self,
        text: &'t FoldedText<'_>,
        literals: &[FoundLiteral],
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
