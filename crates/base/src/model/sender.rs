//! Senders, and the amount of a quota that each holds.
//!
//! Shares have two levels: peers, then the connections of a peer. Many connections from one address
//! hold no more than one from another. Behind a proxy, where all share an address, connections
//! still distinguish senders.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hashbrown::HashMap;

use super::memory::{HOLDER_TIMES, MemoryQuota};
use super::{ClientGroup, fingerprint};

/// Largest share of one sender in a quota of a few items, even if nothing is left.
const FEW: usize = 4;

/// Sender of records, by hashes of the properties that distinguish it when a quota is short.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sender {
    /// Its group, which owns its traces.
    pub group: ClientGroup,
    /// Its client, or its address if clients are unknown.
    pub peer: u32,
    /// Its connection; 0 for records without one, as from topics and files.
    pub connection: u16,
}

impl Sender {
    /// Returns all connections from an address as one sender. An IPv6 network counts as one
    /// address, since a host has all of it.
    pub fn of_address(address: Option<IpAddr>) -> Self {
        let peer = match address.map(|address| address.to_canonical()) {
            None => 0,
            Some(IpAddr::V4(address)) => fingerprint(&address.octets()),
            Some(IpAddr::V6(address)) => fingerprint(&address.octets()[..8]),
        };
        Self { peer, ..Self::default() }
    }

    /// Returns all clients of a group as one sender.
    pub fn of_group(group: ClientGroup) -> Self {
        Self { group, peer: fingerprint(&group.to_bytes()), connection: 0 }
    }

    /// Returns a client that relays data of others: a separate peer beside its group.
    pub fn of_client(group: ClientGroup, client: &str) -> Self {
        Self { group, peer: fingerprint(client.as_bytes()), connection: 0 }
    }

    /// Returns only its peer and connection, which determine shares.
    pub fn without_group(self) -> Self {
        Self { group: ClientGroup::default(), ..self }
    }

    /// Returns true for records of a named group without a connection, which come from a topic.
    pub fn is_topic(self) -> bool {
        self.connection == 0 && !self.group.is_everybody()
    }

    /// Returns the number of its connection, unique among all peers.
    pub(super) fn number(self) -> u64 {
        u64::from(self.peer) << 16 | u64::from(self.connection)
    }
}

/// Amounts of one quota held by senders.
#[derive(Debug, Default)]
pub struct SenderShares {
    peers: HashMap<u32, usize>,
    connections: HashMap<u64, usize>,
    /// `None` until the largest holder is first requested.
    ranks: Option<ShareRanks>,
}

/// Senders ranked by held amount.
#[derive(Debug, Default)]
struct ShareRanks {
    peers: BTreeSet<(usize, u32)>,
    connections: BTreeSet<(u32, usize, u16)>,
}

impl ShareRanks {
    /// Updates a sender's ranks to the amounts of its peer and connection.
    fn put(
        &mut self,
        Sender { peer, connection, .. }: Sender,
        before: HeldAmounts,
        now: HeldAmounts,
    ) {
        self.peers.remove(&(before.0, peer));
        self.connections.remove(&(peer, before.1, connection));
        if now.0 > 0 {
            self.peers.insert((now.0, peer));
        }
        if now.1 > 0 {
            self.connections.insert((peer, now.1, connection));
        }
    }
}

/// Amounts of a peer, and of a connection of it.
type HeldAmounts = (usize, usize);

impl SenderShares {
    /// Returns the amounts held by a sender's peer and by its connection.
    pub fn held(&self, sender: Sender) -> HeldAmounts {
        let connection = self.connections.get(&sender.number());
        let peer = self.peers.get(&sender.peer);
        (peer.copied().unwrap_or(0), connection.copied().unwrap_or(0))
    }

    /// Returns true if no other peer holds anything.
    pub fn is_peers_alone(&self, peer: u32) -> bool {
        self.peers.keys().all(|other| *other == peer)
    }

    /// Returns true if a sender may take this much more of a quota.
    pub fn has_room(&self, quota: &MemoryQuota, sender: Sender, amount: usize) -> bool {
        self.fits(quota.left(), sender, amount)
    }

    /// Returns true if a sender may take this much more of the free rest. Its peer may hold at most
    /// four times the remainder, its connection at most four times the peer's remaining share, and
    /// each up to `FEW` in any case. A peer that holds nothing may take all the room; a connection
    /// that holds nothing may take its peer's share.
    pub fn fits(&self, left: usize, sender: Sender, amount: usize) -> bool {
        let Some(left) = left.checked_sub(amount) else { return false };
        let most = |left: usize| left.saturating_mul(HOLDER_TIMES).max(FEW);
        let (peer, connection) = self.held(sender);
        let of_peer = most(left).checked_sub(peer + amount);
        let fits = |left: usize| connection == 0 || connection + amount <= most(left);
        peer == 0 || of_peer.is_some_and(fits)
    }

    /// Returns true if the amount [`fits`](Self::fits), without a limit for a single holder: the
    /// only peer is limited just by the shares of its connections, the only connection not at all.
    pub fn fits_beside_others(&self, left: usize, sender: Sender, amount: usize) -> bool {
        let (peer, connection) = self.held(sender);
        if self.peers.len() > usize::from(peer > 0) {
            return self.fits(left, sender, amount);
        }
        let is_only = self.connections.len() <= usize::from(connection > 0);
        let most = left.saturating_sub(amount).saturating_mul(HOLDER_TIMES);
        is_only || connection == 0 || connection + amount <= most
    }

    /// Takes an amount of a quota for a sender, if it [has room](Self::has_room).
    pub fn take(&mut self, quota: &MemoryQuota, sender: Sender, amount: usize) -> bool {
        let is_taken = self.has_room(quota, sender, amount) && quota.try_take(amount);
        if is_taken {
            self.add(sender, amount);
        }
        is_taken
    }

    /// Releases an amount of a quota for a sender.
    pub fn give_back(&mut self, quota: &MemoryQuota, sender: Sender, amount: usize) {
        self.remove(sender, amount);
        quota.give_back(amount);
    }

    /// Counts an amount already held by a sender.
    pub fn add(&mut self, sender: Sender, amount: usize) {
        let before = self.held(sender);
        *self.peers.entry(sender.peer).or_default() += amount;
        *self.connections.entry(sender.number()).or_default() += amount;
        self.rank(sender, before);
    }

    /// Counts an amount no longer held by a sender.
    pub fn remove(&mut self, sender: Sender, amount: usize) {
        let before = self.held(sender);
        lower(&mut self.peers, sender.peer, amount);
        lower(&mut self.connections, sender.number(), amount);
        self.rank(sender, before);
    }

    /// Returns the largest holder, if it holds more than a sender with this much more: a connection
    /// of another peer, or of the sender's own if no other peer holds more.
    pub fn richest(&mut self, sender: Sender, amount: usize) -> Option<Sender> {
        let (of_peer, own) = self.held(sender);
        let ranks = self.ranks.get_or_insert_with(|| {
            let peers = self.peers.iter().map(|(peer, held)| (*held, *peer)).collect();
            let connections = self.connections.iter();
            let connections = connections.map(|(number, held)| {
                let [.., high, low] = number.to_be_bytes();
                ((number >> 16) as u32, *held, u16::from_be_bytes([high, low]))
            });
            ShareRanks { peers, connections: connections.collect() }
        });
        let richest = ranks.peers.last().filter(|it| it.0 > of_peer + amount);
        let (peer, least) = match richest {
            Some((_, peer)) if *peer != sender.peer => (*peer, 0),
            _ => (sender.peer, own + amount),
        };
        let of_peer = ranks.connections.range((peer, 0, 0)..=(peer, usize::MAX, u16::MAX));
        let (_, _, connection) = of_peer.last().filter(|(_, held, _)| *held > least)?;
        Some(Sender { peer, connection: *connection, ..Sender::default() })
    }

    fn rank(&mut self, sender: Sender, before: HeldAmounts) {
        let now = self.held(sender);
        self.ranks = self.ranks.take().filter(|_| !self.peers.is_empty());
        if let Some(ranks) = &mut self.ranks {
            ranks.put(sender, before, now);
        }
    }
}

/// Lowers an amount, never below 0; a sender that holds nothing is forgotten.
fn lower<K: std::hash::Hash + Eq>(held: &mut HashMap<K, usize>, key: K, amount: usize) {
    if let Some(own) = held.get_mut(&key) {
        *own = own.saturating_sub(amount);
        if *own == 0 {
            held.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn sender(peer: u32, connection: u16) -> Sender {
        Sender { peer, connection, ..Sender::default() }
    }

    /// Lets senders take one each in turns while any may; returns the amount of each peer.
    fn check(limit: usize, senders: &[Sender], expected: &[(u32, usize)]) {
        let quota = MemoryQuota::new("x", limit);
        let mut shares = SenderShares::default();
        let mut goes_on = true;
        while goes_on {
            goes_on = senders.iter().fold(false, |any, it| shares.take(&quota, *it, 1) | any);
        }
        let had = expected.iter().map(|(peer, _)| (*peer, shares.held(sender(*peer, 0)).0));
        assert_eq!(had.collect::<Vec<_>>(), expected, "{limit} of {}", senders.len());
        for sender in senders {
            shares.give_back(&quota, *sender, shares.held(*sender).1);
        }
        assert!(quota.held() == 0 && shares.peers.is_empty() && shares.connections.is_empty());
        assert!(shares.ranks.is_none());
    }

    #[test]
    fn peers_share_a_quota_however_many_connections_each_has() {
        for (limit, most) in [(0, 0), (1, 1), (2, 2), (4, 4), (5, 4), (10, 7), (1000, 761)] {
            check(limit, &[sender(1, 1)], &[(1, most)]);
        }
        check(1000, &[sender(1, 1), sender(2, 1)], &[(1, 432), (2, 432)]);
    }

    #[test]
    fn many_connections_of_a_peer_come_to_about_as_much_as_one_of_another() {
        let quota = MemoryQuota::new("x", 1000);
        let mut shares = SenderShares::default();
        let mut held = VecDeque::new();
        // The flood asks first after each release.
        for _ in 0..5_000 {
            let flood = (1..=200).map(|connection| sender(1, connection));
            let all = flood.chain([sender(2, 1)]);
            held.extend(all.filter(|sender| shares.take(&quota, *sender, 1)));
            held.pop_front().into_iter().for_each(|it| shares.give_back(&quota, it, 1));
        }
        let [flood, one] = [1, 2].map(|peer| shares.held(sender(peer, 0)).0);
        assert!(one * 4 > flood * 3 && flood + one > 800, "{one} beside {flood}");
    }

    #[test]
    fn richest_is_of_the_peer_with_most_and_then_of_ones_own() {
        let mut shares = SenderShares::default();
        assert_eq!(shares.richest(sender(1, 1), 1), None, "nobody has anything");
        for (peer, connection, amount) in [(1, 1, 5), (1, 2, 3), (2, 1, 6), (3, 1, 1)] {
            shares.add(sender(peer, connection), amount);
        }
        let mut check = |own: Sender, amount, expected: Option<Sender>| {
            assert_eq!(shares.richest(own, amount), expected, "{own:?} and {amount}");
        };
        check(sender(2, 1), 1, Some(sender(1, 1)));
        check(sender(2, 1), 2, None);
        check(sender(1, 2), 1, Some(sender(1, 1)));
        check(sender(1, 2), 2, None);
        check(sender(1, 1), 1, None);
        check(sender(4, 1), 1, Some(sender(1, 1)));
        shares.remove(sender(1, 1), 5);
        assert_eq!(shares.richest(sender(4, 1), 1), Some(sender(2, 1)));
        shares.remove(sender(2, 1), 6);
        assert_eq!(shares.richest(sender(3, 1), 1), Some(sender(1, 2)));
    }

    #[test]
    fn connection_with_nothing_finds_room_beside_another_of_its_peer() {
        let quota = MemoryQuota::new("x", 1000);
        let mut shares = SenderShares::default();
        while shares.take(&quota, sender(1, 1), 1) {}
        assert!(shares.take(&quota, sender(1, 2), 10));
        assert!(!shares.take(&quota, sender(1, 1), 1) && shares.take(&quota, sender(2, 1), 220));
        assert!(!shares.take(&quota, sender(3, 1), 10), "there is no more");
    }
}
