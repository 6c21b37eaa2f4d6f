//! What kinds of characters a text holds, and where its digits stand close together.
//!
//! One pass in blocks of sixty-four bytes that the compiler turns into vector instructions; only
//! where a block has digits is it looked at more closely. Detectors of numbers (cards, phones,
//! addresses) run only in the regions found here.

use std::ops::Range;

use super::super::bytes::{mask, rows};
use super::super::limits::NUMBER_BYTES_MAX;

/// Bytes that are summed up at once; two of them hold fewer than a byte can count.
const CHUNK: usize = 64;
const BLOCK: usize = 16;
/// Bytes beside a block with digits that belong to its region.
const MARGIN: usize = 48;
/// Colons that make a number of few digits an address.
const COLONS: usize = 3;
/// How far an edge moves on to reach white space.
const EDGE_MAX: usize = 256;

/// What one pass saw.
#[derive(Default, Debug)]
pub(super) struct Profile {
    /// The greatest byte.
    pub(super) top: u8,
    /// There is an `@`.
    pub(super) at_sign: bool,
    /// A letter, a digit that looks like one, and a letter again.
    pub(super) leet: bool,
    /// Twenty bytes without white space.
    pub(super) long_token: bool,
    /// Five single characters with a space between each.
    pub(super) spaced: bool,
    /// Most digits in two blocks of sixteen bytes beside each other, where there are five or more.
    pub(super) digits_max: u8,
    /// Where many digits stand together, in order, apart from each other.
    pub(super) digits: Vec<Range<usize>>,
    /// Bytes of these places.
    digit_bytes: usize,
    /// There are more such places than [`NUMBER_BYTES_MAX`] allows.
    pub(super) digits_cut: bool,
}

/// What was looked at already.
#[derive(Default)]
struct Seen {
    /// Blocks before this one were looked at closely.
    blocks: usize,
    /// Whether there are [`COLONS`] colons in all.
    colons: Option<bool>,
    /// The last chunk that was looked at with its digits.
    digits: (usize, u32),
}

impl Seen {
    /// Digits of the chunk before this one, which has none if nobody looked at it.
    fn digits_before(&self, index: usize) -> u32 {
        if self.digits.0 + 1 == index { self.digits.1 } else { 0 }
    }
}

impl Profile {
    /// Looks at a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let (long_token, spaced) = rows(text, |byte| byte > b' ');
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
        let (mut before, mut seen) = (false, Seen::default());
        for (index, chunk) in chunks.iter().chain(std::iter::once(&tail)).enumerate() {
            let digits = has_digit(chunk);
            if digits | before {
                profile.look_at(text, index, chunk, digits, &mut seen);
            }
            before = digits;
        }
        profile
    }

    /// Whether there is a byte beyond ASCII.
    pub(super) fn non_ascii(&self) -> bool {
        self.top > 0x7f
    }

    /// Looks at a chunk that has digits, or follows one that has.
    #[inline(never)]
    fn look_at(
        &mut self,
        text: &[u8],
        index: usize,
        chunk: &[u8; CHUNK],
        has_digits: bool,
        seen: &mut Seen,
    ) {
        let start = index * CHUNK;
        let end = (start + CHUNK).min(text.len());
        let places = if has_digits { mask(chunk, is_digit) } else { 0 };
        if !self.leet {
            self.leet = has_leet(text, start, places);
        }
        let before = start.saturating_sub(CHUNK);
        let colons = *seen
            .colons
            .get_or_insert_with(|| memchr::memchr_iter(b':', text).nth(COLONS - 1).is_some());
        let digits = places.count_ones();
        let together = digits + seen.digits_before(index);
        seen.digits = (index, digits);
        if together >= 4 || (colons && sum(&text[before..end], is_colon) >= COLONS as u8) {
            self.look_closely(text, seen.blocks.max(before / BLOCK), end.div_ceil(BLOCK));
            seen.blocks = (index + 1) * (CHUNK / BLOCK);
        }
    }

    /// Finds the dense ones of these blocks.
    fn look_closely(&mut self, text: &[u8], from: usize, to: usize) {
        let digits_of = |index: usize| {
            let end = ((index + 1) * BLOCK).min(text.len());
            sum(&text[index * BLOCK..end], is_digit)
        };
        let mut before = from.checked_sub(1).map(digits_of).unwrap_or_default();
        for index in from..to {
            let digits = digits_of(index);
            let together = digits + std::mem::replace(&mut before, digits);
            let start = index.saturating_sub(1) * BLOCK;
            if is_dense(&text[start..((index + 1) * BLOCK).min(text.len())], together) {
                self.digits_max = self.digits_max.max(together);
                self.extend(text, index);
            }
        }
    }

    fn extend(&mut self, text: &[u8], block: usize) {
        if self.digit_bytes > NUMBER_BYTES_MAX {
            self.digits_cut = true;
            return;
        }
        let start = (block.saturating_sub(1) * BLOCK).saturating_sub(MARGIN);
        let end = edge(text, ((block + 1) * BLOCK + MARGIN).min(text.len()));
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

/// Moves an end on to white space, so that no number is cut in two.
fn edge(text: &[u8], end: usize) -> usize {
    let ahead = &text[end..(end + EDGE_MAX).min(text.len())];
    end + ahead.iter().position(u8::is_ascii_whitespace).unwrap_or(ahead.len())
}

/// Whether two blocks with so many digits may hold a number that a detector looks for.
fn is_dense(blocks: &[u8], digits: u8) -> bool {
    digits >= 5
        || (digits >= 4 && sum(blocks, |byte| byte == b'.') >= 3)
        || (digits >= 1 && sum(blocks, is_colon) >= COLONS as u8)
}

fn is_colon(byte: u8) -> bool {
    byte == b':'
}

#[inline(always)]
fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

/// How many bytes are of a kind, at most 255.
#[inline(always)]
fn sum(bytes: &[u8], is: impl Fn(u8) -> bool) -> u8 {
    bytes.iter().map(|&byte| u8::from(is(byte))).sum()
}

/// Whether any byte is a digit.
#[inline(always)]
fn has_digit(chunk: &[u8; CHUNK]) -> bool {
    chunk.iter().fold(0, |any, &byte| any | u8::from(is_digit(byte))) != 0
}

/// Whether one of these digits, whose places start at `start`, is below 8 and stands alone between
/// letters.
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

/// The letter that a digit or sign is put for; other bytes as they are.
pub(super) fn unleet(byte: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' | b'!' => b'i',
        b'3' => b'e',
        b'4' | b'@' => b'a',
        b'5' | b'$' => b's',
        b'7' => b't',
        _ => byte,
    }
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
            assert!(check("w o r d s") && !check("a b c") && !check("of in at on it"), "{shift}");
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
