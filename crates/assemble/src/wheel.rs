//! Timing wheel: returns entries when due, in slots of [`TICK_MS`].
//!
//! An entry fires at the first tick at or after its deadline, at any distance. The slots are a
//! ring: an entry due more than one turn (51.2 s) later stays in its slot while the ring passes it.
//! Arming is one push, for any number of deadlines. Entries are not cancelled: an owner ignores an
//! unneeded one when it fires, and the ring drops such entries as it passes. `now` is an argument,
//! so tests need no clock.

use smart_default::SmartDefault;

/// Length of a slot, milliseconds: the largest delay of a deadline.
pub(super) const TICK_MS: u64 = 50;
/// Slots of the ring.
const SLOT_COUNT: u64 = 1024;
/// Capacity in entries below which a slot is not shrunk.
const KEPT_ENTRIES: usize = 256;
/// Length of one turn of the ring, milliseconds: the longest stay of an unneeded entry.
#[cfg(test)]
pub(super) const TURN_MS: u64 = SLOT_COUNT * TICK_MS;

/// Timing wheel of entries.
#[derive(SmartDefault)]
pub(super) struct Wheel<T> {
    #[default((0..SLOT_COUNT).map(|_| Vec::new()).collect())]
    slots: Vec<Vec<Armed<T>>>,
    /// The next tick to fire, counted from time zero.
    next: u64,
}

struct Armed<T> {
    /// The tick at which it fires, counted from time zero.
    tick: u64,
    entry: T,
}

impl<T> Wheel<T> {
    /// Returns an empty wheel that starts at `now`, milliseconds.
    pub(super) fn new(now_ms: u64) -> Self {
        Self { next: now_ms / TICK_MS, ..Self::default() }
    }

    /// Arms a deadline: `entry` fires at the first tick at or after `deadline_ms`.
    pub(super) fn arm(&mut self, deadline_ms: u64, entry: T) {
        let tick = deadline_ms.div_ceil(TICK_MS).max(self.next);
        self.slots[(tick % SLOT_COUNT) as usize].push(Armed { tick, entry });
    }

    /// Takes entries due at `now`, oldest tick first unless the last call was more than a turn ago.
    /// Drops passed entries that are neither due nor `wanted`.
    pub(super) fn due(&mut self, now_ms: u64, wanted: impl Fn(&T) -> bool, out: &mut Vec<T>) {
        let last = now_ms / TICK_MS;
        // After a long pause each slot is visited once.
        let first = self.next.max((last + 1).saturating_sub(SLOT_COUNT));
        for tick in first..=last {
            let passed = &mut self.slots[(tick % SLOT_COUNT) as usize];
            let gone = passed.extract_if(.., |armed| armed.tick <= last || !wanted(&armed.entry));
            out.extend(gone.filter(|armed| armed.tick <= last).map(|armed| armed.entry));
            // Slots left mostly empty by a flood are shrunk.
            if passed.capacity() > KEPT_ENTRIES && passed.len() < passed.capacity() / 4 {
                passed.shrink_to(2 * passed.len());
            }
        }
        self.next = self.next.max(last + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: u64 = 60 * 60 * 1000;

    fn due(wheel: &mut Wheel<u32>, now_ms: u64) -> Vec<u32> {
        let mut out = Vec::new();
        wheel.due(now_ms, |_| true, &mut out);
        out
    }

    fn armed_count(wheel: &Wheel<u32>) -> usize {
        wheel.slots.iter().map(Vec::len).sum()
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

    /// Ticks like a shard's driver and returns when the only entry fires.
    fn fires_at(deadline_ms: u64) -> u64 {
        let start_ms = 1_000;
        let mut wheel = Wheel::new(start_ms);
        wheel.arm(start_ms + deadline_ms, 1);
        let mut fired_ms = None;
        for now_ms in (start_ms..start_ms + deadline_ms + 2 * TURN_MS).step_by(TICK_MS as usize) {
            if due(&mut wheel, now_ms) == [1] {
                assert_eq!(fired_ms.replace(now_ms - start_ms), None, "it fires once");
            }
        }
        fired_ms.expect("it fires")
    }

    #[test]
    fn deadlines_beyond_one_turn_fire_at_their_tick() {
        for deadline_ms in [TURN_MS - TICK_MS, TURN_MS, TURN_MS + TICK_MS, HOUR_MS / 6, HOUR_MS] {
            assert_eq!(fires_at(deadline_ms), deadline_ms);
        }
    }

    #[test]
    fn greatest_deadline_never_fires() {
        let mut wheel = Wheel::new(0);
        wheel.arm(u64::MAX, 1);
        assert_eq!(due(&mut wheel, 1_000 * HOUR_MS), [0; 0]);
        assert_eq!(armed_count(&wheel), 1);
    }

    #[test]
    fn unwanted_entry_leaves_the_wheel_within_one_turn() {
        let mut wheel = Wheel::new(0);
        wheel.arm(HOUR_MS, 1);
        wheel.arm(HOUR_MS, 2);
        let mut out = Vec::new();
        wheel.due(TURN_MS, |entry| *entry == 2, &mut out);
        assert_eq!((out.len(), armed_count(&wheel)), (0, 1));
        assert_eq!(due(&mut wheel, HOUR_MS), [2]);
    }

    #[test]
    fn long_pause_fires_everything_once() {
        let mut wheel = Wheel::new(0);
        (0..100).for_each(|n| wheel.arm(u64::from(n) * 5_000, n));
        assert_eq!(due(&mut wheel, 10_000_000).len(), 100);
        assert_eq!(due(&mut wheel, 20_000_000), [0; 0]);
        wheel.arm(20_000_100, 7);
        assert_eq!(due(&mut wheel, 20_000_100), [7]);
    }

    proptest! {
        /// The model is a list of deadlines, searched completely at every step.
        #[test]
        fn what_is_due_is_what_a_list_of_deadlines_says(
            start_ms in 0..10 * TURN_MS,
            steps in prop::collection::vec(
                (0..2 * TURN_MS, prop::collection::vec(0..5 * TURN_MS, 0..4)), 1..60)
        ) {
            let mut wheel = Wheel::new(start_ms);
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut now_ms = start_ms;
            let mut count = 0;
            for (pause_ms, deadlines) in steps {
                for after_ms in deadlines {
                    wheel.arm(now_ms + after_ms, count);
                    model.push(((now_ms + after_ms).div_ceil(TICK_MS) * TICK_MS, count));
                    count += 1;
                }
                // Deadlines within the fired tick wait for the next one.
                now_ms += pause_ms.max(TICK_MS);
                let expected = model.extract_if(.., |(fires_ms, _)| *fires_ms <= now_ms);
                let expected: Vec<_> = expected.map(|(_, entry)| entry).collect();
                let mut fired = due(&mut wheel, now_ms);
                fired.sort_unstable();
                prop_assert_eq!(fired, expected);
            }
            prop_assert_eq!(armed_count(&wheel), model.len());
        }
    }
}
