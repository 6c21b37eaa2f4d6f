//! Redaction of texts for display: personal data and credentials are replaced.
//!
//! Findings of the detectors of `no_pii` are replaced by the names that the caller gives them. A
//! text that they cannot read to its end is replaced as a whole: nothing unread is shown. All texts
//! that are shown together have one budget.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::limits::STEPS_PER_BYTE;
use super::pack::{Pack, names, safety};
use spanscore_base::settings::SettingsError;

/// Bytes of texts that are read, over all texts of an evaluation and all passes over them.
const READ_BYTES_MAX: usize = 256 << 10;
/// Bytes of a value's texts that are read where it is shown by itself, on this machine.
const VALUE_READ_BYTES_MAX: usize = 4 << 20;
/// Steps of redacting the texts that are shown together.
const STEPS_MAX: usize = 1 << 27;
/// Bytes that a text counts as at least.
const TEXT_BYTES_MIN: usize = 16;
/// Bytes below which a text holds nothing that a detector looks for.
const BYTES_MIN: usize = 6;
/// Detectors that may read each byte of a text, for its bound in steps.
const DETECTORS_MAX: usize = 512;
/// Passes over one text. A detector lists few findings of each, so there may be more behind them.
const PASSES_MAX: usize = 16;

/// Replacement of a text that cannot be read to its end.
pub const UNREAD: &str = "[REDACTED]";

/// Budget of redacting texts that are shown together, with counts of those withheld.
#[derive(Debug)]
pub struct RedactionBudget {
    bytes: usize,
    steps: usize,
    /// Texts withheld because the budget was used up.
    pub unaffordable: u64,
    /// Texts withheld because they could not be read to their end.
    pub unread: u64,
}

impl RedactionBudget {
    /// Returns the budget for the texts of an evaluation.
    pub fn of_evaluation() -> Self {
        Self::of_bytes(READ_BYTES_MAX)
    }

    /// Returns the budget for the texts of a value.
    pub fn of_value() -> Self {
        Self::of_bytes(VALUE_READ_BYTES_MAX)
    }

    fn of_bytes(bytes: usize) -> Self {
        Self { bytes, steps: STEPS_MAX, unaffordable: 0, unread: 0 }
    }

    /// Charges one pass over a text; false if the budget cannot pay for it.
    fn take(&mut self, text: &str) -> bool {
        match self.bytes.checked_sub(text.len().max(TEXT_BYTES_MIN)) {
            Some(left) => self.bytes = left,
            None => return false,
        }
        true
    }
}

/// Finder of personal data and credentials in texts.
pub struct Redaction {
    pack: Arc<Pack>,
}

impl Redaction {
    /// Uses the built-in detectors.
    ///
    /// # Errors
    /// They cannot be compiled, which a test rules out.
    pub fn new() -> Result<Self, SettingsError> {
        Ok(Self { pack: safety()? })
    }

    /// Returns the text with findings replaced; `name` makes the replacement of a kind of data and
    /// its text.
    pub fn apply<'t>(
        &self,
        text: &'t str,
        budget: &mut RedactionBudget,
        mut name: impl FnMut(&str, &str) -> String,
    ) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        if text.len() < BYTES_MIN {
            return text;
        }
        for _ in 0..PASSES_MAX {
            match self.pass(&text, budget, &mut name) {
                Ok(None) => return text,
                Ok(Some(replaced)) => text = Cow::Owned(replaced),
                Err(Unread::Unaffordable) => {
                    budget.unaffordable += 1;
                    return Cow::Borrowed(UNREAD);
                }
                Err(Unread::ByDetectors) => break,
            }
        }
        budget.unread += 1;
        Cow::Borrowed(UNREAD)
    }

    fn pass(
        &self,
        text: &str,
        budget: &mut RedactionBudget,
        name: &mut impl FnMut(&str, &str) -> String,
    ) -> Result<Option<String>, Unread> {
        if !budget.take(text) {
            return Err(Unread::Unaffordable);
        }
        let own_max = text.len().saturating_mul(STEPS_PER_BYTE * DETECTORS_MAX);
        let steps_max = own_max.min(budget.steps);
        let scan = self.pack.scan(text, steps_max);
        let is_cut = scan.steps() > steps_max;
        budget.steps = budget.steps.saturating_sub(scan.steps());
        if is_cut && steps_max < own_max {
            return Err(Unread::Unaffordable);
        }
        if is_cut || self.pack.gave_up(&scan, names::PII).is_some() {
            return Err(Unread::ByDetectors);
        }
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for hit in self.pack.hits(&scan, names::PII) {
            let places: Vec<_> = hit.ranges().collect();
            if places.is_empty() {
                return Err(Unread::ByDetectors);
            }
            found.extend(places.into_iter().map(|range| (range, hit.kind)));
        }
        if found.is_empty() {
            return Ok(None);
        }
        // Of findings that begin at one place the longest holds.
        found.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
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

/// Reasons for which a text is not read to its end.
enum Unread {
    /// The budget cannot pay for it.
    Unaffordable,
    /// It is too much for a detector.
    ByDetectors,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        apply(text, &mut RedactionBudget::of_evaluation())
    }

    fn apply(text: &str, budget: &mut RedactionBudget) -> String {
        Redaction::new().unwrap().apply(text, budget, |kind, _| format!("<{kind}>")).into_owned()
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
        assert_eq!(redacted(&"x ".repeat(READ_BYTES_MAX)), UNREAD);
    }

    #[test]
    fn texts_share_what_may_be_read_over_all_passes() {
        let many: String = (0..400).map(|n| format!("ab{n}cd@foobar.com ")).collect();
        let mut budget = RedactionBudget::of_evaluation();
        let shown: Vec<_> = (0..64).map(|_| apply(&many, &mut budget)).collect();
        let withheld = shown.iter().filter(|text| *text == UNREAD).count();
        assert!(shown.iter().all(|text| !text.contains('@')));
        assert!((1..64).contains(&withheld), "{withheld}");
        assert_eq!((budget.unaffordable, budget.unread), (withheld as u64, 0));
        // Twice as much takes no more.
        let steps = STEPS_MAX - budget.steps;
        (0..64).for_each(|_| drop(apply(&many, &mut budget)));
        assert_eq!(STEPS_MAX - budget.steps, steps);
        budget.bytes = READ_BYTES_MAX;
        budget.steps = 100;
        assert_eq!(apply(&many, &mut budget), UNREAD);
        assert_eq!(apply("short", &mut budget), "short");
    }
}
