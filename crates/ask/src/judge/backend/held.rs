//! Senders that a judge passes by, as their shares of its budget are reserved.

use std::collections::BTreeSet;

use crate::judge::gate::ShareHolder;
use spanscore_base::model::Sender;

/// Connections of a peer that are tried at once, though others of it had no room.
const TRIED_MAX: usize = 16;

/// Senders whose requests wait for the settlement of others of theirs.
#[derive(Debug, Default)]
pub(in crate::judge) struct HeldSenders {
    peers: BTreeSet<u32>,
    connections: BTreeSet<(u32, u16)>,
}

impl HeldSenders {
    /// Holds a sender, or its whole peer where that has no room, or was tried often enough.
    pub(super) fn hold(&mut self, Sender { peer, connection, .. }: Sender, holder: ShareHolder) {
        self.connections.insert((peer, connection));
        let tried = self.connections.range((peer, 0)..=(peer, u16::MAX)).count();
        if holder == ShareHolder::Peer || tried >= TRIED_MAX {
            self.peers.insert(peer);
        }
    }

    /// Holds a sender no more, nor all of its peer.
    pub(super) fn release(&mut self, Sender { peer, connection, .. }: Sender) {
        self.peers.remove(&peer);
        self.connections.remove(&(peer, connection));
    }

    /// Returns true if a sender is held.
    pub(super) fn contains(&self, Sender { peer, connection, .. }: Sender) -> bool {
        self.peers.contains(&peer) || self.connections.contains(&(peer, connection))
    }

    /// Returns true if nobody is held.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}
