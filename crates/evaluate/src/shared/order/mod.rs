//! Longest common subsequence of expected positions and calls with parallel groups.
//!
//! Calls within a group ([`ToolCall::group`]) have no order, so the best one counts: the length is
//! the maximum over all orders within groups. Dynamic programming over the groups finds it; a
//! single call is a group of one:
//!
//! ```text
//! kept(g, j)   most of the first j positions that the first g groups cover, in order
//!              = max over i <= j of kept(g - 1, i) + rank of the positions from i to j in group g
//! ```
//!
//! For the positions so far, a group keeps the set of the latest ones that it can cover
//! ([`CallGroup`]): the rank of the positions from `i` on is the number of its elements there.
//!
//! [`of_singles`] is the special case of single words, 64 positions at a time; [`weight()`] is the
//! variant for single calls with weighted pairs.
//!
//! [`ToolCall::group`]: spanscore_base::model::ToolCall::group

mod bits;
mod group;
mod weight;

use std::ops::Range;

pub(crate) use bits::{Mask, Masks, holds, of_singles};
pub(crate) use group::CallGroup;
pub(crate) use weight::weight;

use crate::shared::step_limit::WorkBudget;
use spanscore_base::model::ToolCall;

/// Limit on the cells of a table with cheap cells.
pub(crate) const CELLS_MAX: usize = 64_000_000;

/// Search steps that cost at most as much as one comparison.
const STEPS_PER_QUESTION: usize = 4;

/// Error: the comparison would need more cells than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {cells_max} comparisons of calls would be needed")]
pub struct TableTooLarge {
    /// Limit on the cells of the table.
    pub cells_max: usize,
}

/// Returns true if any of these calls are parallel.
pub(crate) fn is_grouped<'c, 'a: 'c>(calls: impl IntoIterator<Item = &'c ToolCall<'a>>) -> bool {
    let mut calls = calls.into_iter();
    let Some(mut last) = calls.next() else { return false };
    calls.any(|call| std::mem::replace(&mut last, call).is_with(call))
}

/// Returns the ranges of the groups of the given calls, in order.
pub(crate) fn groups(calls: &[&ToolCall<'_>]) -> Vec<Range<usize>> {
    let mut groups = Vec::with_capacity(calls.len());
    let mut end = 0;
    for group in calls.chunk_by(|one, next| one.is_with(next)) {
        groups.push(end..end + group.len());
        end += group.len();
    }
    groups
}

/// Returns `calls` ranges of one call each.
pub(crate) fn singles(calls: usize) -> Vec<Range<usize>> {
    (0..calls).map(|call| call..call + 1).collect()
}

/// Ordered matching of expected positions and groups of calls.
pub(crate) struct InOrder<'e, F> {
    /// Ranges of the groups among the calls.
    pub(crate) groups: Vec<Range<usize>>,
    /// Number of expected positions.
    pub(crate) expected: usize,
    /// Limit on compared pairs of a call and a position, without the common ends.
    pub(crate) questions_max: usize,
    /// Work budget of the searches within groups.
    pub(crate) effort: &'e WorkBudget,
    /// Relation: true if a call matches a position.
    pub(crate) fits: F,
}

impl<F: FnMut(usize, usize) -> bool> InOrder<'_, F> {
    /// Returns the length of the longest common subsequence.
    pub(crate) fn length(mut self) -> Result<usize, TableTooLarge> {
        let (head, tail) = self.trim();
        let mut row = vec![0; self.expected - head - tail + 1];
        self.check_questions(row.len() - 1)?;
        for at in 0..self.groups.len() {
            self.advance(at, head, &mut row)?;
        }
        Ok(head + tail + row.last().copied().unwrap_or(0) as usize)
    }

    /// Returns the positions of one longest common subsequence, in order.
    pub(crate) fn kept(mut self) -> Result<Vec<usize>, TableTooLarge> {
        self.check_questions(self.expected)?;
        let mut row = vec![0; self.expected + 1];
        // Each row rises by at most one per position, so that a bit each suffices.
        let mut rows = bits::row(self.expected).to_vec();
        for at in 0..self.groups.len() {
            self.advance(at, 0, &mut row)?;
            rows.extend(bits::row_of(&row));
        }
        self.walk_back(&rows)
    }

    /// Removes the common prefix and suffix outside of parallel groups, which belong to some
    /// longest common subsequence. Returns their lengths.
    fn trim(&mut self) -> (usize, usize) {
        let mut head = 0;
        let mut tail = 0;
        let alone = |group: Option<&Range<usize>>| group.filter(|g| g.len() == 1).map(|g| g.start);
        while let Some(call) = alone(self.groups.get(head))
            && head < self.expected
            && (self.fits)(call, head)
        {
            head += 1;
        }
        self.groups.drain(..head);
        while let Some(call) = alone(self.groups.last())
            && head + tail < self.expected
            && (self.fits)(call, self.expected - tail - 1)
        {
            self.groups.pop();
            tail += 1;
        }
        (head, tail)
    }

    fn check_questions(&self, positions: usize) -> Result<(), TableTooLarge> {
        let calls: usize = self.groups.iter().map(ExactSizeIterator::len).sum();
        match calls.checked_mul(positions) {
            Some(questions) if questions <= self.questions_max => Ok(()),
            _ => Err(self.too_large()),
        }
    }

    fn spend(&self, steps: usize) -> Result<(), TableTooLarge> {
        if self.effort.spend(steps) { Ok(()) } else { Err(self.too_large()) }
    }

    fn too_large(&self) -> TableTooLarge {
        TableTooLarge { cells_max: self.questions_max }
    }

    /// Advances from the row of the groups before one to the row with it. The first position of the
    /// row is `head`.
    fn advance(&mut self, at: usize, head: usize, row: &mut [u32]) -> Result<(), TableTooLarge> {
        let group = self.groups[at].clone();
        if group.len() == 1 {
            let mut diagonal = 0;
            for j in 0..row.len() - 1 {
                let above = row[j + 1];
                let fits = (self.fits)(group.start, head + j);
                row[j + 1] = if fits { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
            return Ok(());
        }
        let before = row.to_vec();
        let mut positions = CallGroup::new(group.len());
        for j in 0..row.len() - 1 {
            row[j + 1] = before[j + 1].max(row[j]);
            if !positions.ask(|call| (self.fits)(group.start + call, head + j)) {
                continue;
            }
            positions.take_latest();
            for (count, position) in (1..).zip(positions.taken().iter().rev()) {
                row[j + 1] = row[j + 1].max(before[*position as usize] + count);
            }
            self.spend(positions.take_steps() + positions.len())?;
        }
        Ok(())
    }

    /// Backtracks from the ends: skips a position that adds nothing, else a group that adds none.
    fn walk_back(&mut self, rows: &[u64]) -> Result<Vec<usize>, TableTooLarge> {
        let blocks = self.expected.div_ceil(64);
        let kept = |groups: usize, upto: usize| {
            bits::kept(&rows[groups * blocks..(groups + 1) * blocks], upto)
        };
        let mut at = self.groups.len();
        let mut upto = self.expected;
        let mut found = Vec::new();
        while at > 0 && upto > 0 {
            let most = kept(at, upto);
            if kept(at, upto - 1) == most {
                upto -= 1;
            } else if kept(at - 1, upto) == most {
                at -= 1;
            } else {
                at -= 1;
                for (count, position) in (1..).zip(self.latest(at, upto)?.iter().rev()) {
                    upto = *position as usize;
                    found.push(upto);
                    if kept(at, upto) + count == most {
                        break;
                    }
                }
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Returns the latest of the first `upto` positions that a group can cover.
    fn latest(&mut self, at: usize, upto: usize) -> Result<Vec<u32>, TableTooLarge> {
        let group = self.groups[at].clone();
        let mut positions = CallGroup::new(group.len());
        for position in 0..upto {
            if positions.ask(|call| (self.fits)(group.start + call, position)) {
                positions.take_latest();
            }
        }
        self.spend(positions.take_steps())?;
        Ok(positions.taken().to_vec())
    }

    /// Returns true if the expected positions are a subsequence of the calls. Each group takes as
    /// many of the next positions as possible, which is never worse.
    pub(crate) fn whole(mut self) -> Result<bool, TableTooLarge> {
        let mut next = 0;
        for at in 0..self.groups.len() {
            next += self.run(at, next)?;
        }
        Ok(next == self.expected)
    }

    /// Returns true if the calls are exactly the expected ones, one per position, in the best
    /// order.
    pub(crate) fn exact(mut self) -> Result<bool, TableTooLarge> {
        let mut next = 0;
        for at in 0..self.groups.len() {
            if self.run(at, next)? < self.groups[at].len() {
                return Ok(false);
            }
            next += self.groups[at].len();
        }
        Ok(next == self.expected)
    }

    /// Counts the consecutive positions from `from` on that a group can cover.
    fn run(&mut self, at: usize, from: usize) -> Result<usize, TableTooLarge> {
        let group = self.groups[at].clone();
        if group.len() == 1 {
            return Ok(usize::from(from < self.expected && (self.fits)(group.start, from)));
        }
        let mut positions = CallGroup::new(group.len());
        while positions.len() < group.len() && from + positions.len() < self.expected {
            let position = from + positions.len();
            let too_large = self.too_large();
            self.questions_max = self.questions_max.checked_sub(group.len()).ok_or(too_large)?;
            positions.ask(|call| (self.fits)(group.start + call, position));
            if !positions.take() {
                break;
            }
            let steps = positions.take_steps() / STEPS_PER_QUESTION;
            self.questions_max = self.questions_max.checked_sub(steps).ok_or(too_large)?;
        }
        Ok(positions.len())
    }
}

#[cfg(test)]
pub(crate) mod tests;
