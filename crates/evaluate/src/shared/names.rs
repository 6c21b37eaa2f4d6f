//! Map by tool name: few names are searched linearly, many are hashed.

use hashbrown::HashMap;
use smart_default::SmartDefault;

/// Number of names up to which a linear search is cheaper than a hash.
const LOOKED_THROUGH_MAX: usize = 8;

/// Map from names to values, in order of insertion.
#[derive(SmartDefault)]
pub(crate) struct NameMap<T> {
    entries: Vec<(String, T)>,
    /// Index of each name.
    places: HashMap<String, usize>,
}

impl<T> NameMap<T> {
    /// Returns the value of a name.
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        if self.entries.len() > LOOKED_THROUGH_MAX {
            return self.get_hashed(name);
        }
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[inline(never)]
    fn get_hashed(&self, name: &str) -> Option<&T> {
        self.places.get(name).and_then(|place| self.entries.get(*place)).map(|(_, value)| value)
    }

    /// Returns the names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the value of a name, inserted with `make` if absent.
    pub(crate) fn get_or_insert_with(&mut self, name: &str, make: impl FnOnce() -> T) -> &mut T {
        let next = self.entries.len();
        let place = *self.places.entry_ref(name).or_insert(next);
        if place == next {
            self.entries.push((name.to_owned(), make()));
        }
        &mut self.entries[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_among_few_and_many() {
        let mut names = NameMap::default();
        for at in 0..2 * LOOKED_THROUGH_MAX {
            let name = |at: usize| format!("tool-{at}");
            assert_eq!(names.get(&name(at)), None);
            assert_eq!(*names.get_or_insert_with(&name(at), || at), at);
            assert_eq!(*names.get_or_insert_with(&name(at), || 99), at);
            assert!((0..=at).all(|at| names.get(&name(at)) == Some(&at)), "{at}");
        }
    }
}
