//! Senders skipped by a judge because their shares of its budget are reserved.

use std::collections::BTreeSet;

use crate::judge::gate::ShareHolder;
use spanscore_base::model::Sender;

/// Limit on a peer's connections tried in one pass.
const TRIED_MAX: usize = 16;

/// Senders whose requests wait for the settlement of their earlier ones.
#[derive(Debug, Default)]
pub(in crate::judge) struct HeldSenders {
    peers: BTreeSet<u32>,
    connections: BTreeSet<(u32, u16)>,
}

impl HeldSenders {
    /// Holds a sender, or its whole peer if that has no room or was tried often enough.
    pub(super) fn hold(&mut self, Sender { peer, connection, .. }: Sender, holder: ShareHolder) {
        self.connections.insert((peer, connection));
        let tried = self.connections.range((peer, 0)..=(peer, u16::MAX)).count();
        if holder == ShareHolder::Peer || tried >= TRIED_MAX {
            self.peers.insert(peer);
        }
    }

    /// Releases a sender and its whole peer.
    pub(super) fn release(&mut self, Sender { peer, connection, .. }: Sender) {
        self.peers.remove(&peer);
        self.connections.remove(&(peer, connection));
    }

    /// Returns true if a sender is held.
    pub(super) fn contains(&self, Sender { peer, connection, .. }: Sender) -> bool {
        self.peers.contains(&peer) || self.connections.contains(&(peer, connection))
    }

    /// Returns true if no sender is held.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }
}
