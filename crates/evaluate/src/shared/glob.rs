//! Globs of tool names: `*` matches any characters, `?` one.

use hashbrown::HashSet;

pub(crate) use spanscore_base::glob::matches_glob;

/// Returns true for a glob, false for a plain name.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Set of names and globs.
#[derive(Default)]
pub(crate) struct NamePatterns {
    names: HashSet<String>,
    globs: Vec<String>,
}

impl NamePatterns {
    /// Returns true if a name is in the set or matches a glob of it.
    pub(crate) fn include(&self, name: &str) -> bool {
        self.names.contains(name) || self.globs.iter().any(|glob| matches_glob(glob, name))
    }
}

impl<'p> FromIterator<&'p String> for NamePatterns {
    fn from_iter<I: IntoIterator<Item = &'p String>>(patterns: I) -> Self {
        let mut all = Self::default();
        for pattern in patterns {
            if is_glob(pattern) {
                all.globs.push(pattern.clone());
            } else {
                all.names.insert(pattern.clone());
            }
        }
        all
    }
}
