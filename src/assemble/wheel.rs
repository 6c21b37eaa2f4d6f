//! A coarse timer wheel: what is due, in slots of [`TICK_MS`].
//!
//! Entries are not taken out when they become stale; the owner finds that when they fire and arms
//! them again if need be. Takes `now` as an argument, so tests need no clock.

/// Length of a slot, milliseconds: how late a deadline may fire.
pub(super) const TICK_MS: u64 = 50;
/// Slots; a deadline further away fires at the horizon, to be armed again by its owner.
const SLOT_COUNT: u64 = 1024;

/// Deadlines of handles.
pub(super) struct Wheel<T> {
    slots: Vec<Vec<T>>,
    /// The next slot to fire, counted from time zero.
    next: u64,
}

impl<T> Wheel<T> {
    /// Starts at `now`, milliseconds.
    pub(super) fn new(now_ms: u64) -> Self {
        Self { slots: (0..SLOT_COUNT).map(|_| Vec::new()).collect(), next: now_ms / TICK_MS }
    }

    /// Fires `entry` at the first tick at or after `deadline_ms`, at the horizon if that is sooner.
    pub(super) fn arm(&mut self, deadline_ms: u64, entry: T) {
        let slot = deadline_ms.div_ceil(TICK_MS).clamp(self.next, self.next + SLOT_COUNT - 1);
        self.slots[(slot % SLOT_COUNT) as usize].push(entry);
    }

    /// Takes what is due at `now`, oldest slot first.
    pub(super) fn due(&mut self, now_ms: u64, out: &mut Vec<T>) {
        let last = now_ms / TICK_MS;
        // After a long pause each slot is visited once.
        let from = self.next.max((last + 1).saturating_sub(SLOT_COUNT));
        let start = if last >= self.next + SLOT_COUNT { from } else { self.next };
        for slot in start..=last {
            out.append(&mut self.slots[(slot % SLOT_COUNT) as usize]);
        }
        self.next = self.next.max(last + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wheel: &mut Wheel<u32>, now_ms: u64) -> Vec<u32> {
        let mut out = Vec::new();
        wheel.due(now_ms, &mut out);
        out
    }

    #[test]
    fn entries_fire_at_their_tick_and_never_before() {
        let mut wheel = Wheel::new(1_000);
        wheel.arm(1_200, 1);
        wheel.arm(1_201, 2);
        wheel.arm(0, 3);
        assert_eq!(due(&mut wheel, 1_199), [3]);
        assert_eq!(due(&mut wheel, 1_200), [1]);
        assert_eq!(due(&mut wheel, 1_249), [0; 0]);
        assert_eq!(due(&mut wheel, 1_250), [2]);
    }

    #[test]
    fn far_deadlines_fire_at_the_horizon() {
        let mut wheel = Wheel::new(0);
        wheel.arm(u64::MAX / 2, 1);
        assert_eq!(due(&mut wheel, (SLOT_COUNT - 2) * TICK_MS), [0; 0]);
        assert_eq!(due(&mut wheel, (SLOT_COUNT - 1) * TICK_MS), [1]);
    }

    #[test]
    fn long_pause_fires_everything_once() {
        let mut wheel = Wheel::new(0);
        (0..100).for_each(|n| wheel.arm(u64::from(n) * 500, n));
        assert_eq!(due(&mut wheel, 10_000_000).len(), 100);
        assert_eq!(due(&mut wheel, 20_000_000), [0; 0]);
        wheel.arm(20_000_100, 7);
        assert_eq!(due(&mut wheel, 20_000_100), [7]);
    }
}
