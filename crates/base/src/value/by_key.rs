//! Lookup index over the entries of an object.

use hashbrown::HashMap;

use super::{Map, SEARCHED_MAX, Value};

/// Entries of an object, looked up by the keys of another: a large object is indexed, so that all
/// lookups together take as long as both objects, not as their product.
#[derive(Debug)]
pub enum ByKey<'m, 'a> {
    /// Few entries: a lookup scans them.
    Few(&'m Map<'a>),
    /// By key.
    Many(HashMap<&'m str, &'m Value<'a>>),
}

impl<'a> Map<'a> {
    /// Returns an index of the entries, for any number of lookups.
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

    /// Returns true if there is an entry of `key`.
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
