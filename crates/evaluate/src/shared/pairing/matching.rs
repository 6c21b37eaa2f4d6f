//! Maximum bipartite matching of actual and expected calls.
//!
//! The algorithm is Hopcroft and Karp's with a lazy adjacency list: each expected call takes its
//! first unused match. Further pairs are checked only if all its matches are taken, once per pair.
//! Equal trajectories thus cost one check per call.
//!
//! An expected call with at least as many matches as there are expected calls can always be
//! assigned, so no more are kept. Memory is bounded by the square of the criteria, for any number
//! of calls.

use std::collections::VecDeque;
use std::convert::Infallible;

use smallvec::SmallVec;

/// Limit on the checks of pairs in one matching.
pub(crate) const QUESTIONS_MAX: usize = 16_000_000;

/// Error: the matching would cost more than [`QUESTIONS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {QUESTIONS_MAX} comparisons of calls would be needed")]
pub struct MatchingTooLarge;

/// Match of an actual call with an expected one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fit {
    /// They match.
    Yes,
    /// They do not match.
    No,
    /// The evidence is not recorded.
    Unknown,
}

/// Number of expected calls that can be satisfied.
#[derive(Debug, PartialEq)]
pub(crate) struct Served {
    /// By certain matches.
    pub(crate) certain: usize,
    /// By certain and unknown matches.
    pub(crate) possible: usize,
    /// Call assigned to each expected one, among certain matches.
    pub(crate) partners: SmallVec<[Option<u32>; 8]>,
}

/// Pairs as many of `left` as possible with distinct ones of `right`, near positions first.
pub(crate) fn pairs(
    left: usize,
    right: usize,
    mut edge: impl FnMut(usize, usize) -> bool,
) -> Result<usize, MatchingTooLarge> {
    let near = |at: usize| (0..right).map(move |offset| ((at + offset) % right) as u32);
    let mut questions_left = QUESTIONS_MAX;
    let ask = |at: usize, to: u32| {
        questions_left = questions_left.checked_sub(1).ok_or(MatchingTooLarge)?;
        Ok::<_, MatchingTooLarge>(if edge(at, to as usize) { Fit::Yes } else { Fit::No })
    };
    let mut search = MatchingSearch::new(left, right, near, ask);
    let waiting = search.take_free()?;
    search.serve_waiting(waiting)?;
    Ok(search.served())
}

/// Assigns the calls: `candidates(i)` are those of the expected call `i` of `expected`;
/// `fit(i, call)` checks a pair. `call_count` is the number of all calls.
pub(super) fn serve<C: Iterator<Item = u32>>(
    expected: usize,
    call_count: usize,
    candidates: impl Fn(usize) -> C,
    mut fit: impl FnMut(usize, u32) -> Fit,
) -> Served {
    let ask = |at: usize, call: u32| Ok::<_, Infallible>(fit(at, call));
    let Ok(served) = serve_asking(MatchingSearch::new(expected, call_count, candidates, ask));
    served
}

fn serve_asking<C, F, E>(mut search: MatchingSearch<C, F>) -> Result<Served, E>
where
    C: Iterator<Item = u32>,
    F: FnMut(usize, u32) -> Result<Fit, E>,
{
    // Unknown matches count anywhere, so all pairs are checked.
    (0..search.rows.len()).try_for_each(|at| search.ask_rest(at))?;
    let waiting = search.take_free()?;
    search.serve_waiting(waiting)?;
    let certain = search.served();
    let partners = search.left.iter().copied().collect();
    let mut is_any_unknown = false;
    for row in &mut search.rows {
        is_any_unknown |= !row.unknown.is_empty();
        row.fitting.append(&mut row.unknown);
    }
    if is_any_unknown {
        let waits = |at: &usize| search.left[*at].is_none() && !search.rows[*at].fitting.is_empty();
        let waiting = (0..search.rows.len()).filter(waits).collect();
        search.serve_waiting(waiting)?;
    }
    Ok(Served { certain, possible: search.served(), partners })
}

const FREE: u32 = u32::MAX;

/// Candidates of one expected call, as far as checked.
struct Candidates<C> {
    rest: C,
    fitting: Vec<u32>,
    unknown: Vec<u32>,
}

struct MatchingSearch<C, F> {
    rows: Vec<Candidates<C>>,
    ask: F,
    left: Vec<Option<u32>>,
    right: Vec<u32>,
    level: Vec<u32>,
    next: Vec<usize>,
}

impl<C, F, E> MatchingSearch<C, F>
where
    C: Iterator<Item = u32>,
    F: FnMut(usize, u32) -> Result<Fit, E>,
{
    fn new(left: usize, right: usize, candidates: impl Fn(usize) -> C, ask: F) -> Self {
        let row = |at| Candidates { rest: candidates(at), fitting: vec![], unknown: vec![] };
        Self {
            rows: (0..left).map(row).collect(),
            ask,
            left: vec![None; left],
            right: vec![FREE; right],
            level: Vec::new(),
            next: Vec::new(),
        }
    }

    fn served(&self) -> usize {
        self.left.iter().flatten().count()
    }

    /// Checks candidates up to the next match.
    fn ask_next(&mut self, at: usize) -> Result<Option<u32>, E> {
        let most = self.rows.len();
        let row = &mut self.rows[at];
        while row.fitting.len() < most {
            let Some(call) = row.rest.next() else { break };
            match (self.ask)(at, call)? {
                Fit::Yes => {
                    row.fitting.push(call);
                    return Ok(Some(call));
                }
                Fit::Unknown if row.unknown.len() < most => row.unknown.push(call),
                Fit::Unknown | Fit::No => {}
            }
        }
        Ok(None)
    }

    fn ask_rest(&mut self, at: usize) -> Result<(), E> {
        while self.ask_next(at)?.is_some() {}
        Ok(())
    }

    /// Assigns to each expected call its first unused match; returns those without one.
    fn take_free(&mut self) -> Result<Vec<usize>, E> {
        let mut waiting = Vec::new();
        for at in 0..self.rows.len() {
            let mut index = 0;
            loop {
                let known = self.rows[at].fitting.get(index).copied();
                let Some(call) = known.map_or_else(|| self.ask_next(at), |call| Ok(Some(call)))?
                else {
                    break;
                };
                if self.right[call as usize] == FREE {
                    self.left[at] = Some(call);
                    self.right[call as usize] = at as u32;
                    break;
                }
                index += 1;
            }
            if self.left[at].is_none() && index > 0 {
                waiting.push(at);
            }
        }
        Ok(waiting)
    }

    /// Assigns as many of the waiting ones as possible, by reassigning others.
    fn serve_waiting(&mut self, mut waiting: Vec<usize>) -> Result<(), E> {
        while !waiting.is_empty() && self.layer(&waiting)? {
            self.next.clear();
            self.next.resize(self.rows.len(), 0);
            let before = waiting.len();
            waiting.retain(|root| !self.augment(*root));
            if waiting.len() == before {
                break;
            }
        }
        Ok(())
    }

    /// Numbers the left ones by their distance from the waiting ones; true if an unused right one
    /// can be reached.
    fn layer(&mut self, waiting: &[usize]) -> Result<bool, E> {
        self.level.clear();
        self.level.resize(self.rows.len(), u32::MAX);
        let mut queue: VecDeque<usize> = waiting.iter().copied().collect();
        waiting.iter().for_each(|at| self.level[*at] = 0);
        let mut reachable = false;
        while let Some(at) = queue.pop_front() {
            self.ask_rest(at)?;
            for call in &self.rows[at].fitting {
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
        Ok(reachable)
    }

    /// Assigns a waiting expected call along a path through the layers, if possible.
    fn augment(&mut self, root: usize) -> bool {
        let mut path = vec![root];
        while let Some(&at) = path.last() {
            let Some(call) = self.rows[at].fitting.get(self.next[at]).copied() else {
                path.pop();
                continue;
            };
            self.next[at] += 1;
            match self.right[call as usize] {
                FREE => {
                    for step in path {
                        let call = self.rows[step].fitting[self.next[step] - 1];
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

    proptest! {
        #[test]
        fn as_many_pairs_as_trying_everything_finds(
            fits in (0_usize..7).prop_flat_map(|right| {
                prop::collection::vec(prop::collection::vec(any::<bool>(), right), 0..7)
            }),
        ) {
            let right = fits.first().map_or(0, Vec::len);
            let found = pairs(fits.len(), right, |left, right| fits[left][right]);
            prop_assert_eq!(found, Ok(naive(&fits, 0, 0)));
        }
    }

    #[test]
    fn matching_that_costs_too_much_is_refused() {
        let questions = |left, right| pairs(left, right, |_, _| false);
        assert_eq!(questions(4000, 4000), Ok(0));
        assert_eq!(questions(4001, 4000), Err(MatchingTooLarge));
    }

    #[test]
    fn equal_trajectories_cost_a_question_a_call() {
        let mut asked = 0;
        let found = pairs(100_000, 100_000, |left, right| {
            asked += 1;
            left == right
        });
        assert_eq!((found, asked), (Ok(100_000), 100_000));
    }

    #[test]
    fn nothing_to_pair_pairs_nothing() {
        assert_eq!(pairs(2, 0, |_, _| true), Ok(0));
        assert_eq!(pairs(0, 2, |_, _| true), Ok(0));
    }
}
