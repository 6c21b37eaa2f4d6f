//! Self-clocked fair queue of two levels: the peer goes first that was served least, and of its
//! connections the one that was served least.
//!
//! The algorithm is Golestani's ("A self-clocked fair queueing scheme for broadband applications",
//! 1994), among peers and within each. An item gets a finish tag: its cost past the tag of its
//! connection's last one, or past the virtual time of its peer, if that is later. A peer's tag is
//! what it was served so far, and the cost of its first item. The lowest tag is served first, and
//! becomes the virtual time. Who has no items here is forgotten, so nobody saves up credit.
//!
//! Finish tags are compared, not start tags, because of floods that open a connection for each
//! request: each of those is new, and would start now, before the second request of a connection
//! that waits. Behind two connections of expensive traces 66 of 173 small requests came in time by
//! start tags, and all of them by finish tags.
//!
//! In a queue without room the last item of the peer goes whose end is the highest: what it was
//! served, and the cost of all that it has waiting.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use hashbrown::{HashMap, HashSet};
use smart_default::SmartDefault;

use super::Sender;

/// Place of an item among those of its peer: finish tag and arrival.
type PlaceInPeer = (u64, u64);

/// Turn of a peer: finish tag and arrival of its first item, and its number.
type PeerTurn = (u64, u64, u32);

/// Turns of no peer that stay, beside as many as there are peers.
const STALE_MAX: usize = 64;

/// Self-clocked fair queue.
#[derive(Debug, SmartDefault)]
pub struct FairLine<T> {
    /// Items that were taken before, and go first.
    taken_before: VecDeque<T>,
    peers: HashMap<u32, PeerInLine<T>>,
    /// Turns, those of peers that have another by now included.
    turns: BinaryHeap<Reverse<PeerTurn>>,
    /// Peers by the finish tag of their last; `None` until somebody asks who has most waiting.
    ends: Option<BTreeSet<(u64, u32)>>,
    /// Number of items that were not taken before.
    count: usize,
    now: u64,
    came: u64,
}

/// Waiting item of a connection.
#[derive(Debug)]
struct LineItem<T> {
    connection: u16,
    cost: u64,
    what: T,
}

/// Item that made room.
#[derive(Debug)]
pub struct DisplacedItem<T> {
    /// Its sender, without the group.
    pub sender: Sender,
    /// Its cost.
    pub cost: usize,
    /// The item.
    pub what: T,
}

/// Waiting items of one connection with their cost, and the finish tag of its last.
#[derive(Debug, Default)]
struct ConnectionInLine {
    count: usize,
    cost: u64,
    end: u64,
}

/// Waiting items of one peer with their cost, past what it was served so far.
#[derive(Debug, SmartDefault)]
struct PeerInLine<T> {
    /// Its first connection; most peers have one alone.
    connection: u16,
    own: ConnectionInLine,
    /// Items of that connection, which come in their order.
    items: VecDeque<(PlaceInPeer, LineItem<T>)>,
    others: HashMap<u16, ConnectionInLine>,
    items_of_others: BTreeMap<PlaceInPeer, LineItem<T>>,
    cost: u64,
    served: u64,
    /// Virtual time of its connections.
    now: u64,
    turn: PeerTurn,
}

impl<T> PeerInLine<T> {
    fn new(number: u32, connection: u16) -> Self {
        Self { connection, turn: (0, 0, number), ..Self::default() }
    }

    /// Returns the finish tag of its last item.
    fn end(&self) -> u64 {
        self.served.saturating_add(self.cost)
    }

    fn connection(&self, number: u16) -> Option<&ConnectionInLine> {
        if number == self.connection { Some(&self.own) } else { self.others.get(&number) }
    }

    /// Returns the first item.
    fn first(&self) -> Option<(PlaceInPeer, &LineItem<T>)> {
        let own = self.items.front().map(|(place, item)| (*place, item));
        let other = self.items_of_others.first_key_value().map(|(place, item)| (*place, item));
        own.into_iter().chain(other).min_by_key(|(place, _)| *place)
    }

    /// Returns the place of the first item of a connection that is not held; asks once for each.
    fn first_unless(&self, is_held: impl Fn(&T) -> bool) -> Option<PlaceInPeer> {
        let own = self.items.front().filter(|(_, item)| !is_held(&item.what));
        let mut held = HashSet::new();
        let mut other = None;
        for (place, item) in &self.items_of_others {
            if held.contains(&item.connection) {
                continue;
            }
            if !is_held(&item.what) {
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
    fn last(&self) -> Option<(PlaceInPeer, &LineItem<T>)> {
        let own = self.items.back().map(|(place, item)| (*place, item));
        let other = self.items_of_others.last_key_value().map(|(place, item)| (*place, item));
        own.into_iter().chain(other).max_by_key(|(place, _)| *place)
    }

    /// Returns the items, those of its first connection first.
    fn iter(&self) -> impl Iterator<Item = (PlaceInPeer, &LineItem<T>)> {
        let others = self.items_of_others.iter().map(|(place, item)| (*place, item));
        self.items.iter().map(|(place, item)| (*place, item)).chain(others)
    }

    /// Adds an item of a connection.
    fn put(&mut self, came: u64, item: LineItem<T>) {
        let LineItem { connection, cost, .. } = item;
        let is_first = connection == self.connection;
        let others = &mut self.others;
        let own = if is_first { &mut self.own } else { others.entry(connection).or_default() };
        own.end = own.end.max(self.now).saturating_add(cost);
        own.count += 1;
        own.cost = own.cost.saturating_add(cost);
        self.cost = self.cost.saturating_add(cost);
        if is_first {
            self.items.push_back(((own.end, came), item));
        } else {
            self.items_of_others.insert((own.end, came), item);
        }
    }

    fn pull(&mut self, place: PlaceInPeer) -> Option<LineItem<T>> {
        if self.items.front().is_some_and(|(first, _)| *first == place) {
            return self.items.pop_front().map(|(_, item)| item);
        }
        match self.items.binary_search_by_key(&place, |(place, _)| *place) {
            Ok(at) => self.items.remove(at).map(|(_, item)| item),
            Err(_) => self.items_of_others.remove(&place),
        }
    }

    /// Removes an item: served, or as if its connection had not put it, where it is its last.
    fn remove(&mut self, place: PlaceInPeer, is_served: bool) -> Option<LineItem<T>> {
        let item = self.pull(place)?;
        let LineItem { connection, cost, .. } = item;
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
            // Past items that are held it stays where it was when they come.
            self.now = self.now.max(place.0);
        }
        Some(item)
    }

    /// Returns the turn that it has by its first item; `None` without any.
    fn next_turn(&self) -> Option<PeerTurn> {
        let ((_, came), item) = self.first()?;
        Some((self.served.saturating_add(item.cost), came, self.turn.2))
    }
}

impl<T> FairLine<T> {
    /// Bytes of an item in the line, without its spare room.
    pub const ITEM_BYTES: usize = size_of::<(PlaceInPeer, LineItem<T>)>();

    /// Adds an item of a sender.
    pub fn put(&mut self, sender: Sender, cost: usize, what: T) {
        let Sender { peer: number, connection, .. } = sender;
        self.came += 1;
        self.count += 1;
        let peer = self.peers.entry(number).or_insert_with(|| PeerInLine::new(number, connection));
        let end_before = peer.end();
        // A peer whose items were held while others were served loses that lead.
        peer.served = peer.served.saturating_add(self.now.saturating_sub(end_before));
        peer.put(self.came, LineItem { connection, cost: cost as u64, what });
        move_end(&mut self.ends, (end_before, number), peer.end());
        if let Some(turn) = peer.next_turn().filter(|turn| *turn != peer.turn) {
            peer.turn = turn;
            self.turns.push(Reverse(turn));
            self.drop_stale_turns();
        }
    }

    /// Adds an item in front of all others, as it was taken before.
    pub fn put_first(&mut self, what: T) {
        self.taken_before.push_front(what);
    }

    /// Takes the next item.
    pub fn take(&mut self) -> Option<T> {
        self.take_unless(|_| false)
    }

    /// Takes the next item of a connection that is not held; held ones keep their places. Beside
    /// those that were taken before it asks once for each held connection that comes first, and
    /// passes by the items of these.
    pub fn take_unless(&mut self, is_held: impl Fn(&T) -> bool) -> Option<T> {
        if let Some(at) = self.taken_before.iter().position(|what| !is_held(what)) {
            return self.taken_before.remove(at);
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
        self.remove(number, place, true).map(|item| item.what)
    }

    /// Returns the next item.
    pub fn peek(&self) -> Option<&T> {
        let waiting = || {
            let (_, item) = self.next_peer()?.first()?;
            Some(&item.what)
        };
        self.taken_before.front().or_else(waiting)
    }

    /// Returns the items, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let waiting = self.peers.values().flat_map(PeerInLine::iter);
        self.taken_before.iter().chain(waiting.map(|(_, item)| &item.what))
    }

    /// Makes room for an item that a sender would put, if what comes behind it has so much as is
    /// lacking: takes the last of whoever has most waiting. Else nothing is taken. The
    /// work is that of what goes, or of what comes behind the item.
    pub fn displace(
        &mut self,
        sender: Sender,
        cost: usize,
        lacking: usize,
    ) -> Vec<DisplacedItem<T>> {
        let mut gone = Vec::new();
        let mut lacking = lacking as u64;
        let of_peer = self.peers.get(&sender.peer).map_or(0, |peer| peer.end());
        let tag = of_peer.max(self.now).saturating_add(cost as u64);
        if self.is_behind(tag, lacking) {
            while lacking > 0
                && let Some(&(_, number)) = self.ends().last()
            {
                let last = self.peers.get(&number).and_then(PeerInLine::last);
                let Some((place, cost)) = last.map(|(place, item)| (place, item.cost)) else {
                    break;
                };
                lacking = lacking.saturating_sub(cost);
                gone.extend(self.displace_at(number, place));
            }
            return gone;
        }
        for place in self.behind_in_peer(sender, cost as u64, lacking) {
            gone.extend(self.displace_at(sender.peer, place));
        }
        gone
    }

    fn displace_at(&mut self, peer: u32, place: PlaceInPeer) -> Option<DisplacedItem<T>> {
        let LineItem { connection, cost, what } = self.remove(peer, place, false)?;
        let sender = Sender { peer, connection, ..Sender::default() };
        Some(DisplacedItem { sender, cost: cost as usize, what })
    }

    /// Returns true if the peers have so much waiting behind a finish tag.
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

    /// Returns the last items of other connections of a sender's peer that come behind an item of
    /// the sender, if they have so much as is lacking.
    fn behind_in_peer(&self, sender: Sender, cost: u64, lacking: u64) -> Vec<PlaceInPeer> {
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

    /// Returns the cost of what a sender has waiting, and of what whoever has most has, about: of
    /// peers, and of connections where its peer is the only one.
    pub fn standing(&mut self, sender: Sender) -> (u64, u64) {
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

    /// Removes all items but those to be kept, which keep their places.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.taken_before.retain(&is_kept);
        let mut gone = Vec::new();
        for (number, peer) in &self.peers {
            let items = peer.iter().filter(|(_, item)| !is_kept(&item.what));
            gone.extend(items.map(|(place, _)| (*number, place)));
        }
        gone.into_iter().for_each(|(number, place)| drop(self.remove(number, place, false)));
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.taken_before.len() + self.count
    }

    /// Returns true if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the peers by the finish tag of their last.
    fn ends(&mut self) -> &BTreeSet<(u64, u32)> {
        let all = || self.peers.iter().map(|(number, peer)| (peer.end(), *number)).collect();
        self.ends.get_or_insert_with(all)
    }

    fn remove(&mut self, number: u32, place: PlaceInPeer, is_served: bool) -> Option<LineItem<T>> {
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

    /// Drops turns of peers that have another by now: the first ones, and all where most are such.
    fn drop_stale_turns(&mut self) {
        if self.turns.len() > 2 * self.peers.len() + STALE_MAX {
            self.turns = self.peers.values().map(|peer| Reverse(peer.turn)).collect();
        }
        self.drop_first_stale_turns();
    }

    fn drop_first_stale_turns(&mut self) {
        while self.next_peer().is_none() && self.turns.pop().is_some() {}
    }

    /// Returns the peer whose turn is the first.
    fn next_peer(&self) -> Option<&PeerInLine<T>> {
        let Reverse(turn) = self.turns.peek()?;
        self.peers.get(&turn.2).filter(|peer| peer.turn == *turn)
    }
}

/// Puts a peer where its last item belongs.
fn move_end(ends: &mut Option<BTreeSet<(u64, u32)>>, before: (u64, u32), end: u64) {
    if let Some(ends) = ends {
        ends.remove(&before);
        ends.insert((end, before.1));
    }
}

#[cfg(test)]
mod tests;
