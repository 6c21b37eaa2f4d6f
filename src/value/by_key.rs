//! The entries of an object for many questions.

use hashbrown::HashMap;

use super::{Map, SEARCHED_MAX, Value};

/// The entries of an object, to be asked for by the keys of another: a large object is indexed, so
/// that the questions together take as long as both are, not as both multiplied.
#[derive(Debug)]
pub enum ByKey<'m, 'a> {
    /// So few that each question looks through them.
    Few(&'m Map<'a>),
    /// By key.
    Many(HashMap<&'m str, &'m Value<'a>>),
}

impl<'a> Map<'a> {
    /// Its entries, for questions as many as a stranger likes.
    pub fn by_key(&self) -> ByKey<'_, 'a> {
        if self.len() <= SEARCHED_MAX {
            return ByKey::Few(self);
        }
        ByKey::Many(self.iter().collect())
    }
}

impl<'m, 'a> ByKey<'m, 'a> {
    /// The entry of `key`.
    pub fn get(&self, key: &str) -> Option<&'m Value<'a>> {
        match self {
            Self::Few(map) => map.get(key),
            Self::Many(index) => index.get(key).copied(),
        }
    }

    /// Whether there is an entry of `key`.
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
