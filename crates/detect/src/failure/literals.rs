//! Literals of all failure expressions, found in one pass.

use std::sync::OnceLock;

use hashbrown::HashMap;

use crate::prefilter::sieve::{ANCHORS_MAX, Hits, Sieve};

/// Number of a literal, and its byte offset in a text.
pub(super) type FoundLiteral = (u16, u32);

/// Literals in lower case, by number.
#[derive(Default)]
pub(super) struct LiteralSet {
    literals: Vec<String>,
    numbers: HashMap<String, usize>,
    ascii: OnceLock<Sieve>,
    /// Sieve of those beyond ASCII.
    wide: OnceLock<Sieve>,
}

impl LiteralSet {
    /// Returns the number of a literal, added if new; `None` beyond the limit.
    pub(super) fn number(&mut self, literal: &str) -> Option<usize> {
        let number = *self.numbers.entry_ref(literal).or_insert_with(|| {
            self.literals.push(literal.to_owned());
            self.literals.len() - 1
        });
        (number < ANCHORS_MAX).then_some(number)
    }

    fn known(&self) -> &[String] {
        &self.literals[..self.literals.len().min(ANCHORS_MAX)]
    }

    /// Returns the literals in a text with their offsets.
    pub(super) fn places(&self, text: &str) -> Vec<FoundLiteral> {
        let text = text.as_bytes();
        let is_ascii = text.is_ascii();
        let of_ascii = |index: usize| self.literals[index].is_ascii();
        let mut hits = Hits::default();
        let top = if is_ascii { 0x7f } else { u8::MAX };
        let ascii = self.ascii.get_or_init(|| Sieve::new(self.known(), true, of_ascii));
        ascii.find(text, 0..text.len(), top, &mut hits);
        if !is_ascii {
            let wide = || Sieve::new(self.known(), false, |index| !of_ascii(index));
            self.wide.get_or_init(wide).find(text, 0..text.len(), top, &mut hits);
        }
        hits.places
    }
}
