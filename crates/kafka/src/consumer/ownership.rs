//! Ownership of partitions: the position in each, and the unfinished work before it.

use std::sync::Arc;

use hashbrown::HashMap;

use super::done::{DoneRecords, METADATA_BYTES_MAX};
use spanscore_base::model::Source;

/// Topic and number of a partition.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Partition {
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
}

/// Partition owned by this process.
#[derive(Debug, Default)]
pub(super) struct OwnedPartition {
    pub(super) source: Arc<Source>,
    /// Offset after the last read record; `None` if still unknown.
    pub(super) next: Option<i64>,
    /// Last committed position.
    pub(super) committed: Option<Position>,
    /// Records finished before this process owned the partition.
    done_before: Option<DoneRecords>,
    /// Last known record of the partition at the brokers.
    pub(super) end: i64,
}

/// Offset to resume from, and the finished records after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub(super) offset: i64,
    pub(super) metadata: String,
}

impl OwnedPartition {
    /// Returns true if an earlier owner had finished a record.
    pub(super) fn was_done(&self, offset: i64) -> bool {
        self.done_before.as_ref().is_some_and(|done| done.has(offset))
    }
}

/// Partitions owned by this process.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    owned: HashMap<Partition, OwnedPartition>,
    /// Sources of earlier ownerships with undelivered evaluations.
    former: HashMap<Partition, Vec<Arc<Source>>>,
    /// Number of halvings of the metadata limit after refusals by the brokers.
    metadata_halvings: u32,
}

impl Ownership {
    /// Takes ownership of a partition, from a position on if known.
    pub(super) fn assign(&mut self, partition: Partition, committed: Option<Position>) {
        let next = committed.as_ref().map(|position| position.offset);
        let done_before = committed
            .as_ref()
            .and_then(|position| DoneRecords::decode(position.offset, &position.metadata));
        let state = OwnedPartition { next, committed, done_before, ..OwnedPartition::default() };
        let read = state.done_before.as_ref().map_or(0, DoneRecords::end);
        state.source.note_read_before(u64::try_from(read).unwrap_or(0));
        self.owned.insert(partition, state);
    }

    /// Ends the ownership of a partition: its source is retired.
    pub(super) fn revoke(&mut self, partition: &Partition) {
        let Some(state) = self.owned.remove(partition) else { return };
        state.source.retire();
        self.former.entry(partition.clone()).or_default().push(state.source);
        self.forget_done();
    }

    /// Ends all ownerships.
    pub(super) fn revoke_all(&mut self) {
        let all: Vec<Partition> = self.owned.keys().cloned().collect();
        all.iter().for_each(|partition| self.revoke(partition));
    }

    fn forget_done(&mut self) {
        self.former.retain(|_, sources| {
            sources.retain(|source| source.lowest().is_some());
            !sources.is_empty()
        });
    }

    pub(super) fn get_mut(&mut self, partition: &Partition) -> Option<&mut OwnedPartition> {
        self.owned.get_mut(partition)
    }

    /// Returns the owned partitions.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.owned.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.owned.len()
    }

    /// Returns the positions to commit, and the number of those whose finished records did not fit.
    pub(super) fn uncommitted(&mut self) -> (Vec<(Partition, Position)>, u64) {
        self.forget_done();
        let mut cut = 0;
        let mut positions = Vec::new();
        for (partition, state) in &self.owned {
            let Some((position, is_cut)) = self.position(partition, state) else { continue };
            if Some(&position) != state.committed.as_ref() {
                cut += u64::from(is_cut);
                positions.push((partition.clone(), position));
            }
        }
        (positions, cut)
    }

    /// Returns the lowest offset needed by unfinished work, else that of the next record; the
    /// finished records from it on; and true if some of those did not fit.
    fn position(&self, partition: &Partition, state: &OwnedPartition) -> Option<(Position, bool)> {
        let former = self.former.get(partition).into_iter().flatten();
        let claimed = former.chain([&state.source]).flat_map(|source| {
            let records = source.claimed_records().records;
            records.into_iter().filter_map(|(offset, _)| i64::try_from(offset).ok())
        });
        let mut needed: Vec<i64> = claimed.collect();
        needed.sort_unstable();
        // Records needed by an earlier ownership may lie after a position that was reset.
        let next = state.next?;
        let offset = needed.first().map_or(next, |first| *first.min(&next));
        let known = state.done_before.as_ref().filter(|done| done.end() > next);
        let end = known.map_or(next, DoneRecords::end);
        let unread = (next..end).filter(|offset| !state.was_done(*offset));
        let done = DoneRecords::except(offset, end, needed.into_iter().chain(unread));
        let (metadata, is_cut) = done.encode(METADATA_BYTES_MAX >> self.metadata_halvings);
        Some((Position { offset, metadata }, is_cut))
    }

    /// Notes a committed position.
    pub(super) fn committed(&mut self, partition: &Partition, position: Position) {
        if let Some(state) = self.owned.get_mut(partition) {
            state.committed = Some(position);
        }
    }

    /// Notes a refused position, to be committed again.
    pub(super) fn not_committed(&mut self, partition: &Partition) {
        if let Some(state) = self.owned.get_mut(partition) {
            state.committed = None;
        }
    }

    /// Halves the metadata of later positions after a refusal.
    pub(super) fn halve_metadata(&mut self) {
        self.metadata_halvings = (self.metadata_halvings + 1).min(METADATA_BYTES_MAX.ilog2() + 1);
    }

    /// Returns the number of unread records, and of those that would be read again.
    pub(super) fn behind(&self) -> (u64, u64) {
        let between = |from: Option<i64>, to: i64| {
            from.map_or(0, |from| u64::try_from(to.saturating_sub(from)).unwrap_or(0))
        };
        self.owned.values().fold((0, 0), |(lag, held_back), state| {
            let read = state.next.unwrap_or(0);
            let committed = state.committed.as_ref().map(|position| position.offset);
            (lag + between(state.next, state.end), held_back + between(committed, read))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::model::Claims;

    fn partition() -> Partition {
        Partition { topic: "spans".into(), number: 3 }
    }

    fn positions(owned: &mut Ownership) -> Vec<Position> {
        owned.uncommitted().0.into_iter().map(|(_, position)| position).collect()
    }

    fn offsets(owned: &mut Ownership) -> Vec<i64> {
        positions(owned).into_iter().map(|position| position.offset).collect()
    }

    fn at(offset: i64) -> Option<Position> {
        Some(Position { offset, metadata: DoneRecords::default().encode(METADATA_BYTES_MAX).0 })
    }

    #[test]
    fn position_is_that_of_the_oldest_work_or_of_the_next_record() {
        let mut owned = Ownership::default();
        owned.assign(partition(), at(7));
        assert_eq!(offsets(&mut owned), [] as [i64; 0], "it is committed");
        let state = owned.get_mut(&partition()).unwrap();
        state.next = Some(12);
        state.end = 20;
        let claims = [8, 10].map(|offset| state.source.claim(offset, 0));
        let first = positions(&mut owned).remove(0);
        assert_eq!(first.offset, 8);
        owned.committed(&partition(), first);
        assert_eq!((offsets(&mut owned).len(), owned.behind()), (0, (8, 4)));
        drop(claims);
        assert_eq!(offsets(&mut owned), [12]);
    }

    #[test]
    fn next_owner_skips_what_is_done_and_so_does_the_one_after_it() {
        let mut owned = Ownership::default();
        owned.assign(partition(), at(0));
        let state = owned.get_mut(&partition()).unwrap();
        state.next = Some(10);
        let _open = [3, 7].map(|offset| state.source.claim(offset, 0));
        let mut position = positions(&mut owned).remove(0);
        // Each of them reads only the first records before the next takes over.
        for read in [4, 4, 5] {
            let mut next = Ownership::default();
            next.assign(partition(), Some(position.clone()));
            let state = next.get_mut(&partition()).unwrap();
            let done: Vec<i64> = (0..12).filter(|offset| state.was_done(*offset)).collect();
            assert_eq!((position.offset, done), (3, vec![4, 5, 6, 8, 9]));
            let was_read = |it| Claims::from(state.source.claim(it, 0)).were_read_before();
            assert_eq!([3, 7, 10].map(was_read), [true, true, false]);
            state.next = Some(read);
            let _open = state.source.claim(3, 0);
            position = positions(&mut next).pop().unwrap_or(position);
        }
    }

    #[test]
    fn work_of_an_earlier_ownership_moves_nothing_and_is_not_overtaken() {
        let mut owned = Ownership::default();
        owned.assign(partition(), at(0));
        let first = Arc::clone(&owned.get_mut(&partition()).unwrap().source);
        let on_its_way = first.claim(5, 0);
        owned.revoke(&partition());
        assert!(first.is_retired() && offsets(&mut owned).is_empty());
        owned.assign(partition(), at(3));
        owned.get_mut(&partition()).unwrap().next = Some(9);
        assert_eq!(offsets(&mut owned), [5]);
        drop(on_its_way);
        assert_eq!(offsets(&mut owned), [9]);
        owned.revoke_all();
        assert_eq!((owned.len(), owned.former.len()), (0, 0));
    }

    #[test]
    fn metadata_that_brokers_refuse_is_halved_until_it_has_room_or_is_none() {
        let mut owned = Ownership::default();
        owned.assign(partition(), at(0));
        let state = owned.get_mut(&partition()).unwrap();
        state.next = Some(3_000);
        // Every third, except for a record without a bit.
        let open: Vec<_> =
            (0..1_000).map(|it| state.source.claim(it * 3 + it * it % 3, 0)).collect();
        let mut lengths = Vec::new();
        for _ in 0..20 {
            lengths.push(positions(&mut owned).remove(0).metadata.len());
            owned.halve_metadata();
        }
        let fits = |(halvings, len): (u32, &usize)| *len <= METADATA_BYTES_MAX >> halvings;
        assert!((0..).zip(&lengths[..13]).all(fits), "{lengths:?}");
        assert_eq!((lengths[0] > 30, lengths[19]), (true, 0));
        drop(open);
        assert_eq!(offsets(&mut owned), [3_000]);
    }

    #[test]
    fn unknown_position_is_not_committed() {
        let mut owned = Ownership::default();
        owned.assign(partition(), None);
        assert!(offsets(&mut owned).is_empty());
    }
}
