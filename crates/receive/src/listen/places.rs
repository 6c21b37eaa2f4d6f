//! Places of open connections: when all are taken, a new connection takes that of a quiet one.
//!
//! A connection costs its peer little, so one peer could occupy all places for ever. So a
//! connection without a request is closed: of the address with most connections, first one that
//! never had a request, otherwise the longest quiet. Its peer reconnects for its next request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::connection::Activity;
use crate::metrics::Closed;
use spanscore_base::model::MemoryQuota;

/// Time without a request after which a connection may lose its place.
const QUIET_MIN: Duration = Duration::from_millis(250);
/// The same before its first request, since a TLS handshake over a slow line takes time.
const UNUSED_MIN: Duration = Duration::from_secs(2);
/// Connections examined for the one to close; the next time others are.
const LOOKED_AT_MAX: usize = 64;

/// Places of the connections of all ports.
#[derive(Clone)]
pub(crate) struct ConnectionPlaces(Arc<Mutex<PlaceTable>>);

struct PlaceTable {
    most: usize,
    bytes: Arc<MemoryQuota>,
    /// Places by number.
    taken: BTreeMap<u64, TakenPlace>,
    /// Connections per peer.
    peers: HashMap<u32, usize>,
    next: u64,
    looked_at: u64,
}

struct TakenPlace {
    peer: u32,
    bytes: usize,
    activity: Arc<Activity>,
}

/// Place of a connection, until dropped.
pub(super) struct ConnectionPlace {
    places: ConnectionPlaces,
    number: u64,
}

impl ConnectionPlaces {
    /// Returns this many places, within the memory quota of connections.
    pub(crate) fn new(most: usize, bytes: Arc<MemoryQuota>) -> Self {
        let table = PlaceTable {
            most: most.max(1),
            bytes,
            taken: BTreeMap::new(),
            peers: HashMap::new(),
            next: 0,
            looked_at: 0,
        };
        Self(Arc::new(Mutex::new(table)))
    }

    /// Takes a place for a connection of this size, if necessary that of a quiet one.
    ///
    /// # Errors
    /// The exceeded limit.
    pub(super) fn take(
        &self,
        peer: u32,
        bytes: usize,
        activity: &Arc<Activity>,
    ) -> Result<ConnectionPlace, Closed> {
        let mut table = self.0.lock();
        while let Err(full) = table.try_take(bytes) {
            let quiet = table.quiet().ok_or(full)?;
            if let Some(place) = table.leave(quiet) {
                place.activity.displaced.cancel();
            }
        }
        let number = table.next;
        let activity = Arc::clone(activity);
        table.next += 1;
        *table.peers.entry(peer).or_default() += 1;
        table.taken.insert(number, TakenPlace { peer, bytes, activity });
        Ok(ConnectionPlace { places: self.clone(), number })
    }
}

impl PlaceTable {
    fn try_take(&self, bytes: usize) -> Result<(), Closed> {
        if self.taken.len() >= self.most {
            return Err(Closed::Limit);
        }
        if self.bytes.try_take(bytes) { Ok(()) } else { Err(Closed::Memory) }
    }

    /// Returns the number of the place to close, among those examined now.
    fn quiet(&mut self) -> Option<u64> {
        let behind = self.taken.range(self.looked_at..);
        let all = behind.chain(self.taken.range(..self.looked_at)).take(LOOKED_AT_MAX);
        let mut last = self.looked_at;
        let mut is_one_new = false;
        let quiet = all.inspect(|(number, _)| last = **number + 1).filter_map(|(number, place)| {
            let quiet = place.activity.quiet()?;
            let of_peer = self.peers.get(&place.peer);
            let is_unused = place.activity.is_unused();
            is_one_new |= is_unused && quiet < UNUSED_MIN;
            let least = if is_unused { UNUSED_MIN } else { QUIET_MIN };
            (quiet >= least).then_some((of_peer, is_unused, quiet, *number))
        });
        let quietest = quiet.max();
        // Many connections opened at once do not displace those that had requests.
        let quietest = quietest.filter(|(_, is_unused, ..)| *is_unused || !is_one_new);
        let quietest = quietest.map(|(_, _, _, number)| number);
        self.looked_at = last;
        quietest
    }

    fn leave(&mut self, number: u64) -> Option<TakenPlace> {
        let place = self.taken.remove(&number)?;
        self.bytes.give_back(place.bytes);
        if let Some(count) = self.peers.get_mut(&place.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&place.peer);
            }
        }
        Some(place)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.0.lock().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::connection::RunningRequest;

    const BYTES: usize = 10;

    /// Opens connections of these peers, two seconds apart; one more finds no free place. Those in
    /// `used` had a request, those in `busy` have one.
    async fn check(peers: &[u32], (used, busy): (&[usize], &[usize]), expected: Option<usize>) {
        for (most, bytes) in [(peers.len(), usize::MAX), (usize::MAX, BYTES * peers.len())] {
            let quota = MemoryQuota::new("connections", bytes);
            let places = ConnectionPlaces::new(most, Arc::clone(&quota));
            let mut open = Vec::new();
            for (number, peer) in peers.iter().enumerate() {
                let activity = Arc::new(Activity::default());
                if used.contains(&number) {
                    drop(RunningRequest::start(&activity));
                }
                let request = busy.contains(&number).then(|| RunningRequest::start(&activity));
                let place = places.take(*peer, BYTES, &activity).unwrap();
                open.push((place, activity, request));
                tokio::time::advance(UNUSED_MIN).await;
            }
            let new = places.take(9, BYTES, &Arc::new(Activity::default()));
            let is_lost = |activity: &Activity| activity.displaced.is_cancelled();
            let lost = open.iter().position(|(_, activity, _)| is_lost(activity));
            assert_eq!((lost, new.is_ok()), (expected, expected.is_some()), "{peers:?}");
            drop((open, new));
            assert_eq!((places.0.lock().taken.len(), quota.held()), (0, 0));
            assert!(places.0.lock().peers.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quietest_connection_of_the_address_with_most_makes_room() {
        check(&[1, 1, 1], (&[], &[]), Some(0)).await;
        check(&[1, 1, 1], (&[0, 1, 2], &[]), Some(0)).await;
        check(&[1, 1, 1], (&[0], &[]), Some(1)).await;
        check(&[1, 2, 2, 1, 2], (&[], &[]), Some(1)).await;
        check(&[1, 2, 2, 2], (&[], &[1, 2]), Some(3)).await;
        check(&[1, 2, 2], (&[], &[1, 2]), Some(0)).await;
        check(&[1, 1, 1], (&[], &[0, 1, 2]), None).await;
    }

    #[tokio::test(start_paused = true)]
    async fn connections_opened_at_once_take_no_place_of_one_that_had_requests() {
        let places = ConnectionPlaces::new(2, MemoryQuota::new("connections", usize::MAX));
        let used = Arc::new(Activity::default());
        drop(RunningRequest::start(&used));
        let _used = places.take(1, BYTES, &used).unwrap();
        tokio::time::advance(UNUSED_MIN).await;
        let [unused, new] = [(); 2].map(|()| Arc::new(Activity::default()));
        let _unused = places.take(1, BYTES, &unused).unwrap();
        assert!(places.take(1, BYTES, &new).is_err());
        tokio::time::advance(UNUSED_MIN).await;
        assert!(places.take(1, BYTES, &new).is_ok());
        assert!(unused.displaced.is_cancelled() && !used.displaced.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_is_new_or_was_just_answered_keeps_its_place() {
        let places = ConnectionPlaces::new(1, MemoryQuota::new("connections", usize::MAX));
        let activity = Arc::new(Activity::default());
        let first = places.take(1, BYTES, &activity);
        let other = || places.take(2, BYTES, &Arc::new(Activity::default()));
        assert_eq!(other().err(), Some(Closed::Limit));
        tokio::time::advance(QUIET_MIN).await;
        drop(RunningRequest::start(&activity));
        assert_eq!(other().err(), Some(Closed::Limit));
        tokio::time::advance(QUIET_MIN).await;
        assert!(other().is_ok());
        drop(first);
    }
}
