//! Bitmap search for the shortest anchors, by three bytes at every offset of a text.
//!
//! A [`Sieve`](super::sieve::Sieve) finds other anchors by four bytes at every second offset. For
//! an anchor of three or four bytes these include one or two unknown neighbours, whose values would
//! all be in its table: some eight hundred anchors filled half of it. Three bytes folded to sixteen
//! bits fit in a table of one bit each. It selects exactly the offsets worth a comparison and, at
//! eight kilobytes, stays in the first-level cache.

use super::grams::{Frequencies, rarest_three};
use super::sieve::Head;

/// Longest short anchor, bytes.
pub(super) const SHORT_BYTES_MAX: usize = 4;
/// Bytes of a lookup key.
const THREE: usize = 3;
/// Bits of a folded byte; the middle one has one more.
const BITS: usize = 5;
/// Words of the bitmap.
const WORDS: usize = (1 << (THREE * BITS + 1)) / 64;
/// Offsets looked up before any comparison: one bit each in two words.
const BLOCK: usize = 128;
/// Padding byte after the text.
const PAD: u8 = 0x7f;
/// Block with the next bytes that its last offsets need.
type ShortBlock = [u8; BLOCK + THREE - 1];

/// Set of short ASCII anchors.
#[derive(Default)]
pub(super) struct ShortAnchors {
    /// Bitmap of the folded keys of all anchors; empty without anchors.
    bits: Vec<u64>,
    /// Number of bits set before each word.
    ranks: Vec<u32>,
    /// Start of the entries of each set bit, and their end.
    starts: Vec<u32>,
    entries: Vec<ShortEntry>,
}

struct ShortEntry {
    three: u16,
    anchor: u16,
    /// Offset of the three bytes in the anchor.
    offset: u8,
    head: Head,
}

/// Substitute of all bytes beyond ASCII: no anchor has it three times in a row, so that texts
/// without ASCII cause no comparisons.
const BEYOND: u8 = b'~';

/// Folds a byte: drops case, and ASCII distinctions that prose does not need; all beyond ASCII is
/// one.
#[inline(always)]
fn folded(byte: u8) -> u8 {
    let byte = if byte > 0x7f { BEYOND } else { byte };
    byte & 0x1f
}

/// Folds the middle byte, distinguishing letters from digits and most signs. Otherwise an anchor of
/// signs would be compared with similar letters.
#[inline(always)]
fn folded_middle(byte: u8) -> u8 {
    let byte = if byte > 0x7f { BEYOND } else { byte };
    byte & 0x1f | (byte & 0x40) >> 1
}

/// Returns the key of three folded bytes.
#[inline(always)]
fn number(first: u8, middle: u8, last: u8) -> u16 {
    u16::from(first) | u16::from(middle) << BITS | u16::from(last) << (2 * BITS + 1)
}

impl ShortAnchors {
    /// Adds an anchor of two to four bytes in lower case.
    pub(super) fn enter(&mut self, bytes: &[u8], index: usize) {
        let offset = rarest_three(bytes, Frequencies::of_prose());
        let byte = |at: usize| bytes.get(offset + at).copied();
        let first = folded(byte(0).unwrap_or_default());
        let middle = folded_middle(byte(1).unwrap_or_default());
        // A byte beside the anchor may be any.
        let last = byte(2).map(folded).map_or(0..1 << BITS, |last| last..last + 1);
        for last in last {
            self.entries.push(ShortEntry {
                three: number(first, middle, last),
                anchor: index as u16,
                offset: offset as u8,
                head: Head::of(bytes),
            });
        }
    }

    /// Builds the table after the last anchor.
    pub(super) fn sort(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        self.entries.sort_unstable_by_key(|entry| (entry.three, entry.anchor));
        self.bits = vec![0; WORDS];
        let mut before = None;
        for (place, entry) in (0..).zip(&self.entries) {
            if before != Some(entry.three) {
                self.bits[usize::from(entry.three / 64)] |= 1 << (entry.three % 64);
                self.starts.push(place);
                before = Some(entry.three);
            }
        }
        self.starts.push(self.entries.len() as u32);
        let mut rank = 0;
        for word in &self.bits {
            self.ranks.push(rank);
            rank += word.count_ones();
        }
    }

    /// Calls `take` with the number and the start of each anchor in a text from `from` on.
    pub(super) fn find(&self, text: &[u8], from: usize, mut take: impl FnMut(u16, usize)) {
        let Some(bits) = self.bits.first_chunk::<WORDS>() else { return };
        for start in (from..text.len()).step_by(BLOCK) {
            let rest = &text[start..];
            let whole = rest.first_chunk();
            let padded = || {
                let mut block = [PAD; BLOCK + THREE - 1];
                block[..rest.len()].copy_from_slice(rest);
                block
            };
            let numbers = numbers(&whole.copied().unwrap_or_else(padded));
            let halves = numbers.as_chunks::<64>().0.iter().take(rest.len().div_ceil(64));
            for (half, numbers) in halves.enumerate() {
                let mut seen = seen(bits, numbers);
                while seen != 0 {
                    let at = seen.trailing_zeros() as usize;
                    seen &= seen - 1;
                    self.compare(text, start + half * 64 + at, numbers[at % 64], &mut take);
                }
            }
        }
    }

    /// Compares the text with the anchors of a key. Rank and start lead from the bit to its
    /// entries, so that the bitmap needs no pointers.
    #[inline(always)]
    fn compare(&self, text: &[u8], at: usize, three: u16, take: &mut impl FnMut(u16, usize)) {
        let word = usize::from(three / 64);
        let bit = three % 64;
        let below = self.bits[word] & ((1 << bit) - 1);
        let rank = (self.ranks[word] + below.count_ones()) as usize;
        let entries = self.starts[rank] as usize..self.starts[rank + 1] as usize;
        for entry in &self.entries[entries] {
            let start = at.wrapping_sub(usize::from(entry.offset));
            if start < text.len() && entry.head.is_at(text, start) {
                take(entry.anchor, start);
            }
        }
    }
}

/// Returns the keys at each offset, in a form that the compiler vectorises.
#[inline(always)]
fn numbers(block: &ShortBlock) -> [u16; BLOCK] {
    let folded: ShortBlock = std::array::from_fn(|at| folded(block[at]));
    let middle: ShortBlock = std::array::from_fn(|at| folded_middle(block[at]));
    std::array::from_fn(|at| number(folded[at], middle[at + 1], folded[at + 2]))
}

/// Returns a bit for each of these keys in the table, without branches, as in the sieve.
#[inline(always)]
fn seen(bits: &[u64; WORDS], numbers: &[u16; 64]) -> u64 {
    numbers.iter().rev().fold(0, |seen, &three| {
        let word = bits[usize::from(three / 64) % WORDS];
        seen << 1 | word >> (three % 64) & 1
    })
}
