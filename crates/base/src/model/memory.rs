//! Memory quotas: bytes of senders' data, counted by the component that holds them.
//!
//! `limits.memory_mib` limits their sum. It is divided into one quota for each component. Each
//! component stays within its quota, so the sum stays within the limit without coordination.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest share of one holder, as a multiple of the free rest of the quota. A single holder gets
/// nearly all of it. Under contention large holders get no more, and small ones still find room.
pub(super) const HOLDER_TIMES: usize = 4;

/// Quota of one component: a limit and the amount in use, mostly in bytes.
#[derive(Debug)]
pub struct MemoryQuota {
    name: &'static str,
    limit: AtomicUsize,
    held: AtomicUsize,
    forgotten: AtomicUsize,
}

impl MemoryQuota {
    /// Returns an unused quota; the name is the `part` of its metrics.
    pub fn new(name: &'static str, limit: usize) -> Arc<Self> {
        let [held, forgotten] = [0, 0].map(AtomicUsize::new);
        Arc::new(Self { name, limit: AtomicUsize::new(limit), held, forgotten })
    }

    /// Returns the `part` of its metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the limit.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit; an amount in use beyond it stays until it is given back.
    pub fn resize(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the amount in use.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the free amount.
    pub fn left(&self) -> usize {
        self.limit().saturating_sub(self.held())
    }

    /// Returns the largest amount for a single holder of an unused quota.
    pub fn largest(&self) -> usize {
        self.limit() / (HOLDER_TIMES + 1) * HOLDER_TIMES
    }

    /// Takes an amount if the quota has room.
    pub fn try_take(&self, amount: usize) -> bool {
        let limit = self.limit();
        let sum = |held: usize| held.checked_add(amount).filter(|sum| *sum <= limit);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    /// Takes an amount for a holder that uses `own`, if the quota has room and the holder stays
    /// within its share (`HOLDER_TIMES`). A holder without any may take all the room.
    pub fn try_take_for(&self, own: &AtomicUsize, amount: usize) -> bool {
        if !self.try_take(amount) {
            return false;
        }
        let before = own.fetch_add(amount, Ordering::Relaxed);
        if before == 0 || before + amount <= self.left().saturating_mul(HOLDER_TIMES) {
            return true;
        }
        self.give_back_for(own, amount);
        false
    }

    /// Takes an amount even beyond the limit, for bytes already held.
    pub fn take(&self, amount: usize) {
        self.held.fetch_add(amount, Ordering::Relaxed);
    }

    /// Releases an amount.
    pub fn give_back(&self, amount: usize) {
        lower(&self.held, amount);
    }

    /// Releases an amount of a holder.
    pub fn give_back_for(&self, own: &AtomicUsize, amount: usize) {
        lower(own, amount);
        self.give_back(amount);
    }

    /// Counts cache entries evicted by the limit.
    pub fn count_forgotten(&self, count: usize) {
        self.forgotten.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number of cache entries evicted by the limit.
    pub fn forgotten(&self) -> usize {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// Changes a held amount from `before` to `now`, even beyond the limit.
    pub fn change(&self, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => self.take(more),
            None => self.give_back(before - now),
        }
    }
}

/// Lowers a count, never below 0: a wrapped count would block the quota for good.
fn lower(count: &AtomicUsize, amount: usize) {
    let lowered = |before: usize| Some(before.saturating_sub(amount));
    // Never an error: the closure always returns `Some`.
    let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowered);
}

/// Declares the quotas in data-flow order: limits, quotas, and each one's mebibytes of one
/// gibibyte.
macro_rules! quotas {
    ($($(#[$doc:meta])* $name:ident: $mib:literal;)*) => {
        /// Limits of all quotas, bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct MemoryLimits {
            /// The whole limit, including fixed costs.
            pub total: usize,
            $($(#[$doc])* pub $name: usize,)*
        }

        impl MemoryLimits {
            /// Returns limits of zero.
            pub fn none() -> Self {
                Self { total: 0, $($name: 0,)* }
            }
        }

        impl Default for MemoryLimits {
            /// Returns the division of one gibibyte.
            fn default() -> Self {
                Self { total: 1 << 30, $($name: $mib << 20,)* }
            }
        }

        /// Quotas of all components that hold senders' data.
        #[derive(Clone, Debug)]
        pub struct Memory {
            $($(#[$doc])* pub $name: Arc<MemoryQuota>,)*
        }

        impl Memory {
            /// Returns unused quotas of these sizes.
            pub fn new(limits: &MemoryLimits) -> Self {
                Self { $($name: MemoryQuota::new(stringify!($name), limits.$name),)* }
            }

            /// Changes all limits; a quota in use beyond its new limit takes nothing more until it
            /// is below.
            pub fn resize(&self, limits: &MemoryLimits) {
                $(self.$name.resize(limits.$name);)*
            }

            /// Returns all quotas, in data-flow order.
            pub fn shares(&self) -> [&Arc<MemoryQuota>; 10] {
                [$(&self.$name),*]
            }
        }
    };
}

quotas! {
    /// Connections: bytes read ahead of their requests.
    connections: 44;
    /// Bodies of requests, as received and decompressed.
    requests: 172;
    /// Records in the queues of shards.
    queue: 68;
    /// Traces, open and remembered, with their resources.
    traces: 176;
    /// Values decoded from traces during judging.
    judging: 136;
    /// Sessions, and the traces that wait for theirs.
    sessions: 46;
    /// Evaluations in the queues of exporters.
    exporters: 46;
    /// Requests in the queues of forwards; 0 without a forward.
    forward: 0;
    /// Series of exporters, with their labels and resources.
    series: 20;
    /// Compiled expressions of rules and the lazy-DFA caches of their automata; more if the config
    /// has evaluators that scan texts.
    rules: 64;
}

impl Memory {
    /// Replaces the quota of rules by one for the whole process.
    pub fn with_rules(self, rules: Arc<MemoryQuota>) -> Self {
        rules.resize(self.rules.limit());
        Self { rules, ..self }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(&MemoryLimits::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_alone_has_nearly_all_and_leaves_room_for_another() {
        let share = MemoryQuota::new("x", 1000);
        let one = AtomicUsize::new(0);
        let other = AtomicUsize::new(0);
        let mut taken = 0;
        while share.try_take_for(&one, 10) {
            taken += 10;
        }
        assert_eq!((taken, share.largest()), (800, 800));
        assert!(share.try_take_for(&other, 180), "who has nothing takes what there is");
        assert!(!share.try_take_for(&other, 10), "then it is one of two who have much");
        share.give_back_for(&one, 400);
        assert!(share.try_take_for(&other, 10));
        assert_eq!((share.held(), share.left()), (590, 410));
    }

    #[test]
    fn no_holder_takes_more_than_there_is() {
        let share = MemoryQuota::new("x", 100);
        let own = AtomicUsize::new(0);
        assert!(!share.try_take_for(&own, 101) && !share.try_take(usize::MAX));
        assert!(share.try_take_for(&own, 100) && !share.try_take(1));
        share.change(100, 40);
        assert_eq!(share.held(), 40);
    }

    #[test]
    fn a_share_that_becomes_smaller_takes_nothing_until_enough_is_given_back() {
        let share = MemoryQuota::new("x", 100);
        assert!(share.try_take(80));
        share.resize(50);
        assert!(!share.try_take(1) && share.left() == 0);
        share.give_back(40);
        assert!(share.try_take(10) && !share.try_take(1));
        share.resize(100);
        assert!(share.try_take(50));
    }

    #[test]
    fn what_is_given_back_twice_leaves_the_share_empty_and_of_use() {
        let share = MemoryQuota::new("x", 100);
        let own = AtomicUsize::new(0);
        assert!(share.try_take_for(&own, 10));
        share.give_back_for(&own, 10);
        share.give_back_for(&own, 10);
        assert_eq!((share.held(), own.load(Ordering::Relaxed)), (0, 0));
        assert!(share.try_take_for(&own, 80));
    }
}
