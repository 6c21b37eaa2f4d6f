//! Literals of all failure expressions, found in one pass.
//!
//! A tool's report of itself stands first or last, so most literals are searched only at the edges
//! of a long text.

use std::ops::Range;
use std::sync::OnceLock;

use hashbrown::HashMap;

use super::openers::LITERAL_BYTES_MAX;
use crate::prefilter::sieve::{ANCHORS_MAX, Hits, Sieve};

/// Number of a literal, and its byte offset in a text.
pub(super) type FoundLiteral = (u16, u32);

/// Bytes at the beginning and at the end of a text where most literals may stand.
pub(super) const EDGE_BYTES: usize = 256;

/// Literals in lower case, by number.
#[derive(Default)]
pub(super) struct LiteralSet {
    literals: Vec<String>,
    numbers: HashMap<String, usize>,
    /// True for each that may stand anywhere in a text, not only at its edges.
    is_inner: Vec<bool>,
    /// Sieves of all, and of the inner ones: of ASCII, and of those beyond.
    sieves: [[OnceLock<Sieve>; 2]; 2],
}

impl LiteralSet {
    /// Returns the number of a literal, added if new; `None` beyond the limit.
    pub(super) fn number(&mut self, literal: &str, is_at_edge: bool) -> Option<usize> {
        let number = *self.numbers.entry_ref(literal).or_insert_with(|| {
            self.literals.push(literal.to_owned());
            self.is_inner.push(false);
            self.literals.len() - 1
        });
        self.is_inner[number] |= !is_at_edge;
        (number < ANCHORS_MAX).then_some(number)
    }

    /// Returns the literals in a text with their offsets.
    pub(super) fn places(&self, text: &str) -> Vec<FoundLiteral> {
        let text = text.as_bytes();
        let is_ascii = text.is_ascii();
        let top = if is_ascii { 0x7f } else { u8::MAX };
        let line = memchr::memchr(b'\n', text).unwrap_or(text.len());
        let first = line.max(EDGE_BYTES) + LITERAL_BYTES_MAX;
        let last = text.len().saturating_sub(EDGE_BYTES);
        let mut hits = Hits::default();
        let mut find = |is_inner: bool, part: Range<usize>| {
            self.sieve(is_inner, true).find(text, part.clone(), top, &mut hits);
            if !is_ascii {
                self.sieve(is_inner, false).find(text, part, top, &mut hits);
            }
        };
        if first + EDGE_BYTES >= last {
            find(false, 0..text.len());
        } else {
            // Literals that cross the limit of a part are found in the next.
            let before = |at: usize| at - LITERAL_BYTES_MAX;
            find(false, 0..first);
            find(true, before(first)..last);
            find(false, before(last)..text.len());
        }
        hits.places
    }

    fn sieve(&self, is_inner: bool, ascii: bool) -> &Sieve {
        self.sieves[usize::from(is_inner)][usize::from(ascii)].get_or_init(|| {
            let known = &self.literals[..self.literals.len().min(ANCHORS_MAX)];
            let is_in = |index: usize| !is_inner || self.is_inner[index];
            Sieve::new(known, ascii, |index| known[index].is_ascii() == ascii && is_in(index))
        })
    }
}
