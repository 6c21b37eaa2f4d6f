//! Explanations of scores, in which content is marked so that it can be omitted.
//!
//! Each is written once and read with or without its content. Text that is not marked as plain
//! counts as content, so an evaluator that marks nothing exposes nothing.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};

/// Text for a person in which possible content is marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    text: String,
    /// Ranges that may be content, in order, each with its replacement.
    hidden: Vec<(Range<usize>, &'static str)>,
}

impl Explanation {
    /// Returns an explanation without content: tool names, counts, rules and words of the config.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), hidden: Vec::new() }
    }

    /// Returns an explanation that may be content throughout.
    pub fn content(text: impl Into<String>) -> Self {
        let mut words = Self::default();
        words.hide(&text.into(), "");
        words
    }

    /// Appends text that holds no content.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends text that may be content; `instead` replaces it where content is not shown.
    pub fn hide(&mut self, text: &str, instead: &'static str) {
        let start = self.text.len();
        self.text.push_str(text);
        self.hidden.push((start..self.text.len(), instead));
    }

    /// Appends another explanation with its marks.
    pub fn append(&mut self, other: &Self) {
        let moved = self.text.len();
        self.text.push_str(&other.text);
        let parts = other.hidden.iter();
        self.hidden
            .extend(parts.map(|(part, instead)| (part.start + moved..part.end + moved, *instead)));
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text without possible content; empty if nothing else is in it.
    pub fn without_content(&self) -> Cow<'_, str> {
        if self.hidden.is_empty() {
            return Cow::Borrowed(&self.text);
        }
        let mut out = String::with_capacity(self.text.len());
        let mut from = 0;
        for (part, instead) in &self.hidden {
            out.push_str(&self.text[from..part.start]);
            out.push_str(instead);
            from = part.end;
        }
        out.push_str(&self.text[from..]);
        Cow::Owned(out)
    }

    /// Returns the approximate bytes held in memory.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.hidden)
    }
}

impl Deref for Explanation {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Appends plain text.
impl fmt::Write for Explanation {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        Ok(())
    }
}

/// A text of unknown origin may be content.
impl From<String> for Explanation {
    fn from(text: String) -> Self {
        Self::content(text)
    }
}

/// A text of the source code is plain.
impl From<&'static str> for Explanation {
    fn from(text: &'static str) -> Self {
        Self::plain(text)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn what_may_be_content_is_shown_whole_or_replaced() {
        let mut words = Explanation::plain("pay: ");
        words.hide("IBAN DE89", "another argument");
        write!(words, " is one of {}", 2).unwrap();
        words.append(&Explanation::content("; DE89"));
        assert_eq!(&*words, "pay: IBAN DE89 is one of 2; DE89");
        assert_eq!(words.without_content(), "pay: another argument is one of 2");
    }

    #[test]
    fn text_of_which_nothing_is_said_is_content() {
        assert_eq!(Explanation::from("secret".to_owned()).without_content(), "");
        assert_eq!(Explanation::plain("2 of 3").without_content(), "2 of 3");
    }
}
