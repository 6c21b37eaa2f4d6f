//! Literal set: the places of thousands of literals in a short text, in one pass.
//!
//! Each literal is entered by the three of its bytes that prose has least; one table of bits tells
//! of each three bytes of a text that no literal has them. It is made in a fraction of the time
//! that a sieve or an automaton takes, which pays for texts of a few hundred bytes.

use hashbrown::HashMap;

/// Bytes by which a literal is found.
const GRAM: usize = 3;
/// Bits of the hash of a gram.
const HASH_BITS: u32 = 16;
/// Price of each literal that another one is found with.
const CROWD: usize = 6;
/// Bytes that prose has most, the most frequent first.
const FREQUENT: &[u8] = b" etaoinsrhldcumfpgwybvk";

/// Literals by a gram of each.
pub(super) struct LiteralSet {
    numbers: HashMap<String, u16>,
    /// A bit for the hash of each gram.
    bits: Vec<u64>,
    /// Last entry of each hash; 0 for none.
    last: Vec<u16>,
    entries: Vec<LiteralEntry>,
}

struct LiteralEntry {
    literal: Box<str>,
    /// Its first bytes, zeros behind them, and the bits that they fill.
    head: u64,
    mask: u64,
    /// Place of the gram in the literal.
    offset: u8,
    /// Entry before this one of the same hash.
    before: u16,
    /// Number of entries before.
    crowd: u16,
}

impl Default for LiteralSet {
    fn default() -> Self {
        let bits = vec![0; 1 << (HASH_BITS - u64::BITS.ilog2())];
        Self { numbers: HashMap::new(), bits, last: vec![0; 1 << HASH_BITS], entries: Vec::new() }
    }
}

fn hash([a, b, c]: [u8; GRAM]) -> usize {
    let gram = u32::from_le_bytes([a, b, c, 0]);
    (gram.wrapping_mul(0x9e37_79b1) >> (u32::BITS - HASH_BITS)) as usize
}

/// Returns the first bytes from a place on; zeros behind the end of the text.
fn head(text: &[u8], at: usize) -> u64 {
    let there = text.get(at..).unwrap_or_default();
    let bytes = there.first_chunk().copied().unwrap_or_else(|| {
        std::array::from_fn(|index| there.get(index).copied().unwrap_or_default())
    });
    u64::from_le_bytes(bytes)
}

impl LiteralSet {
    /// Returns the number of a literal of [`GRAM`] bytes or more, which it enters if it is new.
    pub(super) fn number(&mut self, literal: &str) -> u16 {
        if let Some(number) = self.numbers.get(literal) {
            return *number;
        }
        let number = self.entries.len() as u16;
        self.numbers.insert(literal.to_owned(), number);
        let frequency = |byte: &u8| {
            let rank = FREQUENT.iter().position(|frequent| frequent == byte);
            rank.map_or(0, |rank| FREQUENT.len() - rank)
        };
        let last = |gram: &[u8; GRAM]| self.last[hash(*gram)].checked_sub(1);
        let crowd = |gram: &[u8; GRAM]| {
            last(gram).map_or(0, |last| self.entries[usize::from(last)].crowd + 1)
        };
        let cost = |(gram, _): &(&[u8; GRAM], u8)| {
            usize::from(crowd(gram)) * CROWD + gram.iter().map(frequency).sum::<usize>()
        };
        let rarest = literal.as_bytes().array_windows().zip(0..=u8::MAX).min_by_key(cost);
        let (gram, offset) = rarest.map_or_else(Default::default, |(gram, at)| (*gram, at));
        let crowd = crowd(&gram);
        let hash = hash(gram);
        self.bits[hash / 64] |= 1 << (hash % 64);
        let before = std::mem::replace(&mut self.last[hash], number + 1);
        let head = head(literal.as_bytes(), 0);
        let mask = u64::MAX >> (u64::BITS - 8 * literal.len().min(8) as u32);
        let literal = literal.into();
        self.entries.push(LiteralEntry { literal, head, mask, offset, before, crowd });
        number
    }

    /// Returns the literals in a text, each with its place.
    pub(super) fn places(&self, text: &str) -> Vec<(u16, u32)> {
        let text = text.as_bytes();
        let mut found = Vec::new();
        for (at, gram) in text.array_windows().enumerate() {
            let hash = hash(*gram);
            if self.bits[hash / 64] >> (hash % 64) & 1 == 0 {
                continue;
            }
            let mut next = self.last[hash];
            while let Some(number) = next.checked_sub(1) {
                let entry = &self.entries[usize::from(number)];
                next = entry.before;
                let start = at.wrapping_sub(usize::from(entry.offset));
                let is_there = head(text, start) & entry.mask == entry.head
                    && text[start..].starts_with(entry.literal.as_bytes());
                if is_there {
                    found.push((number, start as u32));
                }
            }
        }
        found
    }
}
