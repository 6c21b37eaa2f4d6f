//! Fast path of the matching: each expected call takes its first matching call, which is optimal in
//! nearly every trace.
//!
//! Calls are bits of one word, for trajectories of up to 128 calls. If all matches of an expected
//! call are taken, a [`matching`](super::matching) is necessary.

use smallvec::{SmallVec, smallvec};

use super::CriteriaGroups;
use super::matching::{Fit, Served};
use spanscore_base::model::ToolCall;

/// Number of pairs of an expected and an actual call up to which the fast path is tried first.
const TRIED_MAX: usize = 4_096;

/// Calls of a trajectory by group.
pub(super) struct FastPath<'g> {
    group_of: &'g [usize],
    call_count: usize,
    /// Calls of each group, one bit each.
    calls: SmallVec<[u128; 8]>,
}

impl<'g> FastPath<'g> {
    /// Groups the calls; `None` if there are too many.
    #[inline]
    pub(super) fn sort(groups: &'g CriteriaGroups, calls: &[ToolCall<'_>]) -> Option<Self> {
        let call_count = calls.len();
        if call_count > u128::BITS as usize {
            return None;
        }
        let mut sorted = smallvec![0; groups.count];
        groups.walk(calls, |at, group| sorted[group] |= 1_u128 << at);
        Some(Self { group_of: &groups.group_of, call_count, calls: sorted })
    }

    /// Assigns to each expected call the next unused one that `fits`, which suffices for most
    /// traces; `None` if that leaves one without a call, or would take long.
    pub(super) fn next_unused(&self, mut fits: impl FnMut(usize, u32) -> bool) -> Option<Served> {
        let expected = self.group_of.len();
        if expected > self.call_count || expected.saturating_mul(self.call_count) > TRIED_MAX {
            return None;
        }
        let mut partners = SmallVec::new();
        let mut taken = 0_u128;
        let mut from = 0;
        for (index, group) in self.group_of.iter().enumerate() {
            // Calls after the last assigned one come first: a run as expected is in order, so that
            // the first try nearly always matches. `checked_shl`, since a shift by all 128 bits
            // overflows.
            let free = self.calls[*group] & !taken;
            let later = free & u128::MAX.checked_shl(from).unwrap_or(0);
            let at = bits(later).chain(bits(free & !later)).find(|at| fits(index, *at))?;
            taken |= 1 << at;
            partners.push(Some(at));
            from = at + 1;
        }
        Some(Served { certain: expected, possible: expected, partners })
    }

    /// Assigns to each expected call its first unused match, if any; `None` if another assignment
    /// may be better.
    pub(super) fn first_unused(&self, mut fit: impl FnMut(usize, u32) -> Fit) -> Option<Served> {
        let mut partners: SmallVec<[Option<u32>; 8]> = SmallVec::new();
        let mut unknown: SmallVec<[u128; 4]> = SmallVec::new();
        let mut taken = 0_u128;
        for (index, group) in self.group_of.iter().enumerate() {
            let mut partner = None;
            let mut fits = false;
            let mut may_fit = 0;
            for at in bits(self.calls[*group]) {
                match fit(index, at) {
                    Fit::Yes if taken >> at & 1 == 0 => {
                        partner = Some(at);
                        break;
                    }
                    Fit::Yes => fits = true,
                    Fit::Unknown => may_fit |= 1 << at,
                    Fit::No => {}
                }
            }
            match partner {
                Some(at) => taken |= 1 << at,
                // A matching call is taken already, and its owner may have alternatives. Only a
                // matching can decide; an assumption could give too low a score.
                None if fits => return None,
                None if may_fit != 0 => unknown.push(may_fit),
                None => {}
            }
            partners.push(partner);
        }
        let certain = partners.iter().flatten().count();
        let possible = certain + unknown.len();
        for may_fit in unknown {
            let first = bits(may_fit & !taken).next()?;
            taken |= 1 << first;
        }
        Some(Served { certain, possible, partners })
    }
}

/// Returns the positions of the set bits, lowest first.
fn bits(mut mask: u128) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (at < u128::BITS).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::matching;
    use super::*;

    proptest! {
        #[test]
        fn what_is_served_by_first_fits_is_what_the_matching_serves(
            fits in (0_usize..6).prop_flat_map(|calls| {
                prop::collection::vec(prop::collection::vec(0_u8..6, calls), 0..6)
            }),
        ) {
            let call_count = fits.first().map_or(0, Vec::len);
            let fit = |index: usize, call: u32| match fits[index][call as usize] {
                0 => Fit::Yes,
                1 => Fit::Unknown,
                _ => Fit::No,
            };
            let expected = fits.len();
            let all = (1_u128 << call_count) - 1;
            let group_of = vec![0; expected];
            let fast_path = FastPath { group_of: &group_of, call_count, calls: smallvec![all] };
            let matched = matching::serve(expected, call_count, |_| 0..call_count as u32, fit);
            if let Some(served) = fast_path.first_unused(fit) {
                prop_assert_eq!(&served, &matched);
            }
            let fits = |index, call| fit(index, call) == Fit::Yes;
            if let Some(served) = fast_path.next_unused(fits) {
                prop_assert_eq!((served.certain, matched.certain), (expected, expected));
                let mut taken: Vec<_> = served.partners.iter().flatten().collect();
                taken.sort_unstable();
                taken.dedup();
                prop_assert_eq!(taken.len(), expected);
            }
        }
    }

    #[test]
    fn the_last_of_128_calls_is_found() {
        let fast_path =
            FastPath { group_of: &[0, 0], call_count: 128, calls: smallvec![u128::MAX] };
        let served = fast_path
            .next_unused(|index, call| call == [127, 3][index])
            .map(|served| served.partners);
        assert_eq!(served, Some(smallvec![Some(127), Some(3)]));
        assert_eq!(fast_path.next_unused(|_, call| call == 127), None);
    }
}
