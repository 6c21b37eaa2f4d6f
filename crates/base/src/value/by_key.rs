//! Lookup index over the entries of an object.

use hashbrown::HashMap;

use super::{Map, SEARCHED_MAX, Value};

/// Entries of an object for lookups by the keys of another. A large object is indexed, so that all
/// lookups are linear in both objects.
#[derive(Debug)]
pub enum ByKey<'m, 'a> {
    /// Few entries: a lookup scans them.
    Few(&'m Map<'a>),
    /// Many entries, indexed.
    Many(HashMap<&'m str, &'m Value<'a>>),
}

impl<'a> Map<'a> {
    /// Returns an index of the entries.
    pub fn by_key(&self) -> ByKey<'_, 'a> {
        if self.len() <= SEARCHED_MAX {
            return ByKey::Few(self);
        }
        ByKey::Many(self.iter().collect())
    }
}

impl<'m, 'a> ByKey<'m, 'a> {
    /// Returns the value of `key`.
    pub fn get(&self, key: &str) -> Option<&'m Value<'a>> {
        match self {
            Self::Few(map) => map.get(key),
            Self::Many(index) => index.get(key).copied(),
        }
    }

    /// Returns true if `key` has an entry.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_whether_few_or_many() {
        for count in [SEARCHED_MAX, SEARCHED_MAX + 1] {
            let map: Map<'_> = (0..count).map(|at| (at.to_string(), Value::from(at))).collect();
            let entries = map.by_key();
            assert_eq!(matches!(entries, ByKey::Few(_)), count == SEARCHED_MAX);
            assert!((0..count).all(|at| entries.get(&at.to_string()) == Some(&Value::from(at))));
            assert!(!entries.has("x"));
        }
    }
}
