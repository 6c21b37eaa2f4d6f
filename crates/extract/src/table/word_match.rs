//! Matcher of keys by a word in any instrumentation: `acme.tool.input`, `acme_inputs.city`.
//!
//! A key matches if it ends with the word, optionally followed by a holder such as `value`
//! (`input.value`). A word followed by a dot and more is the key of a part (`inputs.city`).

use super::key_match::KEY_BYTES_MAX;

/// Holders: words after that of a fact without a meaning of their own.
const HOLDERS: [&str; 7] = ["value", "json", "text", "raw", "content", "data", "str"];
/// Words after that of a fact that describe it instead of holding it.
const ABOUT: [&str; 10] = [
    "mime_type", "mimetype", "type", "tokens", "token_count", "size", "length", "truncated",
    "schema", "hash",
];

/// Words of one source in order of precedence.
#[derive(Clone, Debug)]
pub(in super::super) struct SourceWords {
    words: Vec<Box<str>>,
    /// First letters of the words, one bit each, which rule out most keys.
    firsts: u32,
    /// Bit of the source in [`WordMatcher::sources_of`].
    pub(in super::super) bit: u32,
}

impl SourceWords {
    /// Parses words separated by `|`.
    fn new(words: &str, bit: u32) -> Self {
        let words: Vec<Box<str>> = words.split('|').map(Box::from).collect();
        let firsts = words.iter().map(|word| match word.as_bytes() {
            // An empty word matches at any letter.
            [] => u32::MAX,
            word => 1 << first(word),
        });
        Self { firsts: firsts.fold(0, |all, one| all | one), words, bit }
    }

    /// Returns the rest of a key after the first matching word: empty, or the name of a part of the
    /// fact. `None` for keys that are not UTF-8 or longer than [`KEY_BYTES_MAX`].
    pub(in super::super) fn find<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let may_begin = |at: usize| self.firsts >> first(&key[at..]) & 1 == 1;
        if key.len() > KEY_BYTES_MAX || !begins(key).any(may_begin) {
            return None;
        }
        let key = std::str::from_utf8(key).ok()?;
        self.words.iter().find_map(|word| part_behind(key, word))
    }
}

fn part_behind<'k>(key: &'k str, word: &str) -> Option<&'k str> {
    let last = key.len().checked_sub(word.len())?;
    let begins = begins(key.as_bytes()).take_while(|begin| *begin <= last);
    begins
        .filter(|begin| starts(&key.as_bytes()[*begin..], word.as_bytes()))
        .find_map(|begin| behind(key.get(begin + word.len()..)?))
}

/// Returns the name of the part after a word, empty for the whole fact, if the rest of a key allows
/// a match.
fn behind(rest: &str) -> Option<&str> {
    let tail = match rest.as_bytes().first() {
        None => return Some(""),
        Some(b'.' | b'_') => &rest[1..],
        Some(_) => return None,
    };
    if HOLDERS.contains(&tail) {
        return Some("");
    }
    let is_part = rest.starts_with('.') && !ABOUT.contains(&tail) && !tail.is_empty();
    is_part.then_some(tail)
}

/// Returns the start positions of the words in a key.
fn begins(key: &[u8]) -> impl Iterator<Item = usize> {
    let behind_borders = (1..key.len()).filter(|at| is_border(key[at - 1]));
    std::iter::once(0).chain(behind_borders)
}

fn is_border(byte: u8) -> bool {
    matches!(byte, b'.' | b':' | b'/' | b'_')
}

/// Returns true if a text starts with a word, ignoring case.
fn starts(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Index of the words of all sources of a table by their first letters, each word once: few words
/// of a key start like one of them.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct WordMatcher {
    by_letter: [Vec<SharedWord>; FIRSTS],
    /// Words of each source, as written.
    sources: Vec<Box<str>>,
}

/// Word with the bits of its sources.
#[derive(Clone, Debug)]
struct SharedWord {
    word: Box<[u8]>,
    sources: u32,
}

/// Number of classes of first characters: the letters, and all others.
const FIRSTS: usize = 27;

impl WordMatcher {
    /// Adds the words of a source.
    pub(super) fn add(&mut self, words: &str) {
        if self.place(words).is_none() {
            self.sources.push(words.into());
        }
        let bit = self.bit(words);
        for word in words.split('|').map(|word| word.to_ascii_lowercase().into_bytes()) {
            let Some(known) = self.by_letter.get_mut(first(&word)) else { continue };
            match known.iter_mut().find(|known| *known.word == *word) {
                Some(known) => known.sources |= bit,
                None => known.push(SharedWord { word: word.into(), sources: bit }),
            }
        }
    }

    fn place(&self, words: &str) -> Option<usize> {
        self.sources.iter().position(|known| **known == *words)
    }

    /// Returns the bit of a source's words; those beyond the 31st share one.
    pub(in super::super) fn bit(&self, words: &str) -> u32 {
        self.place(words).map_or(0, |place| 1 << place.min(31))
    }

    /// Returns the words of a source added before.
    pub(in super::super) fn source(&self, words: &str) -> SourceWords {
        SourceWords::new(words, self.bit(words))
    }

    /// Returns the sources with a word that matches a key, one bit each; 0 for keys that are not
    /// UTF-8 or longer than [`KEY_BYTES_MAX`].
    pub(in super::super) fn sources_of(&self, key: &[u8]) -> u32 {
        if key.len() > KEY_BYTES_MAX {
            return 0;
        }
        let Ok(text) = std::str::from_utf8(key) else { return 0 };
        // One pass over the word starts for all sources: an untrusted key may have nothing but
        // words.
        begins(key).fold(0, |sources, begin| {
            let known = self.by_letter.get(first(&key[begin..])).into_iter().flatten();
            let matching = known.filter(|SharedWord { word, .. }| {
                starts(&key[begin..], word)
                    && text.get(begin + word.len()..).and_then(behind).is_some()
            });
            matching.fold(sources, |sources, shared| sources | shared.sources)
        })
    }
}

/// Returns the alphabetical index of a text's first letter, or one past the last for other
/// characters.
fn first(text: &[u8]) -> usize {
    let letter = text.first().map_or(0, u8::to_ascii_lowercase);
    if letter.is_ascii_lowercase() { usize::from(letter - b'a') } else { FIRSTS - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_found_by_first_letters_is_what_a_search_finds(
            keys in proptest::collection::vec("[aAinp_.7]{0,12}", 0..40),
            words in proptest::collection::vec("[ainp7]{1,3}([._][ainp]{1,2})?", 1..6),
        ) {
            let mut matcher = WordMatcher::default();
            matcher.add(&words.join("|"));
            let source = matcher.source(&words.join("|"));
            for key in &keys {
                let naive = words.iter().find_map(|word| part_behind(key, word));
                prop_assert_eq!(source.find(key.as_bytes()), naive);
                let bit = if naive.is_some() { source.bit } else { 0 };
                prop_assert_eq!(matcher.sources_of(key.as_bytes()), bit);
            }
        }
    }

    #[test]
    fn keys_match_at_their_end_or_before_a_part() {
        let source = SourceWords::new("input|inputs", 0);
        for (key, expected) in [
            ("input", Some("")),
            ("acme.tool.input", Some("")),
            ("acme_inputs.city", Some("city")),
            ("acme.data.inputs.trip.city", Some("trip.city")),
            ("acme.input.value", Some("")),
            ("acme.input_json", Some("")),
            ("acme.Input", Some("")),
            ("acme.input.mime_type", None),
            ("acme.input_tokens", None),
            ("acme.input.", None),
            ("acme.inputting", None),
            ("acme.reinput", None),
            ("input.x.input", Some("x.input")),
            ("", None),
        ] {
            assert_eq!(source.find(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(source.find(b"\xff.input"), None);
        let long = |bytes: usize| format!("{}.input", "k".repeat(bytes - ".input".len()));
        assert_eq!(source.find(long(KEY_BYTES_MAX).as_bytes()), Some(""));
        assert_eq!(source.find(long(KEY_BYTES_MAX + 1).as_bytes()), None);
    }
}
