//! A text with what rules read out of it, each made when first asked for and then shared.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use super::words::{Keys, Words, ascii_words};
use crate::evaluate::shared::sentences::units;

/// A text that rules look at, or compare the looked-at text with.
pub(super) struct Reading<'t> {
    /// The text.
    pub(super) text: Cow<'t, str>,
    words: OnceLock<Words>,
    keys: OnceLock<Keys>,
    units: OnceLock<Vec<Range<u32>>>,
    ascii_words: OnceLock<Vec<u64>>,
    ascii_keys: OnceLock<Keys>,
}

impl<'t> Reading<'t> {
    /// Nothing is read yet.
    pub(super) fn new(text: impl Into<Cow<'t, str>>) -> Self {
        Self {
            text: text.into(),
            words: OnceLock::new(),
            keys: OnceLock::new(),
            units: OnceLock::new(),
            ascii_words: OnceLock::new(),
            ascii_keys: OnceLock::new(),
        }
    }

    /// Whether there is nothing but white space.
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The content words.
    pub(super) fn words(&self) -> &Words {
        self.words.get_or_init(|| Words::of(&self.text))
    }

    /// The distinct content words.
    pub(super) fn keys(&self) -> &Keys {
        self.keys.get_or_init(|| Keys::of(self.words().keys.iter().copied()))
    }

    /// Sentences, list items and lines.
    pub(super) fn units(&self) -> &[Range<u32>] {
        self.units.get_or_init(|| units(&self.text))
    }

    /// The words of more than two characters that JavaScript's `\w` sees, in lower case.
    pub(super) fn ascii_words(&self) -> &[u64] {
        self.ascii_words.get_or_init(|| {
            if self.text.is_ascii() {
                ascii_words(&self.text)
            } else {
                ascii_words(&self.text.to_lowercase())
            }
        })
    }

    /// The distinct ones of [`ascii_words`](Self::ascii_words).
    pub(super) fn ascii_keys(&self) -> &Keys {
        self.ascii_keys.get_or_init(|| Keys::of(self.ascii_words().iter().copied()))
    }
}
