//! One search with a tree: backtracking from an offset of a text.

use std::ops::Range;

use regex_automata::util::look::{self, LookMatcher};
use regex_syntax::hir::Look;

use super::{CharClass, ExpressionTree, MatchStart, Repeat, TreeStep, has, is_of_word};

/// Bytes of a class repetition per step.
const BYTES_PER_STEP: usize = 8;
/// Limit on nested parts of an expression, including repetitions.
const DEPTH_MAX: usize = 400;

/// Match, with the first group that took part.
#[derive(Debug)]
pub(crate) struct TreeMatch {
    pub(crate) whole: Range<usize>,
    pub(crate) group: Option<Range<usize>>,
}

/// One search.
pub(super) struct TreeRun<'t> {
    text: &'t [u8],
    /// End of the range allowed for a match.
    end: usize,
    pub(super) steps_left: usize,
    depth: usize,
    /// True once steps or depth were used up.
    pub(super) gave_up: bool,
    /// First group that took part, with its number.
    group: Option<(u32, Range<usize>)>,
}

/// Continuation after a part: returns true if the rest matches too.
type Then<'f, 't> = &'f mut dyn FnMut(&mut TreeRun<'t>, usize) -> bool;

impl<'t> TreeRun<'t> {
    pub(super) fn of(text: &'t [u8], end: usize, steps_left: usize) -> Self {
        Self { text, end, steps_left, depth: 0, gave_up: false, group: None }
    }

    pub(super) fn match_at(&mut self, tree: &ExpressionTree, at: usize) -> Option<TreeMatch> {
        let mut found = None;
        self.depth = 0;
        self.group = None;
        self.part(tree, at, &mut |run, end| {
            let group = run.group.as_ref().map(|(_, group)| group.clone());
            found = Some(TreeMatch { whole: at..end, group });
            true
        });
        found
    }

    fn spend(&mut self) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left > 0
    }

    fn part(&mut self, part: &ExpressionTree, at: usize, then: Then<'_, 't>) -> bool {
        self.deeper(|run| match part {
            ExpressionTree::Row(steps) => run.row(steps, at, then),
            ExpressionTree::Either(parts, by_first) => {
                let few = by_first.as_ref().and_then(|by_first| by_first.at(run.text, at));
                let mut matches = |step: &TreeStep| {
                    step.start.fits(run.text, at) && run.part(&step.part, at, then)
                };
                match few {
                    Some(few) => few.iter().any(|&index| matches(&parts[usize::from(index)])),
                    None => parts.iter().any(matches),
                }
            }
            ExpressionTree::Repeat(repeat) => match repeat.class() {
                Some(class) => run.run_of((class, None), repeat, at, then),
                None => run.repeat(repeat, 0, at, then),
            },
            ExpressionTree::Group(number, part) => run.part(part, at, &mut |run, end| {
                let is_first = run.group.as_ref().is_none_or(|(known, _)| number <= known);
                let before = run.group.clone();
                if is_first {
                    run.group = Some((*number, at..end));
                }
                then(run, end) || {
                    run.group = before;
                    false
                }
            }),
            simple => run.simple(simple, at).is_some_and(|end| then(run, end)),
        })
    }

    /// Runs a nested part one level deeper.
    fn deeper(&mut self, go: impl FnOnce(&mut Self) -> bool) -> bool {
        if !self.spend() || self.depth > DEPTH_MAX {
            self.gave_up = true;
            return false;
        }
        self.depth += 1;
        let matches = go(self);
        self.depth -= 1;
        matches
    }

    fn row(&mut self, mut steps: &[TreeStep], mut at: usize, then: Then<'_, 't>) -> bool {
        while let [step, rest @ ..] = steps {
            if !step.start.fits(self.text, at) {
                return false;
            }
            match &step.part {
                ExpressionTree::Repeat(repeat) if let Some(class) = repeat.class() => {
                    let next = rest.first().map(|step| &step.start);
                    return self.deeper(|run| {
                        run.run_of((class, next), repeat, at, &mut |run, end| {
                            run.row(rest, end, then)
                        })
                    });
                }
                ExpressionTree::Row(_)
                | ExpressionTree::Either(..)
                | ExpressionTree::Repeat(_)
                | ExpressionTree::Group(..) => {
                    return self.part(&step.part, at, &mut |run, end| run.row(rest, end, then));
                }
                simple => match self.simple(simple, at) {
                    Some(end) => (at, steps) = (end, rest),
                    None => return false,
                },
            }
        }
        then(self, at)
    }

    /// Returns the end of a part with only one possible match.
    fn simple(&self, part: &ExpressionTree, at: usize) -> Option<usize> {
        match part {
            ExpressionTree::Literal(bytes) => {
                let end = at + bytes.len();
                let there = self.text.get(at..end).filter(|_| end <= self.end)?;
                // Most are a few bytes, and differ in one of the first.
                there.iter().zip(bytes).all(|(there, byte)| there == byte).then_some(end)
            }
            ExpressionTree::Class(class) => self.of_class(class, at),
            ExpressionTree::Look(Look::WordAscii) => self.is_edge(at).then_some(at),
            ExpressionTree::Look(look) => {
                let look = look::Look::from_repr(look.as_repr())?;
                LookMatcher::new().matches(look, self.text, at).then_some(at)
            }
            _ => None,
        }
    }

    /// Returns the end of a character of a class.
    #[inline]
    fn of_class(&self, class: &CharClass, at: usize) -> Option<usize> {
        class.bytes_at(self.text, at).map(|bytes| at + bytes).filter(|end| *end <= self.end)
    }

    fn is_edge(&self, at: usize) -> bool {
        let is_of = |at: usize| self.text.get(at).is_some_and(|byte| is_of_word(*byte));
        is_of(at) != is_of(at.wrapping_sub(1))
    }

    /// Matches a class repetition greedily, with backtracking if the rest requires; the rest begins
    /// with `next`.
    fn run_of(
        &mut self,
        (class, next): (&CharClass, Option<&MatchStart>),
        repeat: &Repeat,
        at: usize,
        then: Then<'_, 't>,
    ) -> bool {
        // Most are ASCII, which needs no decoding.
        let most = self.end.min(at.saturating_add(repeat.max as usize));
        let bytes = self.text.get(at..most).unwrap_or_default().iter();
        let of_ascii = bytes.take_while(|byte| byte.is_ascii() && has(class.ascii, **byte)).count();
        let mut end = at + of_ascii;
        let mut count = of_ascii as u32;
        while count < repeat.max
            && let Some(behind) = self.of_class(class, end)
        {
            end = behind;
            count += 1;
        }
        self.steps_left = self.steps_left.saturating_sub((end - at) / BYTES_PER_STEP);
        while count >= repeat.min {
            if next.is_none_or(|next| next.fits(self.text, end)) {
                if !self.spend() {
                    self.gave_up = true;
                    return false;
                }
                if then(self, end) {
                    return true;
                }
            }
            if count == 0 {
                return false;
            }
            count -= 1;
            end -= 1;
            while !class.is_of_bytes && self.text.get(end).is_some_and(is_within_char) {
                end -= 1;
            }
        }
        false
    }

    fn repeat(&mut self, repeat: &Repeat, count: u32, at: usize, then: Then<'_, 't>) -> bool {
        let is_enough = count >= repeat.min;
        if is_enough && !repeat.greedy && then(self, at) {
            return true;
        }
        let again = count < repeat.max
            && self.part(&repeat.part, at, &mut |run, end| {
                (end > at || !is_enough) && run.repeat(repeat, count + 1, end, then)
            });
        again || is_enough && repeat.greedy && then(self, at)
    }
}

fn is_within_char(byte: &u8) -> bool {
    byte & 0xc0 == 0x80
}
