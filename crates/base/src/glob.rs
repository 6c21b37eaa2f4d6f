//! Globs of names: `*` stands for any characters, `?` for one.

/// Returns true if a name matches a glob. Only the last `*` is retried, so the cost is at most the
/// product of both lengths.
pub fn matches_glob(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let mut at = 0;
    let mut place = 0;
    // Backtracking point: the last `*`, and the end of the text that it covers so far.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_names() {
        for (glob, name, expected) in [
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*.json*", "traces-2.jsonl", true),
            ("?.json", "ab.json", false),
            ("*a*b", "xaxxbab", true),
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
