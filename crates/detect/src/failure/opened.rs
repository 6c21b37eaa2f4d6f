//! Opened expressions: each runs only where a literal stands without which it cannot match.
//!
//! One pass over a text finds the literals of all expressions. How far each stands from the place
//! that its expression is bound to, in bytes and in spaces, leaves a few places at which a few
//! expressions are tried.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use super::literals::LiteralSet;
use super::openers::{Distance, LITERAL_BYTES_MIN, Opener, openers};
use super::tree::{MatchStart, Tree, steps_for};
use crate::normalise::escaped;
use crate::normalise::shadow::Shadow;

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
        let (normal, small, literals) = Default::default();
        Self { text, normal, small, literals }
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

/// Bounds of an expression.
#[derive(Clone, Default)]
pub(super) struct Binding {
    pub(super) begin: Begin,
    pub(super) case_sensitive: bool,
    /// Literals in small letters of which the text has one; none if they do not matter.
    pub(super) needs: Vec<String>,
}

/// Place where matches of an expression begin.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Begin {
    Text,
    Line,
    #[default]
    Anywhere,
}

/// One alternative of an expression.
struct Branch {
    expression: usize,
    tree: Arc<Tree>,
    start: MatchStart,
    binding: Arc<Binding>,
    /// Numbers of the literals that it needs, where all of them have one.
    needs: Arc<[u16]>,
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
    /// By the number of a literal its branches, with what they have before it.
    openers: Vec<Vec<(u16, Distance)>>,
    branches: Vec<Branch>,
    /// Branches without a literal.
    unopened: Vec<u16>,
}

impl OpenedExpressions {
    /// Adds an expression: by its alternatives, or whole.
    pub(super) fn add(
        &mut self,
        expression: usize,
        trees: Vec<Arc<Tree>>,
        binding: &Arc<Binding>,
        literals: &mut LiteralSet,
    ) {
        let split = |tree: Arc<Tree>| match openers(&tree).or_else(|| named(&binding.needs)) {
            Some(openers) => vec![(tree, openers)],
            None => {
                let rows = tree.split_row().into_iter();
                rows.map(|row| (Arc::clone(&row), openers(&row).unwrap_or_default())).collect()
            }
        };
        let mut needs: Vec<u16> = named(&binding.needs)
            .into_iter()
            .flatten()
            .map(|need| literals.number(&need.literal))
            .collect();
        needs.sort_unstable();
        let needs: Arc<[u16]> = needs.into();
        for (tree, openers) in trees.into_iter().flat_map(split) {
            let branch = self.branches.len() as u16;
            if openers.is_empty() {
                self.unopened.push(branch);
            }
            for Opener { literal, before } in openers {
                let number = usize::from(literals.number(&literal));
                if self.openers.len() <= number {
                    self.openers.resize_with(number + 1, Vec::new);
                }
                self.openers[number].push((branch, before));
            }
            let start = tree.start();
            let needs = Arc::clone(&needs);
            let binding = Arc::clone(binding);
            self.branches.push(Branch { expression, tree, start, binding, needs });
        }
    }

    /// Returns the places at which expressions may match a text, in the order of these.
    fn candidates(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> Vec<Candidate> {
        let bytes = text.small().as_bytes();
        let mut spaces = [usize::MAX; SPACES];
        for (place, at) in spaces.iter_mut().zip(memchr::memchr_iter(b' ', bytes)) {
            *place = at;
        }
        let mut found = Vec::new();
        for &(number, at) in text.literals(literals) {
            let at = at as usize;
            for &(branch, before) in self.openers.get(usize::from(number)).into_iter().flatten() {
                let from = at.saturating_sub(before.bytes);
                let is_bound = self.branches[usize::from(branch)].binding.begin == Begin::Text;
                let is_near = || spaces.get(before.spaces).is_none_or(|space| *space >= at);
                if !is_bound || from == 0 && is_near() {
                    let to = if is_bound { 0 } else { at };
                    found.push(Candidate { branch, from: from as u32, to: to as u32 });
                }
            }
        }
        for &branch in &self.unopened {
            let is_bound = self.branches[usize::from(branch)].binding.begin == Begin::Text;
            let to = if is_bound { 0 } else { bytes.len() };
            found.push(Candidate { branch, from: 0, to: to as u32 });
        }
        found.sort_unstable_by_key(|it| (it.branch, it.from));
        found
    }

    /// Returns the expressions that a text opens.
    #[cfg(test)]
    pub(super) fn opened(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> Vec<usize> {
        let branch = |it: &Candidate| self.branches[usize::from(it.branch)].expression;
        self.candidates(text, literals).iter().map(branch).collect()
    }

    /// Goes through the matches in a text by expression, with the text that it is in; returns the
    /// number of steps.
    pub(super) fn search<'t>(
        &self,
        text: &'t FoldedText<'_>,
        literals: &LiteralSet,
        mut found: impl FnMut(usize, &'t str, Range<usize>) -> Onward,
    ) -> usize {
        let steps = steps_for(text.normal());
        let mut steps_left = steps;
        let mut done = usize::MAX;
        let candidates = self.candidates(text, literals);
        for places in candidates.chunk_by(|a, b| a.branch == b.branch) {
            let branch = &self.branches[usize::from(places[0].branch)];
            if branch.expression == done || !branch.has_needs(text, literals) {
                continue;
            }
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

/// Returns openers by the literals that a text must have.
fn named(needs: &[String]) -> Option<Vec<Opener>> {
    let is_enough = |need: &String| need.len() >= LITERAL_BYTES_MIN;
    let before = Distance { bytes: usize::MAX, spaces: usize::MAX };
    let opener = |need: &String| Opener { literal: need.clone(), before };
    (!needs.is_empty() && needs.iter().all(is_enough)).then(|| needs.iter().map(opener).collect())
}

impl Branch {
    /// Returns the text that it reads.
    fn text<'t>(&self, text: &'t FoldedText<'_>) -> &'t str {
        if self.binding.case_sensitive { text.normal() } else { text.small() }
    }

    /// Returns true if a text has one of the literals that it needs.
    fn has_needs(&self, text: &FoldedText<'_>, literals: &LiteralSet) -> bool {
        let needs = &self.binding.needs;
        if self.needs.is_empty() {
            return needs.is_empty() || needs.iter().any(|need| text.small().contains(&**need));
        }
        let mut found = text.literals(literals).iter();
        found.any(|(number, _)| self.needs.binary_search(number).is_ok())
    }

    /// Returns the first match that begins at one of these places.
    fn find(
        &self,
        text: &FoldedText<'_>,
        places: RangeInclusive<usize>,
        steps_left: &mut usize,
    ) -> Option<Range<usize>> {
        let text = self.text(text);
        let mut tried = |at: usize| {
            let end = || self.tree.match_at(text, at, steps_left);
            self.start.fits(text, at).then(end).flatten().map(|end| at..end)
        };
        match self.binding.begin {
            Begin::Anywhere => { places }.find_map(tried),
            Begin::Text => (*places.start() == 0).then(|| tried(0)).flatten(),
            Begin::Line => {
                let before = places.start().saturating_sub(1);
                let there = text.as_bytes().get(before..*places.end()).unwrap_or_default();
                let ends = memchr::memchr_iter(b'\n', there);
                let first = (*places.start() == 0).then_some(0);
                first.into_iter().chain(ends.map(|end| before + end + 1)).find_map(tried)
            }
        }
    }
}
