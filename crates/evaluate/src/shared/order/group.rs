//! Matching of one group's calls with expected positions, by augmenting paths.
//!
//! A group covers a set of positions if each has its own matching call. Such sets form a
//! transversal matroid, so deciding position by position is optimal: a position is added if other
//! calls can be reassigned, else it replaces the earliest position that blocks it.

/// Marks no call or no position.
const NONE: u32 = u32::MAX;

/// Group of calls, and the positions that it covers.
#[derive(Default)]
pub(crate) struct CallGroup {
    /// Number of calls.
    count: usize,
    /// Adjacency matrix: the matching calls of each checked position, one bit each.
    fits: Vec<u64>,
    /// Unassigned calls, one bit each.
    free: Vec<u64>,
    /// Covered positions, ascending.
    taken: Vec<u32>,
    /// Call of each position, or [`NONE`].
    call_of: Vec<u32>,
    /// Position of each call, or [`NONE`].
    position_of: Vec<u32>,
    search: SwapSearch,
    /// Steps since they were last charged.
    steps: usize,
}

/// Buffers of the breadth-first search for an augmenting path.
#[derive(Default)]
struct SwapSearch {
    /// Visited calls, one bit each.
    seen: Vec<u64>,
    /// Position from which each was reached.
    from: Vec<u32>,
    /// Visited positions.
    queue: Vec<u32>,
}

impl CallGroup {
    /// Returns a group of `count` calls that covers no position.
    pub(crate) fn new(count: usize) -> Self {
        let mut free = vec![u64::MAX; count.div_ceil(64)];
        if let (Some(last), 1..) = (free.last_mut(), count % 64) {
            *last = (1 << (count % 64)) - 1;
        }
        Self { count, free, position_of: vec![NONE; count], ..Self::default() }
    }

    /// Finds the matching calls of the next position; returns true if there are any.
    pub(crate) fn ask(&mut self, mut fits: impl FnMut(usize) -> bool) -> bool {
        let from = self.fits.len();
        self.fits.resize(from + self.free.len(), 0);
        for call in 0..self.count {
            self.fits[from + call / 64] |= u64::from(fits(call)) << (call % 64);
        }
        self.call_of.push(NONE);
        self.steps += self.free.len();
        self.fits[from..].iter().any(|bits| *bits != 0)
    }

    fn fitting(&self, position: u32) -> &[u64] {
        let blocks = self.free.len();
        &self.fits[position as usize * blocks..(position as usize + 1) * blocks]
    }

    /// Searches an augmenting path from a position to an unassigned call; without one, the queue
    /// has all positions that could be given up.
    fn reach(&mut self, position: u32) -> Option<u32> {
        let SwapSearch { mut seen, mut from, mut queue } = std::mem::take(&mut self.search);
        seen.clear();
        seen.resize(self.free.len(), 0);
        from.resize(self.count, NONE);
        queue.clear();
        queue.push(position);
        let mut next = 0;
        let mut found = None;
        'search: while let Some(&at) = queue.get(next) {
            next += 1;
            self.steps += self.free.len();
            for (block, bits) in self.fitting(at).iter().enumerate() {
                let fresh = bits & !seen[block];
                seen[block] |= fresh;
                let free = fresh & self.free[block];
                let mut rest = if free != 0 { free } else { fresh };
                while rest != 0 {
                    let call = (block * 64) as u32 + rest.trailing_zeros();
                    rest &= rest - 1;
                    from[call as usize] = at;
                    if free != 0 {
                        found = Some(call);
                        break 'search;
                    }
                    queue.push(self.position_of[call as usize]);
                }
            }
        }
        self.search = SwapSearch { seen, from, queue };
        found
    }

    /// Flips the augmenting path from the call at its end back to the first position.
    fn flip_path(&mut self, mut call: u32, first: u32) {
        loop {
            let position = self.search.from[call as usize];
            self.position_of[call as usize] = position;
            let before = std::mem::replace(&mut self.call_of[position as usize], call);
            if position == first {
                return;
            }
            call = before;
            self.steps += 1;
        }
    }

    fn last(&self) -> u32 {
        self.call_of.len() as u32 - 1
    }

    /// Covers the last position too, if possible.
    pub(crate) fn take(&mut self) -> bool {
        let last = self.last();
        let Some(call) = self.reach(last) else { return false };
        self.free[call as usize / 64] &= !(1 << (call % 64));
        self.flip_path(call, last);
        self.taken.push(last);
        true
    }

    /// Covers the last position if any call matches it; if no call is left, drops the earliest
    /// position that blocks it.
    pub(crate) fn take_latest(&mut self) {
        if self.take() {
            return;
        }
        let last = self.last();
        let Some(&dropped) = self.search.queue.iter().min().filter(|at| **at != last) else {
            return;
        };
        let call = std::mem::replace(&mut self.call_of[dropped as usize], NONE);
        self.flip_path(call, last);
        self.taken.retain(|at| *at != dropped);
        self.taken.push(last);
        self.steps += self.taken.len();
    }

    /// Returns the covered positions, ascending.
    pub(super) fn taken(&self) -> &[u32] {
        &self.taken
    }

    /// Returns the number of covered positions.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Returns the steps since the last call of this.
    pub(crate) fn take_steps(&mut self) -> usize {
        std::mem::take(&mut self.steps)
    }
}
