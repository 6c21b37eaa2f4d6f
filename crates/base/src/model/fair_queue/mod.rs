//! Self-clocked fair queue of two levels: first the peer served least, then its connection served
//! least.
//!
//! The algorithm is Golestani's ("A self-clocked fair queueing scheme for broadband applications",
//! 1994), among peers and within each. An item's finish tag is its cost added to its connection's
//! last tag, or to its peer's virtual time if that is later. A peer's tag is its served cost plus
//! the cost of its first item. The lowest tag is served first, and becomes the virtual time. A peer
//! without items is forgotten, so no peer saves up credit.
//!
//! The queue compares finish tags, not start tags, because a flood may open a connection for each
//! request. By start tags such a request would start now, before the second request of a waiting
//! connection. Behind two connections of expensive traces 66 of 173 small requests arrived in time
//! by start tags, and all of them by finish tags.
//!
//! A full queue drops the last item of the peer with the highest end: its served cost plus the cost
//! of all its queued items.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use hashbrown::{HashMap, HashSet};
use smart_default::SmartDefault;

use super::Sender;

/// Sort key of an item within its peer: finish tag and arrival number.
type ItemTag = (u64, u64);

/// Turn of a peer: finish tag and arrival number of its first item, and its own number.
type PeerTurn = (u64, u64, u32);

/// Largest number of stale turns, in addition to the number of peers.
const STALE_MAX: usize = 64;

/// Self-clocked fair queue.
#[derive(Debug, SmartDefault)]
pub struct FairQueue<T> {
    /// Returned items, which precede all others.
    returned: VecDeque<T>,
    peers: HashMap<u32, PeerQueue<T>>,
    /// Turns of peers, possibly with stale ones.
    turns: BinaryHeap<Reverse<PeerTurn>>,
    /// Peers by the finish tag of their last item; `None` until the largest is first requested.
    ends: Option<BTreeSet<(u64, u32)>>,
    /// Number of items except returned ones.
    count: usize,
    now: u64,
    arrivals: u64,
}

/// Queued item of a connection.
#[derive(Debug)]
struct QueuedItem<T> {
    connection: u16,
    cost: u64,
    content: T,
}

/// Item that was dropped to make room.
#[derive(Debug)]
pub struct DisplacedItem<T> {
    /// Its sender, without the group.
    pub sender: Sender,
    /// Its cost.
    pub cost: usize,
    /// The item.
    pub content: T,
}

/// Count and cost of a connection's queued items, and the finish tag of its last one.
#[derive(Debug, Default)]
struct ConnectionTotals {
    count: usize,
    cost: u64,
    end: u64,
}

/// Queued items of one peer, their cost, and the cost served so far.
#[derive(Debug, SmartDefault)]
struct PeerQueue<T> {
    /// Its first connection; most peers have only this one.
    connection: u16,
    own: ConnectionTotals,
    /// Items of that connection, in order.
    items: VecDeque<(ItemTag, QueuedItem<T>)>,
    others: HashMap<u16, ConnectionTotals>,
    items_of_others: BTreeMap<ItemTag, QueuedItem<T>>,
    cost: u64,
    served: u64,
    /// Virtual time of its connections.
    now: u64,
    turn: PeerTurn,
}

impl<T> PeerQueue<T> {
    fn new(number: u32, connection: u16) -> Self {
        Self { connection, turn: (0, 0, number), ..Self::default() }
    }

    /// Returns the finish tag of its last item.
    fn end(&self) -> u64 {
        self.served.saturating_add(self.cost)
    }

    fn connection(&self, number: u16) -> Option<&ConnectionTotals> {
        if number == self.connection { Some(&self.own) } else { self.others.get(&number) }
    }

    /// Returns the first item.
    fn first(&self) -> Option<(ItemTag, &QueuedItem<T>)> {
        let own = self.items.front().map(|(place, item)| (*place, item));
        let other = self.items_of_others.first_key_value().map(|(place, item)| (*place, item));
        own.into_iter().chain(other).min_by_key(|(place, _)| *place)
    }

    /// Returns the place of the first item on a connection that is not blocked; calls `is_held`
    /// once for each connection.
    fn first_unless(&self, is_held: impl Fn(&T) -> bool) -> Option<ItemTag> {
        let own = self.items.front().filter(|(_, item)| !is_held(&item.content));
        let mut held = HashSet::new();
        let mut other = None;
        for (place, item) in &self.items_of_others {
            if held.contains(&item.connection) {
                continue;
            }
            if !is_held(&item.content) {
                other = Some(*place);
                break;
            }
            held.insert(item.connection);
            if held.len() == self.others.len() {
                break;
            }
        }
        own.map(|(place, _)| *place).into_iter().chain(other).min()
    }

    /// Returns the last item.
    fn last(&self) -> Option<(ItemTag, &QueuedItem<T>)> {
        let own = self.items.back().map(|(place, item)| (*place, item));
        let other = self.items_of_others.last_key_value().map(|(place, item)| (*place, item));
        own.into_iter().chain(other).max_by_key(|(place, _)| *place)
    }

    /// Returns the items, beginning with those of its first connection.
    fn iter(&self) -> impl Iterator<Item = (ItemTag, &QueuedItem<T>)> {
        let others = self.items_of_others.iter().map(|(place, item)| (*place, item));
        self.items.iter().map(|(place, item)| (*place, item)).chain(others)
    }

    /// Adds an item of a connection.
    fn put(&mut self, arrival: u64, item: QueuedItem<T>) {
        let QueuedItem { connection, cost, .. } = item;
        let is_first = connection == self.connection;
        let others = &mut self.others;
        let own = if is_first { &mut self.own } else { others.entry(connection).or_default() };
        own.end = own.end.max(self.now).saturating_add(cost);
        own.count += 1;
        own.cost = own.cost.saturating_add(cost);
        self.cost = self.cost.saturating_add(cost);
        if is_first {
            self.items.push_back(((own.end, arrival), item));
        } else {
            self.items_of_others.insert((own.end, arrival), item);
        }
    }

    fn pull(&mut self, place: ItemTag) -> Option<QueuedItem<T>> {
        if self.items.front().is_some_and(|(first, _)| *first == place) {
            return self.items.pop_front().map(|(_, item)| item);
        }
        match self.items.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(at) => self.items.remove(at).map(|(_, item)| item),
            Err(_) => self.items_of_others.remove(&place),
        }
    }

    /// Removes an item: as served, or else as if it had never been added, if it is its connection's
    /// last.
    fn remove(&mut self, place: ItemTag, is_served: bool) -> Option<QueuedItem<T>> {
        let item = self.pull(place)?;
        let QueuedItem { connection, cost, .. } = item;
        let is_first = connection == self.connection;
        let others = &mut self.others;
        let own = if is_first { &mut self.own } else { others.get_mut(&connection)? };
        own.count -= 1;
        own.cost = own.cost.saturating_sub(cost);
        if !is_served && own.end == place.0 {
            own.end -= cost;
        }
        if own.count == 0 && !is_first {
            others.remove(&connection);
        } else if own.count == 0 {
            own.end = 0;
        }
        self.cost = self.cost.saturating_sub(cost);
        if is_served {
            self.served = self.served.saturating_add(cost);
            // With blocked items passed over, it does not go back when they are served.
            self.now = self.now.max(place.0);
        }
        Some(item)
    }

    /// Returns the turn for its first item; `None` without any.
    fn next_turn(&self) -> Option<PeerTurn> {
        let ((_, arrival), item) = self.first()?;
        Some((self.served.saturating_add(item.cost), arrival, self.turn.2))
    }
}

impl<T> FairQueue<T> {
    /// Bytes of a queued item, without spare capacity.
    pub const ITEM_BYTES: usize = size_of::<(ItemTag, QueuedItem<T>)>();

    /// Adds an item of a sender.
    pub fn put(&mut self, sender: Sender, cost: usize, content: T) {
        let Sender { peer: number, connection, .. } = sender;
        self.arrivals += 1;
        self.count += 1;
        let peer = self.peers.entry(number).or_insert_with(|| PeerQueue::new(number, connection));
        let end_before = peer.end();
        // A peer whose items were blocked while others were served loses that lead.
        peer.served = peer.served.saturating_add(self.now.saturating_sub(end_before));
        peer.put(self.arrivals, QueuedItem { connection, cost: cost as u64, content });
        move_end(&mut self.ends, (end_before, number), peer.end());
        if let Some(turn) = peer.next_turn().filter(|turn| *turn != peer.turn) {
            peer.turn = turn;
            self.turns.push(Reverse(turn));
            self.drop_stale_turns();
        }
    }

    /// Puts a taken item back, in front of all others.
    pub fn put_first(&mut self, content: T) {
        self.returned.push_front(content);
    }

    /// Takes the next item.
    pub fn take(&mut self) -> Option<T> {
        self.take_unless(|_| false)
    }

    /// Takes the next item that is not blocked; blocked ones keep their places. Among items that
    /// were not returned, `is_held` is called once for each blocked connection, and its other items
    /// are skipped.
    pub fn take_unless(&mut self, is_held: impl Fn(&T) -> bool) -> Option<T> {
        if let Some(at) = self.returned.iter().position(|content| !is_held(content)) {
            return self.returned.remove(at);
        }
        let mut passed = Vec::new();
        let mut next = None;
        while let Some(peer) = self.next_peer() {
            next = peer.first_unless(&is_held).map(|place| (peer.turn.2, place));
            if next.is_some() {
                break;
            }
            passed.extend(self.turns.pop());
            self.drop_first_stale_turns();
        }
        self.turns.extend(passed);
        let (number, place) = next?;
        self.remove(number, place, true).map(|item| item.content)
    }

    /// Returns the next item.
    pub fn peek(&self) -> Option<&T> {
        let waiting = || {
            let (_, item) = self.next_peer()?.first()?;
            Some(&item.content)
        };
        self.returned.front().or_else(waiting)
    }

    /// Returns the items, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let waiting = self.peers.values().flat_map(PeerQueue::iter);
        self.returned.iter().chain(waiting.map(|(_, item)| &item.content))
    }

    /// Makes room for a sender's new item, if the items behind it amount to the lacking cost: takes
    /// the last items of the largest peer. Otherwise takes nothing. The work is proportional to the
    /// taken items, or to those behind the new one.
    pub fn displace(
        &mut self,
        sender: Sender,
        cost: usize,
        lacking: usize,
    ) -> Vec<DisplacedItem<T>> {
        let mut displaced = Vec::new();
        let mut lacking = lacking as u64;
        let peer_end = self.peers.get(&sender.peer).map_or(0, |peer| peer.end());
        let tag = peer_end.max(self.now).saturating_add(cost as u64);
        if self.is_behind(tag, lacking) {
            while lacking > 0
                && let Some(&(_, number)) = self.ends().last()
            {
                let last = self.peers.get(&number).and_then(PeerQueue::last);
                let Some((place, cost)) = last.map(|(place, item)| (place, item.cost)) else {
                    break;
                };
                lacking = lacking.saturating_sub(cost);
                displaced.extend(self.displace_at(number, place));
            }
            return displaced;
        }
        for place in self.behind_in_peer(sender, cost as u64, lacking) {
            displaced.extend(self.displace_at(sender.peer, place));
        }
        displaced
    }

    fn displace_at(&mut self, peer: u32, place: ItemTag) -> Option<DisplacedItem<T>> {
        let QueuedItem { connection, cost, content } = self.remove(peer, place, false)?;
        let sender = Sender { peer, connection, ..Sender::default() };
        Some(DisplacedItem { sender, cost: cost as usize, content })
    }

    /// Returns true if the peers' items behind a finish tag amount to the lacking cost.
    fn is_behind(&mut self, tag: u64, lacking: u64) -> bool {
        if self.peers.is_empty() {
            return false;
        }
        let peers = self.ends().iter().rev().take_while(|(end, _)| *end > tag);
        let sums = peers.scan(0_u64, |sum, (end, _)| {
            *sum += end - tag;
            Some(*sum)
        });
        sums.into_iter().any(|sum| sum >= lacking)
    }

    /// Returns the last items of other connections of the sender's peer that are behind the new
    /// item, if they amount to the lacking cost.
    fn behind_in_peer(&self, sender: Sender, cost: u64, lacking: u64) -> Vec<ItemTag> {
        let Some(peer) = self.peers.get(&sender.peer) else { return Vec::new() };
        let end = peer.connection(sender.connection).map_or(0, |own| own.end);
        let tag = end.max(peer.now).saturating_add(cost);
        let mut own = peer.items.iter().map(|(place, item)| (*place, item.cost)).rev().peekable();
        let others = peer.items_of_others.iter().map(|(place, item)| (*place, item.cost));
        let mut others = others.rev().peekable();
        let mut found = 0_u64;
        let mut places = Vec::new();
        while found < lacking {
            let is_own = own.peek().map(|it| it.0) > others.peek().map(|it| it.0);
            let last = if is_own { own.next() } else { others.next() };
            let Some((place, cost)) = last.filter(|(place, _)| place.0 > tag) else {
                return Vec::new();
            };
            found = found.saturating_add(cost);
            places.push(place);
        }
        places
    }

    /// Returns the approximate queued costs of the sender and of the largest holder: of peers, or
    /// of connections if the sender's peer is the only one.
    pub fn queued_costs(&mut self, sender: Sender) -> (u64, u64) {
        if self.peers.is_empty() {
            return (0, 0);
        }
        let Some(&(_, number)) = self.ends().last() else { return (0, 0) };
        let Some(most) = self.peers.get(&number) else { return (0, 0) };
        if number != sender.peer || self.peers.len() > 1 {
            return (self.peers.get(&sender.peer).map_or(0, |peer| peer.cost), most.cost);
        }
        let cost = |number| most.connection(number).map_or(0, |own| own.cost);
        (cost(sender.connection), most.last().map_or(0, |(_, item)| cost(item.connection)))
    }

    /// Removes all items except those to keep, which keep their places.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.returned.retain(&is_kept);
        let mut removed = Vec::new();
        for (number, peer) in &self.peers {
            let items = peer.iter().filter(|(_, item)| !is_kept(&item.content));
            removed.extend(items.map(|(place, _)| (*number, place)));
        }
        removed.into_iter().for_each(|(number, place)| drop(self.remove(number, place, false)));
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.returned.len() + self.count
    }

    /// Returns true if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the peers by the finish tag of their last item.
    fn ends(&mut self) -> &BTreeSet<(u64, u32)> {
        let all = || self.peers.iter().map(|(number, peer)| (peer.end(), *number)).collect();
        self.ends.get_or_insert_with(all)
    }

    fn remove(&mut self, number: u32, place: ItemTag, is_served: bool) -> Option<QueuedItem<T>> {
        let peer = self.peers.get_mut(&number)?;
        let end_before = peer.end();
        let item = peer.remove(place, is_served)?;
        self.count -= 1;
        if is_served {
            self.now = self.now.max(peer.served);
        }
        move_end(&mut self.ends, (end_before, number), peer.end());
        match peer.next_turn() {
            Some(turn) if turn == peer.turn => return Some(item),
            Some(turn) => {
                peer.turn = turn;
                self.turns.push(Reverse(turn));
            }
            None => self.forget(number),
        }
        self.drop_stale_turns();
        Some(item)
    }

    /// Forgets a peer without items.
    fn forget(&mut self, number: u32) {
        let Some(peer) = self.peers.remove(&number) else { return };
        self.ends = self.ends.take().filter(|_| !self.peers.is_empty());
        if let Some(ends) = &mut self.ends {
            ends.remove(&(peer.end(), number));
        }
    }

    /// Drops stale turns: those at the front, and all if most turns are stale.
    fn drop_stale_turns(&mut self) {
        if self.turns.len() > 2 * self.peers.len() + STALE_MAX {
            self.turns = self.peers.values().map(|peer| Reverse(peer.turn)).collect();
        }
        self.drop_first_stale_turns();
    }

    fn drop_first_stale_turns(&mut self) {
        while self.next_peer().is_none() && self.turns.pop().is_some() {}
    }

    /// Returns the peer with the first turn; `None` if that turn is stale.
    fn next_peer(&self) -> Option<&PeerQueue<T>> {
        let Reverse(turn) = self.turns.peek()?;
        self.peers.get(&turn.2).filter(|peer| peer.turn == *turn)
    }
}

/// Moves a peer to the finish tag of its last item.
fn move_end(ends: &mut Option<BTreeSet<(u64, u32)>>, before: (u64, u32), end: u64) {
    if let Some(ends) = ends {
        ends.remove(&before);
        ends.insert((end, before.1));
    }
}

#[cfg(test)]
mod tests;
