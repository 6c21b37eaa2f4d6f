//! Approximate LRU cache in two generations, bounded by weight.

use std::hash::Hash;

use hashbrown::{Equivalent, HashMap};
use smart_default::SmartDefault;

/// Weighted cache that evicts one of two generations at a time. A looked-up entry becomes young.
/// When the young reach half of the weight limit, the old are evicted and the young become the old.
/// So an insertion updates no list of uses, and an entry in use stays.
pub struct Recent<K, V> {
    young: Generation<K, V>,
    old: Generation<K, V>,
    half: usize,
    forgotten: u64,
}

/// Entries with their weights, and the sum of the weights.
#[derive(SmartDefault)]
struct Generation<K, V> {
    entries: HashMap<K, (V, usize)>,
    weight: usize,
}

impl<K: Eq + Hash, V> Generation<K, V> {
    fn remove<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<(K, V, usize)> {
        let (key, (value, weight)) = self.entries.remove_entry(key)?;
        self.weight -= weight;
        Some((key, value, weight))
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Returns an empty cache with a limit on the sum of weights.
    pub fn new(weight_max: usize) -> Self {
        let young = Generation::default();
        let old = Generation::default();
        Self { young, old, half: weight_max / 2, forgotten: 0 }
    }

    /// Changes the weight limit; present entries stay until they are old and evicted.
    pub fn limit(&mut self, weight_max: usize) {
        self.half = weight_max / 2;
    }

    /// Returns the weight of all entries.
    pub fn weight(&self) -> usize {
        self.young.weight + self.old.weight
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.young.entries.len() + self.old.entries.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry of a key, and makes it young.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        if !self.young.entries.contains_key(key)
            && let Some((own, value, weight)) = self.old.remove(key)
        {
            self.keep(own, value, weight);
        }
        self.young.entries.get_mut(key).map(|(value, _)| value)
    }

    /// Removes and returns an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let found = self.young.remove(key).or_else(|| self.old.remove(key));
        found.map(|(_, value, _)| value)
    }

    /// Inserts or replaces an entry, unless it alone weighs more than half of the limit.
    pub fn keep(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        if weight > self.half {
            self.forgotten += 1;
            return;
        }
        if self.young.weight + weight > self.half {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            self.forgotten += old.entries.len() as u64;
        }
        self.young.weight += weight;
        self.young.entries.insert(key, (value, weight));
    }

    /// Returns the number of evicted entries since the last call.
    pub fn take_forgotten(&mut self) -> u64 {
        std::mem::take(&mut self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_forgotten() {
        let mut table = Recent::new(20);
        for key in 0..100 {
            table.keep(key, key, 1);
            assert_eq!(table.get(&0), Some(&mut 0), "asked for each time");
            assert!(table.weight() <= 20 && table.len() == table.weight());
        }
        assert_eq!(table.get(&99), Some(&mut 99));
        assert_eq!(table.get(&50), None);
        assert_eq!(table.take_forgotten() as usize, 100 - table.len());
    }

    #[test]
    fn entry_that_is_too_heavy_is_not_kept_and_leaves_nothing_behind() {
        let mut table = Recent::new(20);
        table.keep("a", 1, 10);
        table.keep("a", 2, 11);
        assert!(table.is_empty() && table.weight() == 0);
        table.keep("b", 3, 10);
        table.keep("c", 4, 10);
        assert_eq!((table.weight(), table.remove(&"b")), (20, Some(3)));
        assert_eq!(table.weight(), 10);
    }
}
