//! Counts by a key of few values.

/// Counts by key.
pub(super) struct KeyCounts<K>(pub(super) Vec<(K, u64)>);

impl<K> Default for KeyCounts<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> KeyCounts<K> {
    /// Counts one of each key.
    pub(super) fn add(&mut self, keys: impl IntoIterator<Item = K>) {
        // A scan beats a map: there are few keys, and mostly the same ones.
        for key in keys {
            match self.0.iter_mut().find(|(known, _)| *known == key) {
                Some((_, count)) => *count += 1,
                None => self.0.push((key, 1)),
            }
        }
    }
}
