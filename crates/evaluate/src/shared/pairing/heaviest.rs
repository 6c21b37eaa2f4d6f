//! Maximum weight bipartite matching of expected calls with one group's calls, built one expected
//! call at a time.

use std::ops::Range;

use crate::shared::report::total;
use crate::shared::step_limit::WorkBudget;

/// Difference below which sums of fractions are equal.
const TINY: f64 = 1e-12;

/// Matching of expected calls with calls of one group.
pub(crate) struct HeaviestMatching {
    count: usize,
    /// Weights of the pairs, one row per expected call.
    worths: Vec<f64>,
    /// Call assigned to each expected one.
    call_of: Vec<Option<usize>>,
    /// Expected call that each call is assigned to.
    serves: Vec<Option<usize>>,
}

impl HeaviestMatching {
    /// Returns a matching without expected calls, for a group of `count` calls.
    pub(crate) fn new(count: usize) -> Self {
        Self { count, worths: Vec::new(), call_of: Vec::new(), serves: vec![None; count] }
    }

    fn worth(&self, expected: usize, call: usize) -> f64 {
        self.worths[expected * self.count + call]
    }

    /// Returns the weight of an expected call's pair, 0 without one.
    pub(crate) fn share(&self, expected: usize) -> f64 {
        self.call_of[expected].map_or(0.0, |call| self.worth(expected, call))
    }

    /// Returns the weight of all pairs.
    pub(crate) fn sum(&self) -> f64 {
        total((0..self.call_of.len()).map(|expected| self.share(expected)))
    }

    /// Adds an expected call, given its weight with each call, along the augmenting path of the
    /// largest gain, which keeps the weight at its maximum. The search is Bellman and Ford's, as
    /// reassigning a call costs the weight of its pair.
    pub(crate) fn add(&mut self, worths: impl IntoIterator<Item = f64>, effort: &WorkBudget) {
        let added = self.call_of.len();
        self.worths.extend(worths.into_iter().take(self.count));
        self.worths.resize((added + 1) * self.count, 0.0);
        self.call_of.push(None);
        let Some((gains, from)) = self.reach(added, effort) else { return };
        let total = |call: usize| match self.serves[call] {
            Some(served) => gains[call] - self.worth(served, call),
            None => gains[call],
        };
        let mut best: Option<usize> = None;
        for call in (0..self.count).filter(|call| gains[*call] > 0.0) {
            if best.map_or(TINY, total) + TINY < total(call) {
                best = Some(call);
            }
        }
        if let Some(last) = best {
            self.flip_path(last, added, &from);
        }
    }

    /// Returns the gain of assigning each call, and its predecessor on the path from the added
    /// expected call; `None` if `effort` runs out.
    fn reach(&self, added: usize, effort: &WorkBudget) -> Option<(Vec<f64>, Vec<usize>)> {
        let mut from = vec![added; self.count];
        let mut gains: Vec<f64> = (0..self.count).map(|call| self.worth(added, call)).collect();
        for _ in 0..self.count {
            let mut changed = false;
            for call in 0..self.count {
                let Some(served) = self.serves[call].filter(|_| gains[call] > 0.0) else {
                    continue;
                };
                if !effort.spend(1 + self.count / 8) {
                    return None;
                }
                let left = gains[call] - self.worth(served, call);
                for other in 0..self.count {
                    let gain = left + self.worth(served, other);
                    if self.worth(served, other) > 0.0 && gain > gains[other] + TINY {
                        (gains[other], from[other], changed) = (gain, served, true);
                    }
                }
            }
            if !changed {
                break;
            }
        }
        Some((gains, from))
    }

    /// Flips the augmenting path from the call at its end.
    fn flip_path(&mut self, last: usize, added: usize, from: &[usize]) {
        if let Some(served) = self.serves[last] {
            self.call_of[served] = None;
        }
        let mut call = last;
        // The path is at most as long as the number of expected calls.
        for _ in 0..=added {
            let expected = from[call];
            self.serves[call] = Some(expected);
            let before = self.call_of[expected].replace(call);
            match before {
                Some(before) if expected != added => call = before,
                _ => return,
            }
        }
    }
}

/// Returns the weight of the heaviest common subsequence of expected calls and groups of actual
/// ones, in the best order within groups. `worth(i, j)` is the weight of the expected call `i` and
/// the actual `j`, 0 if they do not match. Void if `effort` runs out.
pub(crate) fn in_order(
    expected: usize,
    groups: &[Range<usize>],
    effort: &WorkBudget,
    mut worth: impl FnMut(usize, usize) -> f64,
) -> f64 {
    let mut row = vec![0.0_f64; expected + 1];
    for group in groups {
        let mut rows = Vec::with_capacity(expected);
        for i in 0..expected {
            rows.push(group.clone().map(|j| worth(i, j)).collect::<Vec<f64>>());
        }
        let before = row.clone();
        // Among equal prefixes, the first start leaves the most positions.
        let is_start = |i: &usize| *i == 0 || before[*i] > before[*i - 1];
        for start in (0..expected).filter(is_start) {
            let mut pairs = HeaviestMatching::new(group.len());
            for i in start..expected {
                if rows[i].iter().any(|worth| *worth > 0.0) {
                    pairs.add(rows[i].iter().copied(), effort);
                    let sum = before[start] + pairs.sum();
                    row[i + 1] = row[i + 1].max(sum);
                }
                if !effort.spend(1 + pairs.call_of.len() / 4) {
                    return 0.0;
                }
            }
        }
        for i in 0..expected {
            row[i + 1] = row[i + 1].max(row[i]);
        }
    }
    row[expected]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shared::order;
    use crate::shared::order::tests::{flattened, groups_of};

    const WORTHS: [f64; 5] = [0.0, 0.0, 0.25, 1.0 / 3.0, 1.0];

    /// Groups, and what each call is worth to each expected one.
    fn cases() -> impl Strategy<Value = (Vec<usize>, Vec<Vec<f64>>)> {
        (prop::collection::vec(1_usize..4, 1..4), 1_usize..5).prop_flat_map(|(sizes, expected)| {
            let calls = sizes.iter().sum::<usize>();
            let worth = prop::sample::select(WORTHS.to_vec());
            let worths = prop::collection::vec(prop::collection::vec(worth, expected), calls);
            (Just(sizes), worths)
        })
    }

    proptest! {
        #[test]
        fn as_heavy_as_the_best_order_inside_the_groups((sizes, worths) in cases()) {
            let groups = groups_of(&sizes);
            let expected = worths[0].len();
            let found = in_order(expected, &groups, &WorkBudget::default(), |i, j| worths[j][i]);
            let weight = |calls: &Vec<usize>| {
                order::weight(expected, calls.len(), |i, j| worths[calls[j]][i])
            };
            let best = flattened(&groups).iter().map(weight).fold(0.0, f64::max);
            prop_assert!((found - best).abs() < 1e-9, "{} and not {}", found, best);
        }
    }

    #[test]
    fn a_call_moves_on_where_that_is_worth_more() {
        let effort = WorkBudget::default();
        let mut pairs = HeaviestMatching::new(2);
        pairs.add([1.0, 0.9], &effort);
        pairs.add([1.0, 0.0], &effort);
        assert_eq!((pairs.share(0), pairs.share(1)), (0.9, 1.0));
        pairs.add([0.0, 0.95], &effort);
        assert_eq!((pairs.share(2), pairs.sum()), (0.95, 1.95));
        pairs.add([0.3, 0.2], &effort);
        assert_eq!((pairs.share(3), pairs.sum()), (0.0, 1.95));
    }
}
