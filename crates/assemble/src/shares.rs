//! Fair shares of the limits on traces: the largest holder makes room.
//!
//! ```text
//! all ── client, else address ── service ── connection ── its traces, by class
//! ```
//!
//! At each level of this tree the largest holder gives a trace. Connections of one address count
//! together, so many of them hold no more than one; its services count separately. A trace without
//! an agent span weighs as much as [`PLAIN_WEIGHT`] with one. Within a holder, traces without an
//! agent span are removed first, then those of ended agents, oldest first. Running agents come
//! last, newest first: the longest run has most to lose, and a flood displaces itself.
//!
//! Holders are ordered by rank, which is exact up to 15 and within an eighth above. An exact order
//! of sums that change with each record would cost more than the records.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use spanscore_base::model::{Sender, fingerprint};

/// Weight of a trace without an agent span.
pub(crate) const PLAIN_WEIGHT: usize = 16;
/// Services of one address that count separately; others count together.
const SERVICES_MAX: usize = 256;
/// Levels of the tree below its root.
const LEVELS: usize = 3;
/// No holder, or no trace.
const NONE: u32 = u32::MAX;
/// The root of the tree.
const ROOT: u32 = 0;

/// Classes of traces, in the order of their removal from a holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TraceClass {
    /// Judged, and remembered for late spans.
    Remembered,
    /// Open, without an agent, model or tool span.
    Plain,
    /// Open, with such a span, and its root has ended.
    Complete,
    /// Open, with such a span.
    Running,
    /// Being judged: removed or remembered afterwards.
    BeingJudged,
    /// Waiting for judgement on another thread, or being judged there: it cannot be removed.
    Waiting,
}

/// Measures of a holding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    /// Weight of its open traces by their number.
    OpenTraces,
    /// Weight of its open traces by their bytes.
    OpenBytes,
    /// Bytes of its remembered traces.
    RememberedBytes,
}

/// A holding by all measures.
type HeldShare = [usize; 3];

/// A trace's entry: its holder, and its neighbours of the same class.
#[derive(Clone, Copy)]
struct Entry {
    bytes: usize,
    holder: u32,
    before: u32,
    after: u32,
    class: TraceClass,
}

/// Oldest and newest trace of one class.
#[derive(Clone, Copy)]
struct ClassEnds {
    oldest: u32,
    newest: u32,
}

/// A client or address, one of its services, or one of its connections.
struct Holder {
    above: u32,
    key: u32,
    /// Number of holders or traces below it.
    parts: u32,
    holding: HeldShare,
    below: [BTreeSet<(u16, u32)>; 3],
    traces: [ClassEnds; 4],
}

impl Holder {
    fn new(above: u32, key: u32) -> Self {
        let empty = ClassEnds { oldest: NONE, newest: NONE };
        let below = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        Self { above, key, parts: 0, holding: [0; 3], below, traces: [empty; 4] }
    }
}

/// Bytes of a holder with its entries in its parent and by key.
const HOLDER_BYTES: usize = size_of::<Holder>() + 160;

/// Holders of all traces of a shard, by the traces' slot numbers.
pub(crate) struct Shares {
    holders: Vec<Holder>,
    free: Vec<u32>,
    by_key: HashMap<(u32, u32), u32>,
    entries: Vec<Entry>,
}

impl Default for Shares {
    fn default() -> Self {
        let holders = vec![Holder::new(NONE, 0)];
        Self { holders, free: Vec::new(), by_key: HashMap::new(), entries: Vec::new() }
    }
}

impl Shares {
    /// Returns the bytes of the holders; traces count their entries.
    pub(crate) fn bytes(&self) -> usize {
        self.by_key.len() * HOLDER_BYTES
    }

    /// Adds a trace without holdings.
    pub(crate) fn join(&mut self, trace: u32, sender: Sender, service: &str) {
        let peer = self.below(ROOT, sender.peer);
        let service = self.below(peer, self.service_key(peer, service));
        let holder = self.below(service, sender.connection.into());
        self.holders[holder as usize].parts += 1;
        let class = TraceClass::BeingJudged;
        let entry = Entry { bytes: 0, holder, before: NONE, after: NONE, class };
        let at = trace as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, entry);
        }
        self.entries[at] = entry;
    }

    /// Removes a trace, and empty holders.
    pub(crate) fn leave(&mut self, trace: u32) {
        self.put(trace, TraceClass::BeingJudged);
        let mut holder = self.entries[trace as usize].holder;
        loop {
            let held = &mut self.holders[holder as usize];
            held.parts -= 1;
            if held.parts > 0 || holder == ROOT {
                return;
            }
            let above = held.above;
            self.by_key.remove(&(above, held.key));
            (0..3).for_each(|measure| {
                self.holders[above as usize].below[measure].remove(&(0, holder));
            });
            self.free.push(holder);
            holder = above;
        }
    }

    /// Moves a trace to another class.
    pub(crate) fn put(&mut self, trace: u32, class: TraceClass) {
        self.set(trace, class, self.bytes_of(trace));
    }

    /// Changes the class of a trace and the bytes that it holds.
    pub(crate) fn set(&mut self, trace: u32, class: TraceClass, bytes: usize) {
        let before = self.entries[trace as usize];
        if before.class != class {
            self.unlink(trace);
            self.entries[trace as usize].class = class;
            self.link(trace);
        }
        self.entries[trace as usize].bytes = bytes;
        self.weigh(before.holder, held(before), held(self.entries[trace as usize]));
    }

    /// Returns the class of a trace.
    pub(crate) fn class_of(&self, trace: u32) -> TraceClass {
        self.entries[trace as usize].class
    }

    /// Returns the bytes that a trace holds.
    pub(crate) fn bytes_of(&self, trace: u32) -> usize {
        self.entries[trace as usize].bytes
    }

    /// Returns the next trace to remove by a measure; `None` if no holder has a removable one.
    pub(crate) fn next(&self, measure: Measure) -> Option<u32> {
        self.next_below(ROOT, LEVELS, measure)
    }

    /// Returns the next trace to remove this many levels below a holder.
    fn next_below(&self, holder: u32, levels: usize, measure: Measure) -> Option<u32> {
        let holder = &self.holders[holder as usize];
        if levels > 0 {
            // Mostly from the first holder; others are tried if its traces all wait.
            let below = holder.below[measure as usize].iter().rev();
            let holding = below.take_while(|(rank, _)| *rank > 0);
            return holding
                .into_iter()
                .find_map(|(_, at)| self.next_below(*at, levels - 1, measure));
        }
        let [remembered, plain, complete, running] = holder.traces;
        let order = match measure {
            Measure::RememberedBytes => [remembered.oldest, NONE, NONE],
            Measure::OpenTraces | Measure::OpenBytes => {
                [plain.oldest, complete.oldest, running.newest]
            }
        };
        order.into_iter().find(|trace| *trace != NONE)
    }

    /// Releases memory after a flood.
    pub(crate) fn shrink(&mut self) {
        if self.by_key.capacity() > 1024 && self.by_key.len() < self.by_key.capacity() / 4 {
            self.by_key.shrink_to(2 * self.by_key.len());
        }
    }

    /// Returns the key of a service, or the common key once an address has many.
    fn service_key(&self, peer: u32, service: &str) -> u32 {
        let key = fingerprint(service.as_bytes());
        let parts = self.holders[peer as usize].parts as usize;
        let is_new = !self.by_key.contains_key(&(peer, key));
        if is_new && parts + 1 >= SERVICES_MAX { 0 } else { key }
    }

    /// Returns the holder with a key below another; adds it if it is new.
    fn below(&mut self, above: u32, key: u32) -> u32 {
        if let Some(&known) = self.by_key.get(&(above, key)) {
            return known;
        }
        let holder = Holder::new(above, key);
        let at = match self.free.pop() {
            Some(at) => {
                self.holders[at as usize] = holder;
                at
            }
            None => {
                self.holders.push(holder);
                self.holders.len() as u32 - 1
            }
        };
        self.by_key.insert((above, key), at);
        let above = &mut self.holders[above as usize];
        above.parts += 1;
        for below in &mut above.below {
            below.insert((0, at));
        }
        at
    }

    /// Changes the holdings of a holder and its ancestors.
    fn weigh(&mut self, mut holder: u32, before: HeldShare, now: HeldShare) {
        while holder != ROOT {
            let above = self.holders[holder as usize].above;
            for at in (0..3).filter(|at| before[*at] != now[*at]) {
                let sum = &mut self.holders[holder as usize].holding[at];
                let old_rank = rank(*sum);
                *sum = *sum + now[at] - before[at];
                let new_rank = rank(*sum);
                if old_rank != new_rank {
                    let below = &mut self.holders[above as usize].below[at];
                    below.remove(&(old_rank, holder));
                    below.insert((new_rank, holder));
                }
            }
            holder = above;
        }
    }

    /// Makes a trace the newest of its class.
    fn link(&mut self, trace: u32) {
        let Entry { holder, class, .. } = self.entries[trace as usize];
        let Some(ends) = self.holders[holder as usize].traces.get_mut(class as usize) else {
            return;
        };
        let before = std::mem::replace(&mut ends.newest, trace);
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = trace,
            None => ends.oldest = trace,
        }
        let entry = &mut self.entries[trace as usize];
        (entry.before, entry.after) = (before, NONE);
    }

    /// Removes a trace from its class.
    fn unlink(&mut self, trace: u32) {
        let Entry { holder, before, after, class, .. } = self.entries[trace as usize];
        let Some(ends) = self.holders[holder as usize].traces.get_mut(class as usize) else {
            return;
        };
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = after,
            None => ends.oldest = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(entry) => entry.before = before,
            None => ends.newest = before,
        }
    }
}

/// Returns one trace's part of a holding.
fn held(entry: Entry) -> HeldShare {
    match entry.class {
        TraceClass::Remembered => [0, 0, entry.bytes.max(1)],
        TraceClass::Plain => [PLAIN_WEIGHT, entry.bytes.saturating_mul(PLAIN_WEIGHT), 0],
        TraceClass::Complete | TraceClass::Running | TraceClass::Waiting => [1, entry.bytes, 0],
        TraceClass::BeingJudged => [0; 3],
    }
}

/// Returns the rank of a sum: its four highest bits, and their position.
fn rank(sum: usize) -> u16 {
    let shift = (usize::BITS - sum.leading_zeros()).saturating_sub(4);
    (shift * 8) as u16 + (sum >> shift) as u16
}

#[cfg(test)]
mod tests;
