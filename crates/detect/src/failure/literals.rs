//! Literal finder: the places of thousands of literals in a short text.
//!
//! Each literal is entered by the three of its bytes that prose has least; one table of bits tells
//! of each three bytes of a text that no literal has them. It is made in a fraction of the time
//! that a sieve or an automaton takes, and a text of a few hundred bytes is read as fast.

use hashbrown::HashMap;

/// Bytes by which a literal is found.
const GRAM: usize = 3;
/// Bits of the hash of a gram.
const HASH_BITS: u32 = 16;
/// Bytes that prose has most, the most frequent first.
const FREQUENT: &[u8] = b" etaoinsrhldcumfpgwybvk";

/// Literals by a gram of each, with its place in it.
pub(super) struct LiteralFinder {
    bits: Vec<u64>,
    by_gram: HashMap<[u8; GRAM], Vec<(u16, u8)>>,
}

impl Default for LiteralFinder {
    fn default() -> Self {
        Self { bits: vec![0; 1 << (HASH_BITS - u64::BITS.ilog2())], by_gram: HashMap::new() }
    }
}

fn hash(gram: [u8; GRAM]) -> (usize, u64) {
    let [a, b, c] = gram.map(u32::from);
    let hash = (a | b << 8 | c << 16).wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS);
    (hash as usize / u64::BITS as usize, 1 << (hash % u64::BITS))
}

impl LiteralFinder {
    /// Enters a literal of [`GRAM`] bytes or more.
    pub(super) fn enter(&mut self, literal: &[u8], number: u16) {
        let frequency = |byte: &u8| {
            let rank = FREQUENT.iter().position(|frequent| frequent == byte);
            rank.map_or(0, |rank| FREQUENT.len() - rank)
        };
        let cost = |gram: &[u8]| gram.iter().map(frequency).sum::<usize>();
        let grams = literal.array_windows().zip(0..=u8::MAX);
        if let Some((gram, offset)) = grams.min_by_key(|(gram, _)| cost(&gram[..])) {
            let (word, bit) = hash(*gram);
            self.bits[word] |= bit;
            self.by_gram.entry(*gram).or_default().push((number, offset));
        }
    }

    /// Calls for each place where a gram of a literal stands, with where the literal would begin.
    pub(super) fn search(&self, text: &[u8], mut found: impl FnMut(u16, usize)) {
        for (at, gram) in text.array_windows().enumerate() {
            let (word, bit) = hash(*gram);
            if self.bits[word] & bit == 0 {
                continue;
            }
            for &(number, offset) in self.by_gram.get(gram).into_iter().flatten() {
                if let Some(start) = at.checked_sub(usize::from(offset)) {
                    found(number, start);
                }
            }
        }
    }
}
