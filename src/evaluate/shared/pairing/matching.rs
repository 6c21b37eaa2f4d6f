//! The most pairs that can be made: maximum bipartite matching.
//!
//! Edges are asked for, never stored, so memory is linear in the two sides. Time is bounded by the
//! number of questions ([`QUESTIONS_MAX`]), so that no input holds a shard for long.

use std::collections::VecDeque;

/// Questions "may these two be paired?" that one matching may cost.
pub const QUESTIONS_MAX: usize = 16_000_000;

/// The matching would cost more than [`QUESTIONS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {QUESTIONS_MAX} comparisons of calls would be needed")]
pub struct TooLarge;

/// Pairs as many of `left` as possible with distinct ones of `right`; gives the partner of each
/// left one. Where several matchings are largest, near positions are paired first.
pub fn maximum(
    left: usize,
    right: usize,
    mut edge: impl FnMut(usize, usize) -> bool,
) -> Result<Vec<Option<usize>>, TooLarge> {
    let mut search = Search {
        partner_of_left: vec![None; left],
        partner_of_right: vec![None; right],
        reached_from: vec![0; right],
        reached_in: vec![usize::MAX; right],
        questions_left: QUESTIONS_MAX,
    };
    for start in 0..left {
        search.augment(start, &mut edge)?;
    }
    Ok(search.partner_of_left)
}

struct Search {
    partner_of_left: Vec<Option<usize>>,
    partner_of_right: Vec<Option<usize>>,
    /// The left one from which a right one was reached, in the search `reached_in`.
    reached_from: Vec<usize>,
    reached_in: Vec<usize>,
    questions_left: usize,
}

impl Search {
    /// Looks, breadth first, for a path from `start` to a right one without a partner, along which
    /// all pairs change so that one more is made.
    fn augment(
        &mut self,
        start: usize,
        edge: &mut impl FnMut(usize, usize) -> bool,
    ) -> Result<(), TooLarge> {
        let right = self.partner_of_right.len();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for offset in 0..right {
                let to = (at + offset) % right;
                if self.reached_in[to] == start {
                    continue;
                }
                self.questions_left = self.questions_left.checked_sub(1).ok_or(TooLarge)?;
                if !edge(at, to) {
                    continue;
                }
                self.reached_in[to] = start;
                self.reached_from[to] = at;
                match self.partner_of_right[to] {
                    Some(next) => queue.push_back(next),
                    None => {
                        self.change_pairs(to);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn change_pairs(&mut self, end: usize) {
        let mut to = Some(end);
        while let Some(right) = to {
            let left = self.reached_from[right];
            to = self.partner_of_left[left].replace(right);
            self.partner_of_right[right] = Some(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries everything.
    fn naive(edges: &[Vec<bool>], left: usize, used: &mut Vec<bool>) -> usize {
        let Some(row) = edges.get(left) else { return 0 };
        let mut best = naive(edges, left + 1, used);
        for right in 0..row.len() {
            if row[right] && !used[right] {
                used[right] = true;
                best = best.max(1 + naive(edges, left + 1, used));
                used[right] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn as_many_pairs_as_trying_everything_finds(
            edges in (0_usize..6).prop_flat_map(|right| {
                prop::collection::vec(prop::collection::vec(any::<bool>(), right), 0..6)
            }),
        ) {
            let right = edges.first().map_or(0, Vec::len);
            let found = maximum(edges.len(), right, |l, r| edges[l][r]).unwrap();
            let pairs: Vec<_> =
                found.iter().enumerate().filter_map(|(l, r)| r.map(|r| (l, r))).collect();
            let mut taken: Vec<_> = pairs.iter().map(|(_, r)| *r).collect();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), pairs.len());
            prop_assert!(pairs.iter().all(|&(l, r)| edges[l][r]));
            prop_assert_eq!(pairs.len(), naive(&edges, 0, &mut vec![false; right]));
        }
    }

    #[test]
    fn matching_that_costs_too_much_is_refused() {
        let questions = |left, right| maximum(left, right, |_, _| false).map(|_| ());
        assert_eq!(questions(4000, 4000), Ok(()));
        assert_eq!(questions(4001, 4000), Err(TooLarge));
    }

    #[test]
    fn nothing_to_pair_pairs_nothing() {
        assert_eq!(maximum(2, 0, |_, _| true), Ok(vec![None, None]));
        assert_eq!(maximum(0, 2, |_, _| true), Ok(vec![]));
    }
}
