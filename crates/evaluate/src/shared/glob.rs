//! Globs of tool names: `*` stands for any characters, `?` for one.

use hashbrown::HashSet;

/// Returns true if a name matches a glob: `*` stands for any characters, `?` for one.
pub(crate) fn matches_glob(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let mut at = 0;
    let mut place = 0;
    // Backtracking point: the last `*`, and the end of what it covers so far.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(one) if *one == '?' || *one == name[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((before, reach)) = star else { return false };
                star = Some((before, reach + 1));
                at = before + 1;
                place = reach + 1;
            }
        }
    }
    glob[at..].iter().all(|rest| *rest == '*')
}

/// Returns true if a text is a glob and no mere name.
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
    /// Returns true if a name is among them or matches a glob of them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_names() {
        for (glob, name, expected) in [
            ("search_*", "search_routes", true),
            ("*_routes", "search_routes", true),
            ("s*h_*s", "search_routes", true),
            ("ping", "ping", true),
            ("p?ng", "ping", true),
            ("*", "", true),
            ("ping", "pings", false),
            ("search_*", "research_x", false),
        ] {
            assert_eq!(matches_glob(glob, name), expected, "{glob} {name}");
        }
    }
}
