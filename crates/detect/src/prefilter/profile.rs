//! Profile of a text: its kinds of characters, and the regions of dense digits.
//!
//! One pass in blocks of sixty-four bytes that the compiler vectorises; only blocks with digits are
//! examined more closely. Number detectors (cards, phones, addresses) run only in the regions found
//! here.

use std::ops::Range;

use super::super::bytes::{self, between, mask, rows};
use super::super::limits::NUMBER_BYTES_MAX;

/// Bytes summed at once; two such sums fit in a byte.
const CHUNK: usize = 64;
const BLOCK: usize = 16;
/// Bytes on each side of a block with digits that belong to its region.
const MARGIN: usize = 48;
/// Colons that make a number of few digits an address.
const COLONS: usize = 3;
/// Greatest extension of an edge to white space, bytes.
const EDGE_MAX: usize = 256;

/// Features of a text, from one pass.
#[derive(Default, Debug)]
pub(crate) struct Profile {
    /// Greatest byte.
    pub(crate) top: u8,
    /// True if there is an `@`.
    pub(crate) at_sign: bool,
    /// True if a letter, a digit that looks like one, and a letter occur in sequence.
    pub(crate) leet: bool,
    /// True if twenty consecutive bytes have no white space.
    pub(crate) long_token: bool,
    /// True if five single letters occur with one other character between each.
    pub(crate) spaced: bool,
    /// Greatest number of digits in two adjacent blocks of sixteen bytes, if at least five.
    pub(crate) digits_max: u8,
    /// Regions of dense digits, in order, without overlaps.
    pub(crate) digits: Vec<Range<usize>>,
    /// Total bytes of these regions.
    digit_bytes: usize,
    /// True if these regions exceed [`NUMBER_BYTES_MAX`].
    pub(crate) digits_cut: bool,
}

/// Progress of the closer examination.
#[derive(Default)]
struct Seen {
    /// Number of examined blocks from the start.
    blocks: usize,
    /// True if the text has [`COLONS`] colons; `None` until counted.
    colons: Option<bool>,
}

impl Seen {
    fn has_colons(&mut self, text: &[u8]) -> bool {
        let count = || memchr::memchr_iter(b':', text).nth(COLONS - 1).is_some();
        *self.colons.get_or_insert_with(count)
    }
}

impl Profile {
    /// Profiles a text.
    pub(crate) fn of(text: &[u8]) -> Self {
        let (long_token, _) = rows(text, |bytes| between(bytes, b' ' + 1, u8::MAX));
        let (_, spaced) = rows(text, bytes::letters);
        let mut profile = Self {
            top: text.iter().copied().fold(0, u8::max),
            at_sign: memchr::memchr(b'@', text).is_some(),
            long_token,
            spaced,
            ..Self::default()
        };
        let (chunks, rest) = text.as_chunks::<CHUNK>();
        let mut tail = [b' '; CHUNK];
        tail[..rest.len()].copy_from_slice(rest);
        let mut before = 0;
        let mut seen = Seen::default();
        for (index, chunk) in chunks.iter().chain(std::iter::once(&tail)).enumerate() {
            let digits = mask(chunk, bytes::digits);
            if digits | before != 0 {
                profile.leet = profile.leet || has_leet(text, index * CHUNK, digits);
                let together = before.count_ones() + digits.count_ones();
                if together >= 4 || seen.has_colons(text) {
                    profile.look_at(text, index, [before, digits], &mut seen);
                }
            }
            before = digits;
        }
        profile
    }

    /// Returns true if there is a byte beyond ASCII.
    pub(crate) fn non_ascii(&self) -> bool {
        self.top > 0x7f
    }

    /// Examines a chunk if it and the one before have enough digits for a number; bit `n` is byte
    /// `n`.
    #[inline(never)]
    fn look_at(&mut self, text: &[u8], index: usize, digits: [u64; 2], seen: &mut Seen) {
        let start = index * CHUNK;
        let end = (start + CHUNK).min(text.len());
        let before = start.saturating_sub(CHUNK);
        let together = digits[0].count_ones() + digits[1].count_ones();
        if together >= 4 || sum(&text[before..end], is_colon) >= COLONS as u8 {
            let from = seen.blocks.max(before / BLOCK);
            self.look_closely(text, start / BLOCK, digits, from..end.div_ceil(BLOCK));
            seen.blocks = (index + 1) * (CHUNK / BLOCK);
        }
    }

    /// Finds the dense ones of these blocks. `digits` are those of the chunk that starts with the
    /// block `first`, and of the one before.
    fn look_closely(&mut self, text: &[u8], first: usize, digits: [u64; 2], blocks: Range<usize>) {
        let in_block = |bits: u64, block: usize| (bits >> (block * BLOCK)) as u16;
        let digits_of = |block: usize| {
            let bits = match block.checked_sub(first) {
                Some(block) => in_block(digits[1], block),
                None => in_block(digits[0], block + CHUNK / BLOCK - first),
            };
            bits.count_ones() as u8
        };
        let mut before = blocks
            .start
            .checked_sub(1)
            .map_or(0, |block| sum(&text[block * BLOCK..blocks.start * BLOCK], is_digit));
        for block in blocks {
            let digits = digits_of(block);
            let together = digits + std::mem::replace(&mut before, digits);
            if together == 0 {
                continue;
            }
            let start = block.saturating_sub(1) * BLOCK;
            if is_dense(&text[start..((block + 1) * BLOCK).min(text.len())], together) {
                self.digits_max = self.digits_max.max(together);
                self.extend(text, block);
            }
        }
    }

    fn extend(&mut self, text: &[u8], block: usize) {
        if self.digit_bytes > NUMBER_BYTES_MAX {
            self.digits_cut = true;
            return;
        }
        let start = (block.saturating_sub(1) * BLOCK).saturating_sub(MARGIN);
        let end = ((block + 1) * BLOCK + MARGIN).min(text.len());
        if self.digits.last().is_some_and(|last| end < last.end) {
            return;
        }
        let end = edge(text, end);
        match self.digits.last_mut() {
            Some(last) if start <= last.end => {
                self.digit_bytes += end.saturating_sub(last.end);
                last.end = last.end.max(end);
            }
            _ => {
                self.digit_bytes += end - start;
                self.digits.push(start..end);
            }
        }
    }
}

/// Extends an end to white space, so that no number is cut in two.
fn edge(text: &[u8], end: usize) -> usize {
    let ahead = &text[end..(end + EDGE_MAX).min(text.len())];
    end + ahead.iter().position(u8::is_ascii_whitespace).unwrap_or(ahead.len())
}

/// Returns true if two blocks with this many digits may contain a number for a detector.
fn is_dense(blocks: &[u8], digits: u8) -> bool {
    digits >= 5
        || (digits >= 4 && sum(blocks, |byte| byte == b'.') >= 3)
        || (digits >= 1 && groups(blocks) >= COLONS as u8)
}

/// Counts the colons before a hexadecimal digit or another colon, as in addresses, unlike those
/// between JSON fields.
fn groups(bytes: &[u8]) -> u8 {
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    pairs.fold(0, |sum: u8, (&byte, &next)| {
        sum.wrapping_add((is_colon(byte) && is_of_address(next)).into())
    })
}

fn is_colon(byte: u8) -> bool {
    byte == b':'
}

#[inline(always)]
fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

/// Counts the bytes of a kind among at most 255. Checked additions would prevent vector
/// instructions.
#[inline(always)]
fn sum(bytes: &[u8], is: impl Fn(u8) -> bool) -> u8 {
    bytes.iter().fold(0, |sum: u8, &byte| sum.wrapping_add(is(byte).into()))
}

/// Returns true if one of these digits, whose offsets start at `start`, is below 8 and alone
/// between letters.
fn has_leet(text: &[u8], start: usize, places: u64) -> bool {
    let letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphabetic);
    let mut alone = places & !(places << 1) & !(places >> 1);
    while alone != 0 {
        let at = start + alone.trailing_zeros() as usize;
        alone &= alone - 1;
        if text[at] < b'8' && letter(at.wrapping_sub(1)) && letter(at + 1) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_cover_digits_that_stand_together() {
        for shift in 0..130 {
            let text = format!("{}4111 1111 1111 1111{}", "w ".repeat(shift), " word".repeat(40));
            let profile = Profile::of(text.as_bytes());
            let [region] = &profile.digits[..] else { panic!("{profile:?}") };
            assert!(text[region.clone()].contains("4111 1111 1111 1111"));
            assert!(region.len() < 220);
        }
        assert!(Profile::of(b"ten pages are left, then the year 2024 begins").digits.is_empty());
    }

    #[test]
    fn sees_letters_replaced_by_digits() {
        for shift in 0..130 {
            let text = format!("{}k1ll", " ".repeat(shift));
            assert!(Profile::of(text.as_bytes()).leet, "{shift}");
        }
        assert!(!Profile::of(b"in 2024 there were 3 of them").leet);
    }

    #[test]
    fn sees_single_letters() {
        for shift in 0..130 {
            let check = |text: &str| {
                Profile::of(format!("{}{text} end", "word ".repeat(shift)).as_bytes()).spaced
            };
            assert!(check("w o r d s") && check("w.o.r.d.s") && !check("a b c"), "{shift}");
            assert!(!check("of in at on it") && !check("1 2 3 4 5 6"), "{shift}");
        }
    }

    #[test]
    fn sees_tokens_of_twenty_bytes() {
        for shift in 0..130 {
            let check = |length| {
                let text = format!("{}{} b", " ".repeat(shift), "x".repeat(length));
                Profile::of(text.as_bytes()).long_token
            };
            assert!(check(20) && !check(19), "{shift}");
        }
    }
}
