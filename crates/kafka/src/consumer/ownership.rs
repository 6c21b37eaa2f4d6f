//! Ownership of partitions: where each stands, and what must not be committed yet.

use std::sync::Arc;

use hashbrown::HashMap;

use spanscore_base::model::Source;

/// Topic and number of a partition.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Partition {
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
}

/// Partition for as long as this process owns it.
#[derive(Debug, Default)]
pub(super) struct OwnedPartition {
    pub(super) source: Arc<Source>,
    /// Offset behind the last record that was read; `None` before the first if that is unknown.
    pub(super) next: Option<i64>,
    /// Last offset that the brokers have taken.
    pub(super) committed: Option<i64>,
    /// Last record of the partition at the brokers, as far as is known.
    pub(super) end: i64,
}

/// Partitions of this process.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    owned: HashMap<Partition, OwnedPartition>,
    /// Sources of earlier ownerships with evaluations that are still on their way.
    former: HashMap<Partition, Vec<Arc<Source>>>,
}

impl Ownership {
    /// Begins to own a partition, from an offset on if that is known.
    pub(super) fn assign(&mut self, partition: Partition, committed: Option<i64>) {
        let state = OwnedPartition { next: committed, committed, ..OwnedPartition::default() };
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

    /// Returns the partitions that are owned.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.owned.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.owned.len()
    }

    /// Returns the positions that may be committed and are not.
    pub(super) fn uncommitted(&mut self) -> Vec<(Partition, i64)> {
        self.forget_done();
        let positions = self.owned.iter().filter_map(|(partition, state)| {
            let position = self.position(partition, state)?;
            (Some(position) != state.committed).then(|| (partition.clone(), position))
        });
        positions.collect()
    }

    /// Returns the lowest offset that unfinished work needs, else that of the next record.
    fn position(&self, partition: &Partition, state: &OwnedPartition) -> Option<i64> {
        let former = self.former.get(partition).into_iter().flatten();
        let claimed = former.chain([&state.source]).filter_map(|source| source.lowest()).min();
        let claimed = claimed.and_then(|position| i64::try_from(position).ok());
        // What an earlier ownership still needs may lie behind a position that was reset.
        claimed.into_iter().chain(state.next).min()
    }

    /// Notes that the brokers have taken a position.
    pub(super) fn committed(&mut self, partition: &Partition, position: i64) {
        if let Some(state) = self.owned.get_mut(partition) {
            state.committed = Some(position);
        }
    }

    /// Returns the number of records that were not read yet, and of those that would be read again.
    pub(super) fn behind(&self) -> (u64, u64) {
        let between = |from: Option<i64>, to: i64| {
            from.map_or(0, |from| u64::try_from(to.saturating_sub(from)).unwrap_or(0))
        };
        self.owned.values().fold((0, 0), |(lag, held_back), state| {
            let read = state.next.unwrap_or(0);
            (lag + between(state.next, state.end), held_back + between(state.committed, read))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition() -> Partition {
        Partition { topic: "spans".into(), number: 3 }
    }

    fn positions(owned: &mut Ownership) -> Vec<i64> {
        owned.uncommitted().into_iter().map(|(_, position)| position).collect()
    }

    #[test]
    fn position_is_that_of_the_oldest_work_or_of_the_next_record() {
        let mut owned = Ownership::default();
        owned.assign(partition(), Some(7));
        assert_eq!(positions(&mut owned), [] as [i64; 0], "it is committed");
        let state = owned.get_mut(&partition()).unwrap();
        state.next = Some(12);
        state.end = 20;
        let claims = [8, 10].map(|offset| state.source.claim(offset, 0));
        assert_eq!(positions(&mut owned), [8]);
        owned.committed(&partition(), 8);
        assert_eq!((positions(&mut owned).len(), owned.behind()), (0, (8, 4)));
        drop(claims);
        assert_eq!(positions(&mut owned), [12]);
    }

    #[test]
    fn work_of_an_earlier_ownership_moves_nothing_and_is_not_overtaken() {
        let mut owned = Ownership::default();
        owned.assign(partition(), Some(0));
        let first = Arc::clone(&owned.get_mut(&partition()).unwrap().source);
        let on_its_way = first.claim(5, 0);
        owned.revoke(&partition());
        assert!(first.is_retired() && positions(&mut owned).is_empty());
        owned.assign(partition(), Some(3));
        owned.get_mut(&partition()).unwrap().next = Some(9);
        assert_eq!(positions(&mut owned), [5]);
        drop(on_its_way);
        assert_eq!(positions(&mut owned), [9]);
        owned.revoke_all();
        assert_eq!((owned.len(), owned.former.len()), (0, 0));
    }

    #[test]
    fn unknown_position_is_not_committed() {
        let mut owned = Ownership::default();
        owned.assign(partition(), None);
        assert!(positions(&mut owned).is_empty());
    }
}
