//! Text with derived forms (words, keys, sentences), each computed once, on first use.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use super::words::{Keys, Words, ascii_words};
use crate::shared::sentences::units;

/// Text judged by rules, or compared with the judged one.
#[derive(Default)]
pub(super) struct Reading<'t> {
    /// The original text.
    pub(super) text: Cow<'t, str>,
    words: OnceLock<Words>,
    keys: OnceLock<Keys>,
    units: OnceLock<Vec<Range<u32>>>,
    ascii_words: OnceLock<Vec<u64>>,
    ascii_keys: OnceLock<Keys>,
}

impl<'t> Reading<'t> {
    /// Wraps a text without computing anything.
    pub(super) fn new(text: impl Into<Cow<'t, str>>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns true if the text has only white space.
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns the content words.
    pub(super) fn words(&self) -> &Words {
        self.words.get_or_init(|| Words::of(&self.text))
    }

    /// Returns the distinct content words.
    pub(super) fn keys(&self) -> &Keys {
        self.keys.get_or_init(|| Keys::of(self.words().keys.iter().copied()))
    }

    /// Returns the sentences, list items and lines.
    pub(super) fn units(&self) -> &[Range<u32>] {
        self.units.get_or_init(|| units(&self.text))
    }

    /// Returns the lower-case words of over two characters as defined by JavaScript's `\w`.
    pub(super) fn ascii_words(&self) -> &[u64] {
        self.ascii_words.get_or_init(|| {
            if self.text.is_ascii() {
                ascii_words(&self.text)
            } else {
                ascii_words(&self.text.to_lowercase())
            }
        })
    }

    /// Returns the distinct [`ascii_words`](Self::ascii_words).
    pub(super) fn ascii_keys(&self) -> &Keys {
        self.ascii_keys.get_or_init(|| Keys::of(self.ascii_words().iter().copied()))
    }
}
