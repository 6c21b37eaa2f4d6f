//! Which actual call serves which expected one, so that the most are served.
//!
//! Maximum bipartite matching by Hopcroft and Karp. An expected call with at least as many fitting
//! calls as there are expected ones can always be served, so no more of them are kept: memory is
//! bounded by the square of the criteria, however many calls a trace has.

use std::collections::VecDeque;

use smallvec::SmallVec;

/// Whether an actual call serves an expected one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::evaluate) enum Fit {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// What would tell is not recorded.
    Unknown,
}

/// How many expected calls can be served.
#[derive(Debug, PartialEq)]
pub(in crate::evaluate) struct Served {
    /// By calls that are known to fit.
    pub(in crate::evaluate) certain: usize,
    /// If every unknown call fits.
    pub(in crate::evaluate) possible: usize,
    /// The call that serves each expected one, among those known to fit.
    pub(in crate::evaluate) partners: SmallVec<[Option<u32>; 8]>,
}

/// Gives out the calls: `candidates(i)` are those that the expected one `i`, of `expected`, may
/// mean; `fit(i, call)` tells whether one serves it. Of `call_count` calls in all.
pub(in crate::evaluate) fn serve<C: Iterator<Item = u32>>(
    expected: usize,
    call_count: usize,
    candidates: impl Fn(usize) -> C,
    mut fit: impl FnMut(usize, u32) -> Fit,
) -> Served {
    let mut certain: Vec<Vec<u32>> = Vec::with_capacity(expected);
    let mut unknown: Vec<(usize, u32)> = Vec::new();
    for index in 0..expected {
        let mut fitting = Vec::new();
        let mut unknown_left = expected;
        for call in candidates(index) {
            match fit(index, call) {
                Fit::Yes => fitting.push(call),
                Fit::Unknown if unknown_left > 0 => {
                    unknown_left -= 1;
                    unknown.push((index, call));
                }
                Fit::Unknown | Fit::No => {}
            }
            if fitting.len() == expected {
                break;
            }
        }
        certain.push(fitting);
    }
    let partners = maximum(&certain, call_count);
    let count = |partners: &[Option<u32>]| partners.iter().flatten().count();
    let served = count(&partners);
    let mut possible = served;
    if !unknown.is_empty() {
        unknown.into_iter().for_each(|(index, call)| certain[index].push(call));
        possible = count(&maximum(&certain, call_count));
    }
    Served { certain: served, possible, partners: partners.into() }
}

const FREE: u32 = u32::MAX;

/// A largest matching: the right partner of each left one. Rights are below `right_count`.
fn maximum(edges: &[Vec<u32>], right_count: usize) -> Vec<Option<u32>> {
    let left = vec![None; edges.len()];
    if edges.iter().all(Vec::is_empty) {
        return left;
    }
    let right = vec![FREE; right_count];
    let mut search = Search { edges, left, right, level: Vec::new(), next: Vec::new() };
    let mut waiting = Vec::new();
    for (at, fitting) in edges.iter().enumerate() {
        match fitting.iter().find(|call| search.right[**call as usize] == FREE) {
            Some(call) => {
                search.left[at] = Some(*call);
                search.right[*call as usize] = at as u32;
            }
            None if fitting.is_empty() => {}
            None => waiting.push(at),
        }
    }
    while !waiting.is_empty() && search.layer(&waiting) {
        search.next.clear();
        search.next.resize(edges.len(), 0);
        let before = waiting.len();
        waiting.retain(|root| !search.augment(*root));
        if waiting.len() == before {
            break;
        }
    }
    search.left
}

struct Search<'e> {
    edges: &'e [Vec<u32>],
    left: Vec<Option<u32>>,
    right: Vec<u32>,
    level: Vec<u32>,
    next: Vec<usize>,
}

impl Search<'_> {
    /// Numbers the left ones by their distance from the waiting ones; whether a free right one can
    /// be reached.
    fn layer(&mut self, waiting: &[usize]) -> bool {
        self.level.clear();
        self.level.resize(self.edges.len(), u32::MAX);
        let mut queue: VecDeque<usize> = waiting.iter().copied().collect();
        waiting.iter().for_each(|at| self.level[*at] = 0);
        let mut reachable = false;
        while let Some(at) = queue.pop_front() {
            for call in &self.edges[at] {
                match self.right[*call as usize] {
                    FREE => reachable = true,
                    other if self.level[other as usize] == u32::MAX => {
                        self.level[other as usize] = self.level[at] + 1;
                        queue.push_back(other as usize);
                    }
                    _ => {}
                }
            }
        }
        reachable
    }

    /// Serves one waiting expected call along a path through the layers, if there is one.
    fn augment(&mut self, root: usize) -> bool {
        let mut path = vec![root];
        while let Some(&at) = path.last() {
            let Some(call) = self.edges[at].get(self.next[at]).copied() else {
                path.pop();
                continue;
            };
            self.next[at] += 1;
            match self.right[call as usize] {
                FREE => {
                    for step in path {
                        let call = self.edges[step][self.next[step] - 1];
                        self.left[step] = Some(call);
                        self.right[call as usize] = step as u32;
                    }
                    return true;
                }
                other if self.level[other as usize] == self.level[at] + 1 => {
                    path.push(other as usize);
                }
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries everything.
    fn naive(fits: &[Vec<bool>], at: usize, taken: u32) -> usize {
        let Some(row) = fits.get(at) else { return 0 };
        let free = (0..row.len()).filter(|call| row[*call] && taken >> call & 1 == 0);
        let served = free.map(|call| 1 + naive(fits, at + 1, taken | 1 << call)).max();
        served.unwrap_or(0).max(naive(fits, at + 1, taken))
    }

    proptest! {
        #[test]
        fn as_many_are_served_as_trying_everything_serves(
            fits in (0_usize..7).prop_flat_map(|calls| {
                prop::collection::vec(prop::collection::vec(0_u8..3, calls), 0..7)
            }),
        ) {
            let calls = fits.first().map_or(0, Vec::len);
            let kinds = [Fit::No, Fit::Yes, Fit::Unknown];
            let found = serve(fits.len(), calls, |_| 0..calls as u32, |index, call| {
                kinds[fits[index][call as usize] as usize]
            });
            let with = |least: &dyn Fn(u8) -> bool| -> Vec<Vec<bool>> {
                fits.iter().map(|row| row.iter().map(|fit| least(*fit)).collect()).collect()
            };
            prop_assert_eq!(found.certain, naive(&with(&|fit| fit == 1), 0, 0));
            prop_assert_eq!(found.possible, naive(&with(&|fit| fit > 0), 0, 0));
            let mut pairs: Vec<_> = found.partners.iter().flatten().copied().collect();
            pairs.sort_unstable();
            pairs.dedup();
            prop_assert_eq!(pairs.len(), found.certain);
            for (index, call) in found.partners.iter().enumerate() {
                prop_assert!(call.is_none_or(|call| fits[index][call as usize] == 1));
            }
        }
    }

    #[test]
    fn ten_thousand_calls_serve_a_thousand_expected_ones() {
        let all = serve(
            1000,
            10_000,
            |_| 0..10_000,
            |index, call| {
                if call as usize / 10 >= index { Fit::Yes } else { Fit::No }
            },
        );
        assert_eq!(all.certain, 1000);
        // Each fits two neighbours only, taken from the wrong end by the first pass.
        let chain = serve(
            1000,
            10_000,
            |_| 0..10_000,
            |index, call| {
                if [999 - index, 1000 - index].contains(&(call as usize)) {
                    Fit::Yes
                } else {
                    Fit::No
                }
            },
        );
        assert_eq!(chain.certain, 1000);
    }
}
