//! Bytes of a log by sender, so that small senders find space in a log that is nearly full of
//! others' records.
//!
//! Bytes are counted by stretches of positions. A stretch counts while a segment holds some of it;
//! space freed by compaction is deducted from all senders alike.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use spanscore_base::model::{Sender, SenderShares};

/// Inverse of the free share above which no shares are checked. It exceeds the space that
/// compaction leaves free.
const FREE_PARTS: u64 = 8;
/// Stretches of a full log. At most twice as many count, if segments with gaps hold more.
const STRETCHES: u64 = 64;
/// Largest number of distinct connections in a stretch; beyond it peers are counted, up to the same
/// number.
const SENDERS_MAX: usize = 256;

/// Occupancy of a log when a record arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRoom {
    /// Bytes in use.
    pub(super) used: u64,
    /// Limit, bytes.
    pub(super) size_max: u64,
}

/// Bytes of the log by sender.
#[derive(Debug, Default)]
pub(super) struct LogShares {
    stretches: VecDeque<Stretch>,
    shares: SenderShares,
    /// Counted bytes.
    counted: u64,
}

#[derive(Debug)]
struct Stretch {
    /// Position of its first record.
    base: u64,
    by_sender: BTreeMap<Sender, u64>,
}

impl LogShares {
    /// Returns true if the log has space for a sender's record. The last part of the space is only
    /// for senders that hold at most four times the rest, unless no other sender holds anything.
    pub(super) fn may_add(&self, sender: Sender, bytes: u64, room: LogRoom) -> bool {
        let LogRoom { used, size_max } = room;
        let left = size_max.saturating_sub(used);
        if left.saturating_sub(bytes) >= size_max / FREE_PARTS {
            return true;
        }
        // If less is stored than was counted, all counts are scaled down.
        let scaled = |bytes: u64| {
            let counted = u128::from(self.counted.max(used).max(1));
            let scaled = u128::from(bytes) * counted / u128::from(used.max(1));
            usize::try_from(scaled).unwrap_or(usize::MAX)
        };
        self.shares.fits_beside_others(scaled(left), sender.without_group(), scaled(bytes))
    }

    /// Counts a record added to a log of this maximum size.
    pub(super) fn add(&mut self, sender: Sender, (position, bytes): (u64, u64), size_max: u64) {
        let width = size_max / STRETCHES;
        let last = self.stretches.back().map(|last| last.base);
        if last.is_none_or(|base| position.saturating_sub(base) >= width) {
            self.stretches.push_back(Stretch { base: position, by_sender: BTreeMap::new() });
            if self.stretches.len() as u64 > 2 * STRETCHES {
                self.forget_at(0);
            }
        }
        let Some(Stretch { by_sender, .. }) = self.stretches.back_mut() else { return };
        let mut sender = sender.without_group();
        for most in [SENDERS_MAX, 2 * SENDERS_MAX] {
            if by_sender.len() < most || by_sender.contains_key(&sender) {
                *by_sender.entry(sender).or_default() += bytes;
                self.shares.add(sender, bytes as usize);
                self.counted += bytes;
                return;
            }
            sender.connection = 0;
        }
    }

    /// Removes an added record that could not be written.
    pub(super) fn remove(&mut self, sender: Sender, (position, bytes): (u64, u64)) {
        let after = self.stretches.partition_point(|stretch| stretch.base <= position);
        let stretch = after.checked_sub(1).and_then(|at| self.stretches.get_mut(at));
        let Some(Stretch { by_sender, .. }) = stretch else { return };
        let own = sender.without_group();
        for sender in [own, Sender { connection: 0, ..own }] {
            let Some(held) = by_sender.get_mut(&sender).filter(|held| **held >= bytes) else {
                continue;
            };
            *held -= bytes;
            if *held == 0 {
                by_sender.remove(&sender);
            }
            self.shares.remove(sender, bytes as usize);
            self.counted -= bytes;
            break;
        }
        // The log continues before positions that were never written.
        while self.stretches.back().is_some_and(|last| last.by_sender.is_empty()) {
            self.stretches.pop_back();
        }
    }

    /// Removes the stretches without a position in any segment, given the segments' positions in
    /// order. Positions after the last segment are waiting to be written.
    pub(super) fn keep_within(&mut self, segments: &[Range<u64>]) {
        let end = segments.last().map_or(0, |last| last.end);
        let mut at = 0;
        while let Some(next) = self.stretches.get(at + 1).map(|next| next.base) {
            let base = self.stretches[at].base;
            let first = segments.partition_point(|segment| segment.end <= base);
            let is_held = segments.get(first).is_some_and(|segment| segment.start < next);
            if is_held || next > end {
                at += 1;
            } else {
                self.forget_at(at);
            }
        }
    }

    fn forget_at(&mut self, at: usize) {
        for (sender, bytes) in self.stretches.remove(at).into_iter().flat_map(|it| it.by_sender) {
            self.shares.remove(sender, bytes as usize);
            self.counted -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    const SIZE_MAX: u64 = 64_000;

    fn sender(peer: u32, connection: u16) -> Sender {
        Sender { peer, connection, ..Sender::default() }
    }

    /// Adds records of a sender from a position on until it reaches its share; returns the next
    /// position.
    fn fill(shares: &mut LogShares, sender: Sender, from: u64) -> u64 {
        let mut used = from;
        while used + 100 <= SIZE_MAX
            && shares.may_add(sender, 100, LogRoom { used, size_max: SIZE_MAX })
        {
            shares.add(sender, (used, 100), SIZE_MAX);
            used += 100;
        }
        used
    }

    #[test]
    fn last_part_of_a_log_is_for_those_who_have_little() {
        let others = [
            (sender(1, 1), None, SIZE_MAX),
            (sender(1, 1), Some(sender(2, 1)), SIZE_MAX / 8 * 7),
            (sender(1, 1), Some(sender(1, 2)), SIZE_MAX / 8 * 7),
        ];
        for (flood, other, expected) in others {
            let mut shares = LogShares::default();
            let mut used = 0;
            if let Some(other) = other {
                shares.add(other, (0, 1000), SIZE_MAX);
                used = 1000;
            }
            let used = fill(&mut shares, flood, used);
            assert!(used <= expected && used + 100 >= expected, "{used} beside {other:?}");
            let Some(other) = other else { continue };
            let after = fill(&mut shares, other, used);
            assert!(after > used + 5_000, "{after}");
            // Once the log begins after the flood's records, the flood has room again.
            shares.keep_within(slice::from_ref(&(SIZE_MAX / 2..after)));
            let room = LogRoom { used: after - SIZE_MAX / 2, size_max: SIZE_MAX };
            assert!(shares.may_add(flood, 100, room));
            shares.keep_within(slice::from_ref(&(u64::MAX - 1..u64::MAX)));
            assert!(shares.counted <= SIZE_MAX / STRETCHES + 100);
        }
    }

    #[test]
    fn senders_beyond_those_of_a_stretch_count_by_their_peers() {
        let mut shares = LogShares::default();
        for connection in 1..=2000 {
            shares.add(sender(1, connection), (connection.into(), 1), u64::MAX);
        }
        for peer in 2..1000 {
            shares.add(sender(peer, 1), (peer.into(), 1), u64::MAX);
        }
        assert_eq!(shares.shares.held(sender(1, 7)), (2000, 1));
        assert_eq!(shares.stretches[0].by_sender.len(), 2 * SENDERS_MAX);
        shares.keep_within(slice::from_ref(&(u64::MAX - 1..u64::MAX)));
        assert!(shares.counted > 2000, "the last stretch stays");
    }

    #[test]
    fn stretches_do_not_grow_while_an_old_record_is_claimed() {
        // The first record is in a segment alone, or in one with gaps up to the last.
        for (has_gaps, expected) in [(false, 9), (true, 2 * STRETCHES as usize)] {
            let mut shares = LogShares::default();
            let segment = SIZE_MAX / 8;
            for position in (0..10 * SIZE_MAX).step_by(100) {
                shares.add(sender(1, 1), (position, 100), SIZE_MAX);
                let last = position / segment * segment..position + 100;
                let first_end = if has_gaps { last.start.max(100) } else { 100 };
                shares.keep_within(&[0..first_end, last]);
                assert!(shares.stretches.len() <= 2 * STRETCHES as usize);
            }
            assert_eq!(shares.stretches.len(), expected);
            let counted: u64 = shares.stretches.iter().flat_map(|it| it.by_sender.values()).sum();
            assert_eq!(shares.counted, counted);
            assert_eq!(shares.shares.held(sender(1, 1)).0 as u64, counted);
        }
    }

    #[test]
    fn unwritten_record_counts_for_no_sender() {
        let width = SIZE_MAX / STRETCHES;
        // A connection, one beyond the limit of a stretch, and one of another stretch.
        for connection in [1, 300, 2000] {
            let mut shares = LogShares::default();
            for connection in 1..=600 {
                shares.add(sender(1, connection), (connection.into(), 1), SIZE_MAX);
            }
            let position = 600 + width * u64::from(connection / 1000);
            let before = shares.counted;
            shares.add(sender(1, connection), (position, 50), SIZE_MAX);
            let held = shares.shares.held(sender(1, connection));
            shares.remove(sender(1, connection), (position, 50));
            assert_eq!((shares.counted, shares.stretches.len()), (before, 1), "{connection}");
            let after = shares.shares.held(sender(1, connection));
            assert_eq!(held.0 - after.0, 50, "{connection}");
        }
    }
}
