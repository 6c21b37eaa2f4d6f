//! Senders skipped by a judge because their shares of its budget are reserved.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::gate::ShareHolder;
use spanscore_base::model::Sender;

/// Limit on a peer's connections tried in one pass.
const TRIED_MAX: usize = 16;

/// Senders whose requests wait for the settlement of their earlier ones.
#[derive(Debug, Default)]
pub(in crate::judge) struct HeldSenders {
    peers: BTreeMap<u32, HeldPeer>,
}

/// Peer of which connections are held.
#[derive(Debug, Default)]
struct HeldPeer {
    connections: BTreeSet<u16>,
    /// Connections that this walk has tried.
    tried: usize,
    /// True if none of its connections has room.
    has_no_room: bool,
}

impl HeldSenders {
    /// Returns the senders to begin the next walk with: of a peer that was tried often enough those
    /// that were tried, so that its other connections have their turn.
    pub(super) fn next(self) -> Self {
        let is_cut = |peer: &HeldPeer| !peer.has_no_room && peer.tried >= TRIED_MAX;
        let peers = self.peers.into_iter().filter(|(_, peer)| is_cut(peer));
        Self { peers: peers.map(|(peer, held)| (peer, HeldPeer { tried: 0, ..held })).collect() }
    }

    /// Holds a sender that was tried, or its whole peer where that has no room.
    pub(super) fn hold(&mut self, Sender { peer, connection, .. }: Sender, holder: ShareHolder) {
        let held = self.peers.entry(peer).or_default();
        held.connections.insert(connection);
        held.tried += 1;
        held.has_no_room |= holder == ShareHolder::Peer;
    }

    /// Returns true if a sender is held, or not tried in this walk.
    pub(super) fn contains(&self, Sender { peer, connection, .. }: Sender) -> bool {
        self.peers.get(&peer).is_some_and(|held| {
            held.has_no_room || held.tried >= TRIED_MAX || held.connections.contains(&connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(connection: u16) -> Sender {
        Sender { peer: 1, connection, ..Sender::default() }
    }

    /// Holds each of a peer's connections that a walk tries, and expects as many tries by walk.
    fn check(connections: u16, holder: ShareHolder, expected: &[usize]) {
        let mut held = HeldSenders::default();
        let mut tries = Vec::new();
        for _ in expected {
            held = held.next();
            let mut tried = 0;
            for sender in (1..=connections).map(of) {
                if !held.contains(sender) {
                    held.hold(sender, holder);
                    tried += 1;
                }
            }
            assert!((1..=connections).all(|connection| held.contains(of(connection))));
            tries.push(tried);
        }
        assert_eq!(tries, expected, "{connections} connections");
    }

    #[test]
    fn walks_try_all_connections_of_a_peer_in_turns() {
        check(3, ShareHolder::Connection, &[3, 3]);
        check(3, ShareHolder::Peer, &[1, 1]);
        check(16, ShareHolder::Connection, &[16, 0, 16]);
        check(40, ShareHolder::Connection, &[16, 16, 8, 16]);
    }
}
