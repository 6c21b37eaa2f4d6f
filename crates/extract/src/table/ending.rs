//! Last words of attribute keys, such as `request` in `acme.llm.request`: under such a key any
//! instrumentation may record the body of a request to a model, or of its response.

/// The words at which keys may end.
#[derive(Debug, Default)]
pub(in super::super) struct Endings {
    words: Vec<Box<[u8]>>,
    /// Whether bodies that do not speak of tools are needed too.
    pub(in super::super) whole: bool,
}

impl Endings {
    /// Adds the words of a source, several divided by `|`.
    pub(super) fn add(&mut self, words: &str, whole: bool) {
        self.words.extend(words.split('|').map(|word| word.as_bytes().into()));
        self.whole |= whole;
    }

    /// Whether a key ends at one of the words.
    pub(in super::super) fn has(&self, key: &[u8]) -> bool {
        self.words.iter().any(|word| ends_with(key, word))
    }
}

/// Whether a key ends with a whole word.
pub(in super::super) fn ends_with(key: &[u8], word: &[u8]) -> bool {
    key.strip_suffix(word)
        .is_some_and(|rest| matches!(rest.last(), None | Some(b'.' | b':' | b'/')))
}
