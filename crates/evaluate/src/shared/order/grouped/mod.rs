//! Expected order kept by calls of which some were made together: dynamic programme over groups.
//!
//! Nobody asks for an order inside a group of calls ([`ToolCall::group`]), so the best one counts:
//! what is found here is the most that any order inside the groups would give. The calls of one
//! group stand for a set of expected positions if each position has a call of its own that fits
//! it. Such sets are a transversal matroid, which is why looking at one position after the other
//! is enough:
//!
//! ```text
//! kept(g, j)   most of the first j positions that the first g groups stand for, in order
//!              = max over i <= j of kept(g - 1, i) + rank of the positions from i to j in group g
//! ```
//!
//! For the positions so far a group keeps the set of the latest ones that it can stand for: the
//! rank of the positions from i on is how many of that set lie there. Linear in the positions for
//! each call of a group, but for the search of calls that can change places ([`WorkBudget`]).
//!
//! [`ToolCall::group`]: spanscore_base::model::ToolCall::group

use std::ops::Range;

use super::TableTooLarge;
use crate::shared::step_limit::WorkBudget;
use spanscore_base::model::ToolCall;

/// No call, no position.
const NONE: u32 = u32::MAX;

/// Returns true if any of these calls were made together.
pub(crate) fn is_any<'c, 'a: 'c>(calls: impl IntoIterator<Item = &'c ToolCall<'a>>) -> bool {
    let mut calls = calls.into_iter();
    let Some(mut last) = calls.next() else { return false };
    calls.any(|call| std::mem::replace(&mut last, call).is_with(call))
}

/// Returns the ranges of groups among some calls, in order.
pub(crate) fn ranges(calls: &[&ToolCall<'_>]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |group: &[&ToolCall<'_>]| {
        end += group.len();
        end - group.len()..end
    };
    calls.chunk_by(|one, next| one.is_with(next)).map(range).collect()
}

/// One group of calls, and the positions that it stands for.
pub(crate) struct CallGroup {
    /// Number of calls.
    count: usize,
    /// For each position that was asked about, which calls fit it: one bit each.
    fits: Vec<u64>,
    /// The calls that stand for no position, one bit each.
    free: Vec<u64>,
    /// The positions that the group stands for, ascending.
    taken: Vec<u32>,
    /// The call of each position, or [`NONE`].
    call_of: Vec<u32>,
    /// The position of each call, or [`NONE`].
    position_of: Vec<u32>,
    search: SwapSearch,
    /// Work that was done since it was last asked for.
    steps: usize,
}

/// Buffers of the search for calls that can change places.
#[derive(Default)]
struct SwapSearch {
    /// The calls that were reached, one bit each.
    seen: Vec<u64>,
    /// The position that each of them was reached from.
    from: Vec<u32>,
    /// The positions that were reached.
    queue: Vec<u32>,
}

impl CallGroup {
    /// A group of so many calls that stands for nothing.
    pub(crate) fn new(count: usize) -> Self {
        let mut free = vec![u64::MAX; count.div_ceil(64)];
        if let (Some(last), 1..) = (free.last_mut(), count % 64) {
            *last = (1 << (count % 64)) - 1;
        }
        Self {
            count,
            fits: Vec::new(),
            free,
            taken: Vec::new(),
            call_of: Vec::new(),
            position_of: vec![NONE; count],
            search: SwapSearch::default(),
            steps: 0,
        }
    }

    /// Asks which calls fit the next position; whether any does.
    pub(crate) fn ask(&mut self, mut fits: impl FnMut(usize) -> bool) -> bool {
        let from = self.fits.len();
        self.fits.resize(from + self.free.len(), 0);
        for call in 0..self.count {
            self.fits[from + call / 64] |= u64::from(fits(call)) << (call % 64);
        }
        self.call_of.push(NONE);
        self.steps += self.free.len();
        self.fits[from..].iter().any(|bits| *bits != 0)
    }

    fn fitting(&self, position: u32) -> &[u64] {
        let blocks = self.free.len();
        &self.fits[position as usize * blocks..(position as usize + 1) * blocks]
    }

    /// Looks for a free call that can take a position, others moving on; where there is none, the
    /// search holds all positions that would have to give way.
    fn reach(&mut self, position: u32) -> Option<u32> {
        let SwapSearch { mut seen, mut from, mut queue } = std::mem::take(&mut self.search);
        seen.clear();
        seen.resize(self.free.len(), 0);
        from.resize(self.count, NONE);
        queue.clear();
        queue.push(position);
        let mut next = 0;
        let mut found = None;
        'search: while let Some(&at) = queue.get(next) {
            next += 1;
            self.steps += self.free.len();
            for (block, bits) in self.fitting(at).iter().enumerate() {
                let fresh = bits & !seen[block];
                seen[block] |= fresh;
                let free = fresh & self.free[block];
                let mut rest = if free != 0 { free } else { fresh };
                while rest != 0 {
                    let call = (block * 64) as u32 + rest.trailing_zeros();
                    rest &= rest - 1;
                    from[call as usize] = at;
                    if free != 0 {
                        found = Some(call);
                        break 'search;
                    }
                    queue.push(self.position_of[call as usize]);
                }
            }
        }
        self.search = SwapSearch { seen, from, queue };
        found
    }

    /// Gives a call that was reached to the position it was reached from, and so on up to the
    /// position that the search began with.
    fn hand_on(&mut self, mut call: u32, first: u32) {
        loop {
            let position = self.search.from[call as usize];
            self.position_of[call as usize] = position;
            let before = std::mem::replace(&mut self.call_of[position as usize], call);
            if position == first {
                return;
            }
            call = before;
            self.steps += 1;
        }
    }

    fn last(&self) -> u32 {
        self.call_of.len() as u32 - 1
    }

    /// Stands for the last position too, if it can.
    pub(crate) fn take(&mut self) -> bool {
        let last = self.last();
        let Some(call) = self.reach(last) else { return false };
        self.free[call as usize / 64] &= !(1 << (call % 64));
        self.hand_on(call, last);
        self.taken.push(last);
        true
    }

    /// Stands for the last position, if any call fits it; where that is one too many, the earliest
    /// that makes it so is given up.
    pub(crate) fn take_latest(&mut self) {
        if self.take() {
            return;
        }
        let last = self.last();
        let Some(&dropped) = self.search.queue.iter().min().filter(|at| **at != last) else {
            return;
        };
        let call = std::mem::replace(&mut self.call_of[dropped as usize], NONE);
        self.hand_on(call, last);
        self.taken.retain(|at| *at != dropped);
        self.taken.push(last);
        self.steps += self.taken.len();
    }

    /// Returns the number of positions it stands for.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// The work that was done since this was last asked.
    pub(crate) fn take_steps(&mut self) -> usize {
        std::mem::take(&mut self.steps)
    }
}

/// Expected order that some calls kept.
pub(crate) struct InOrder<'e, F> {
    /// Ranges of the groups among the calls.
    pub(crate) groups: Vec<Range<usize>>,
    /// Number of expected positions.
    pub(crate) expected: usize,
    /// Questions that may be asked, beside those at both ends.
    pub(crate) questions_max: usize,
    /// Work budget of the search.
    pub(crate) effort: &'e WorkBudget,
    /// True if a call fits a position.
    pub(crate) fits: F,
}

impl<'e, F: FnMut(usize, usize) -> bool> InOrder<'e, F> {
    /// Length of the longest common subsequence, in the best order inside the groups.
    pub(crate) fn length(mut self) -> Result<usize, TableTooLarge> {
        let (head, tail) = self.trim();
        let mut row = vec![0; self.expected - head - tail + 1];
        let effort = self.effort(row.len() - 1)?;
        for at in 0..self.groups.len() {
            self.advance(at, head, &mut row, effort)?;
        }
        Ok(head + tail + row.last().copied().unwrap_or(0) as usize)
    }

    /// The positions of one longest common subsequence, in order, and their number.
    pub(crate) fn kept(mut self) -> Result<Vec<usize>, TableTooLarge> {
        let mut row = vec![0; self.expected + 1];
        let effort = self.effort(self.expected)?;
        // Each row goes up by at most one from position to position: a bit each.
        let blocks = self.expected.div_ceil(64);
        let mut rows = vec![0_u64; blocks];
        for at in 0..self.groups.len() {
            self.advance(at, 0, &mut row, effort)?;
            let from = rows.len();
            rows.resize(from + blocks, 0);
            for (position, _) in row.array_windows().enumerate().filter(|(_, [a, b])| a < b) {
                rows[from + position / 64] |= 1 << (position % 64);
            }
        }
        self.walk_back(&Rows { bits: rows, blocks }, effort)
    }

    /// From the ends back: a position that adds nothing is left out, else a group that adds none.
    fn walk_back(&mut self, rows: &Rows, effort: &WorkBudget) -> Result<Vec<usize>, TableTooLarge> {
        let mut at = self.groups.len();
        let mut upto = self.expected;
        let mut found = Vec::new();
        while at > 0 && upto > 0 {
            let kept = rows.kept(at, upto);
            if rows.kept(at, upto - 1) == kept {
                upto -= 1;
            } else if rows.kept(at - 1, upto) == kept {
                at -= 1;
            } else {
                let group = self.groups[at - 1].clone();
                let mut positions = CallGroup::new(group.len());
                for position in 0..upto {
                    if positions.ask(|call| (self.fits)(group.start + call, position)) {
                        positions.take_latest();
                    }
                }
                self.spend(effort, positions.take_steps())?;
                at -= 1;
                for (count, position) in (1..).zip(positions.taken.iter().rev()) {
                    found.push(*position as usize);
                    upto = *position as usize;
                    if rows.kept(at, upto) + count == kept {
                        break;
                    }
                }
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Takes what is common at both ends off, as far as no call there was made together with
    /// others: it belongs to some longest common subsequence. Gives the lengths.
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

    fn effort(&self, positions: usize) -> Result<&'e WorkBudget, TableTooLarge> {
        let calls: usize = self.groups.iter().map(ExactSizeIterator::len).sum();
        match calls.checked_mul(positions) {
            Some(questions) if questions <= self.questions_max => Ok(self.effort),
            _ => Err(TableTooLarge { cells_max: self.questions_max }),
        }
    }

    fn spend(&self, effort: &WorkBudget, steps: usize) -> Result<(), TableTooLarge> {
        if effort.spend(steps) {
            Ok(())
        } else {
            Err(TableTooLarge { cells_max: self.questions_max })
        }
    }

    /// Goes from the row of the groups before one to that of this one too. The first position of
    /// the row is `head`.
    fn advance(
        &mut self,
        at: usize,
        head: usize,
        row: &mut [u32],
        effort: &WorkBudget,
    ) -> Result<(), TableTooLarge> {
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
            for (count, position) in (1..).zip(positions.taken.iter().rev()) {
                row[j + 1] = row[j + 1].max(before[*position as usize] + count);
            }
            self.spend(effort, positions.take_steps() + positions.len())?;
        }
        Ok(())
    }

    /// Returns true if the expected positions are kept in their order. Each group takes as
    /// many of the next positions as it can: to be further on is never worse.
    pub(crate) fn whole(mut self) -> Result<bool, TableTooLarge> {
        let mut next = 0;
        for at in 0..self.groups.len() {
            next += self.run(at, next)?;
        }
        Ok(next == self.expected)
    }

    /// Returns true if the calls are the expected ones, one for each position, in the best order.
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

    /// Returns the length of the run of positions, from one on, that a group can stand for.
    fn run(&mut self, at: usize, from: usize) -> Result<usize, TableTooLarge> {
        let group = self.groups[at].clone();
        if group.len() == 1 {
            return Ok(usize::from(from < self.expected && (self.fits)(group.start, from)));
        }
        let mut positions = CallGroup::new(group.len());
        while positions.len() < group.len() && from + positions.len() < self.expected {
            let position = from + positions.len();
            let too_large = TableTooLarge { cells_max: self.questions_max };
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

/// So many steps of a search cost no more than one question.
const STEPS_PER_QUESTION: usize = 4;

/// Length kept after each group: a bit for each position where it grew.
struct Rows {
    bits: Vec<u64>,
    blocks: usize,
}

impl Rows {
    /// Returns the length that the first groups keep of the first positions.
    fn kept(&self, groups: usize, upto: usize) -> usize {
        let row = &self.bits[groups * self.blocks..(groups + 1) * self.blocks];
        let whole = row.iter().take(upto / 64).map(|bits| bits.count_ones() as usize);
        let part = match (row.get(upto / 64), upto % 64) {
            (Some(bits), 1..) => (bits & ((1 << (upto % 64)) - 1)).count_ones() as usize,
            _ => 0,
        };
        whole.sum::<usize>() + part
    }
}

#[cfg(test)]
pub(crate) mod tests;
