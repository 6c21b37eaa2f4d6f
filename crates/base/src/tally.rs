//! Counts of equal things.

use std::hash::Hash;

use hashbrown::{HashMap, HashSet};

/// Returns how often each thing occurs.
pub fn tally<T: Eq + Hash>(things: impl IntoIterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    things.into_iter().for_each(|thing| *counts.entry(thing).or_default() += 1);
    counts
}

/// Returns the size of the multiset intersection.
pub fn common<T: Eq + Hash>(these: &[T], others: &[T]) -> usize {
    let mut left = tally(these);
    let mut takes = |thing: &&T| {
        let left = left.get_mut(*thing).filter(|count| **count > 0);
        left.map(|count| *count -= 1).is_some()
    };
    others.iter().filter(|thing| takes(thing)).count()
}

/// Returns the distinct names in order of first occurrence.
pub fn distinct<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut seen = HashSet::new();
    names.into_iter().filter(|name| seen.insert(*name)).collect()
}
