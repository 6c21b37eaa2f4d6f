//! Keys of any instrumentation that end with a word: `acme.tool.input`, `acme_inputs.city`.
//!
//! A key is worded if it ends with the word, or with the word and one that only says that the
//! content stands here (`input.value`); and if something stands behind the word and a dot, the key
//! is that of a part (`inputs.city`).

/// Words behind that of a fact that say no more than that it stands here.
const HOLDERS: [&str; 7] = ["value", "json", "text", "raw", "content", "data", "str"];
/// Words behind that of a fact that tell something about it.
const ABOUT: [&str; 10] = [
    "mime_type",
    "mimetype",
    "type",
    "tokens",
    "token_count",
    "size",
    "length",
    "truncated",
    "schema",
    "hash",
];

/// Longest key that is searched for words: no instrumentation writes longer ones, and a stranger's
/// may be as long as a request.
const KEY_BYTES_MAX: usize = 256;

/// What stands behind a word in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum WordedKey<'k> {
    /// Nothing: the value is the fact.
    Whole,
    /// The name of a part of the fact.
    Part(&'k str),
}

/// The words of one source, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(in super::super) struct SourceWords {
    words: Vec<Box<str>>,
    /// What they begin with, a bit each: few keys hold anything that does.
    firsts: u32,
}

impl SourceWords {
    /// Those of a text that are divided by `|`.
    pub(in super::super) fn new(words: &str) -> Self {
        let words: Vec<Box<str>> = words.split('|').map(Box::from).collect();
        let firsts = words.iter().map(|word| match word.as_bytes() {
            // It stands before everything.
            [] => u32::MAX,
            word => 1 << first(word),
        });
        Self { firsts: firsts.fold(0, |all, one| all | one), words }
    }

    /// By which of them a key is worded; `None` for keys that are not UTF-8 or longer than
    /// [`KEY_BYTES_MAX`].
    pub(in super::super) fn find<'k>(&self, key: &'k [u8]) -> Option<WordedKey<'k>> {
        let may_begin = |at: usize| self.firsts >> first(&key[at..]) & 1 == 1;
        if key.len() > KEY_BYTES_MAX || !begins(key).any(may_begin) {
            return None;
        }
        let key = std::str::from_utf8(key).ok()?;
        self.words.iter().find_map(|word| worded(key, word))
    }
}

fn worded<'k>(key: &'k str, word: &str) -> Option<WordedKey<'k>> {
    let last = key.len().checked_sub(word.len())?;
    let begins = begins(key.as_bytes()).take_while(|begin| *begin <= last);
    begins
        .filter(|begin| starts(&key.as_bytes()[*begin..], word.as_bytes()))
        .find_map(|begin| behind(key.get(begin + word.len()..)?))
}

/// What a key holds whose word is followed by this.
fn behind(rest: &str) -> Option<WordedKey<'_>> {
    let tail = match rest.as_bytes().first() {
        None => return Some(WordedKey::Whole),
        Some(b'.' | b'_') => &rest[1..],
        Some(_) => return None,
    };
    if HOLDERS.contains(&tail) {
        return Some(WordedKey::Whole);
    }
    let is_part = rest.starts_with('.') && !ABOUT.contains(&tail) && !tail.is_empty();
    is_part.then_some(WordedKey::Part(tail))
}

/// Where words of a key begin.
fn begins(key: &[u8]) -> impl Iterator<Item = usize> {
    let behind_borders = (1..key.len()).filter(|at| is_border(key[at - 1]));
    std::iter::once(0).chain(behind_borders)
}

fn is_border(byte: u8) -> bool {
    matches!(byte, b'.' | b':' | b'/' | b'_')
}

/// Whether a text starts with a word, in letters of any case.
fn starts(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The words of all sources of a table that read worded keys, each once, by their first letters:
/// few of the words of a key begin like one of them.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Worded {
    by_letter: [Vec<SharedWord>; FIRSTS],
    /// The words of each source, as it names them.
    sources: Vec<Box<str>>,
}

/// A word, and the bits of the sources that have it.
#[derive(Clone, Debug)]
struct SharedWord {
    word: Box<[u8]>,
    sources: u32,
}

/// What words may begin with: the letters, and anything else.
const FIRSTS: usize = 27;

impl Worded {
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

    /// The bit of a source's words; those beyond the 31st share one.
    pub(in super::super) fn bit(&self, words: &str) -> u32 {
        self.place(words).map_or(0, |place| 1 << place.min(31))
    }

    /// By the words of which sources a key is worded, a bit each.
    pub(in super::super) fn bits(&self, key: &[u8]) -> u32 {
        self.sources_of(key).fold(0, |all, sources| all | sources)
    }

    /// Whether any source reads a key of this form.
    pub(in super::super) fn has(&self, key: &[u8]) -> bool {
        self.sources_of(key).next().is_some()
    }

    /// The bits of the sources of each word by which a key is worded, in one pass over its borders:
    /// a stranger's key may be nothing but words.
    fn sources_of<'w>(&'w self, key: &'w [u8]) -> impl Iterator<Item = u32> + 'w {
        let key = if key.len() > KEY_BYTES_MAX { None } else { std::str::from_utf8(key).ok() };
        let of_place = |key: &'w str, begin: usize| {
            let text = &key.as_bytes()[begin..];
            let known = self.by_letter.get(first(text)).into_iter().flatten();
            known.filter(move |SharedWord { word, .. }| {
                starts(text, word) && key.get(begin + word.len()..).and_then(behind).is_some()
            })
        };
        let places =
            key.into_iter().flat_map(|key| begins(key.as_bytes()).map(move |at| (key, at)));
        places.flat_map(move |(key, at)| of_place(key, at)).map(|shared| shared.sources)
    }
}

/// The place in the alphabet of the letter that a text begins with; of anything else one behind.
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
            let mut worded = Worded::default();
            worded.add(&words.join("|"));
            for key in keys.iter().map(|key| key.as_bytes()) {
                let naive = std::str::from_utf8(key).ok();
                let by = |key| words.iter().find_map(|word| super::worded(key, word));
                let naive = naive.and_then(by);
                prop_assert_eq!(SourceWords::new(&words.join("|")).find(key), naive);
                prop_assert_eq!(worded.has(key), naive.is_some());
                let bit = if naive.is_some() { worded.bit(&words.join("|")) } else { 0 };
                prop_assert_eq!(worded.bits(key), bit);
            }
        }
    }

    #[test]
    fn keys_are_worded_at_their_end_or_before_a_part() {
        use WordedKey::{Part, Whole};
        fn by<'k>(key: &'k [u8], words: &str) -> Option<WordedKey<'k>> {
            SourceWords::new(words).find(key)
        }
        for (key, expected) in [
            ("input", Some(Whole)),
            ("acme.tool.input", Some(Whole)),
            ("acme_inputs.city", Some(Part("city"))),
            ("acme.data.inputs.trip.city", Some(Part("trip.city"))),
            ("acme.input.value", Some(Whole)),
            ("acme.input_json", Some(Whole)),
            ("acme.Input", Some(Whole)),
            ("acme.input.mime_type", None),
            ("acme.input_tokens", None),
            ("acme.input.", None),
            ("acme.inputting", None),
            ("acme.reinput", None),
            ("input.x.input", Some(Part("x.input"))),
            ("", None),
        ] {
            assert_eq!(by(key.as_bytes(), "input|inputs"), expected, "{key}");
        }
        assert_eq!(by(b"\xff.input", "input"), None);
        let long = |bytes: usize| format!("{}.input", "k".repeat(bytes - ".input".len()));
        assert_eq!(by(long(KEY_BYTES_MAX).as_bytes(), "input"), Some(Whole));
        assert_eq!(by(long(KEY_BYTES_MAX + 1).as_bytes(), "input"), None);
    }
}
