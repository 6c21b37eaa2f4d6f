//! Texts without the personal data and credentials in them.
//!
//! What the detectors of `no_pii` find is replaced by whatever the caller names it by. A text that
//! they cannot read to its end is replaced as a whole: what nobody has looked at is not shown.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::limits::STEPS_PER_BYTE;
use super::pack::{Pack, names, safety};
use crate::settings::SettingsError;

/// Longest text that is looked at, bytes.
const TEXT_BYTES_MAX: usize = 256 << 10;
/// Steps for a byte of a text: all detectors of the packs may read it.
const DETECTORS_MAX: usize = 512;
/// Passes over one text. A detector lists few findings of each, so there may be more behind them.
const PASSES_MAX: usize = 16;

/// Stands for a text that cannot be read to its end.
pub(crate) const UNREAD: &str = "[REDACTED]";

/// Finds personal data and credentials in texts.
pub(crate) struct Redaction {
    pack: Arc<Pack>,
}

impl Redaction {
    /// With the built-in detectors.
    ///
    /// # Errors
    /// Where they cannot be compiled, which a test rules out.
    pub(crate) fn new() -> Result<Self, SettingsError> {
        Ok(Self { pack: safety()? })
    }

    /// The text with what was found replaced; `name` gives what stands for a kind of data and its
    /// text.
    pub(crate) fn apply<'t>(
        &self,
        text: &'t str,
        mut name: impl FnMut(&str, &str) -> String,
    ) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for _ in 0..PASSES_MAX {
            match self.pass(&text, &mut name) {
                Ok(None) => return text,
                Ok(Some(replaced)) => text = Cow::Owned(replaced),
                Err(Unread) => return Cow::Borrowed(UNREAD),
            }
        }
        Cow::Borrowed(UNREAD)
    }

    fn pass(
        &self,
        text: &str,
        name: &mut impl FnMut(&str, &str) -> String,
    ) -> Result<Option<String>, Unread> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Unread);
        }
        let steps_max = text.len().saturating_mul(STEPS_PER_BYTE * DETECTORS_MAX);
        let scan = self.pack.scan(text, steps_max);
        if scan.steps() > steps_max || self.pack.gave_up(&scan, names::PII).is_some() {
            return Err(Unread);
        }
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for hit in self.pack.hits(&scan, names::PII) {
            let places: Vec<_> = hit.ranges().collect();
            if places.is_empty() {
                return Err(Unread);
            }
            found.extend(places.into_iter().map(|range| (range, hit.kind)));
        }
        if found.is_empty() {
            return Ok(None);
        }
        // The longest of those that begin at one place holds.
        found.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (range, kind) in found {
            if range.end <= from {
                continue;
            }
            let start = text.floor_char_boundary(range.start).max(from);
            let end = text.ceil_char_boundary(range.end);
            out.push_str(&text[from..start]);
            out.push_str(&name(kind, &text[start..end]));
            from = end;
        }
        out.push_str(&text[from..]);
        Ok(Some(out))
    }
}

/// A text that cannot be read to its end.
struct Unread;

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        Redaction::new().unwrap().apply(text, |kind, _| format!("<{kind}>")).into_owned()
    }

    #[test]
    fn what_is_found_is_replaced_and_the_rest_stays() {
        let text = "mail jane.doe@acme-post.net and joe@acme-post.net, card 4539 5787 6362 1486";
        let shown = redacted(text);
        assert!(!shown.contains('@') && !shown.contains("5787"), "{shown}");
        assert!(shown.starts_with("mail <Email> and <Email>"), "{shown}");
        assert_eq!(redacted("nothing to see, 3 of 4"), "nothing to see, 3 of 4");
    }

    #[test]
    fn more_than_one_pass_lists_is_replaced_too() {
        let many: String = (0..200).map(|n| format!("user{n}@acme-post.net, ")).collect();
        assert!(!redacted(&many).contains('@'));
    }

    #[test]
    fn what_is_too_long_is_not_shown() {
        assert_eq!(redacted(&"x ".repeat(TEXT_BYTES_MAX)), UNREAD);
    }
}
