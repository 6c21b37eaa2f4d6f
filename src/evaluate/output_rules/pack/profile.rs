//! What kinds of characters a text holds, and where its digits stand close together.
//!
//! One pass in blocks of sixty-four bytes that the compiler turns into vector instructions; only
//! where a block has digits is it looked at more closely. Detectors of numbers (cards, phones,
//! addresses) run only in the regions found here.

use std::ops::Range;

use super::super::bytes::rows;
use super::super::limits::NUMBER_BYTES_MAX;

/// Bytes that are summed up at once.
const CHUNK: usize = 64;
const BLOCK: usize = 16;
/// Bytes beside a block with digits that belong to its region.
const MARGIN: usize = 48;
/// How far an edge moves on to reach white space.
const EDGE_MAX: usize = 256;

/// What one pass saw.
#[derive(Default, Debug)]
pub(super) struct Profile {
    /// There is a byte beyond ASCII.
    pub(super) non_ascii: bool,
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

/// How many bytes of some kinds there are.
#[derive(Default, Clone, Copy)]
struct Sums {
    digits: u8,
    dots: u8,
    colons: u8,
}

impl Profile {
    /// Looks at a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let (long_token, spaced) = rows(text, |byte| byte > b' ');
        let mut profile = Self {
            non_ascii: !text.is_ascii(),
            at_sign: memchr::memchr(b'@', text).is_some(),
            long_token,
            spaced,
            ..Self::default()
        };
        let mut last = Sums::default();
        // Blocks before this one were looked at closely.
        let mut close = 0;
        let (chunks, rest) = text.as_chunks::<CHUNK>();
        let mut tail = [b' '; CHUNK];
        tail[..rest.len()].copy_from_slice(rest);
        for (index, chunk) in chunks.iter().chain(std::iter::once(&tail)).enumerate() {
            let sums = Sums::of(chunk);
            let digits = sums.digits + last.digits;
            if sums.digits > 0 {
                let start = (index * CHUNK).saturating_sub(2);
                let end = (index * CHUNK + CHUNK + 2).min(text.len());
                profile.leet = profile.leet || has_leet(&text[start..end]);
            }
            if digits >= 4 || (digits >= 1 && sums.colons + last.colons >= 3) {
                let first = index.saturating_sub(1) * (CHUNK / BLOCK);
                profile.look_closely(text, first.max(close), (index + 1) * (CHUNK / BLOCK));
                close = (index + 1) * (CHUNK / BLOCK);
            }
            last = sums;
        }
        profile
    }

    /// Finds the dense ones of these blocks.
    fn look_closely(&mut self, text: &[u8], from: usize, to: usize) {
        let block = |index: usize| {
            let end = ((index + 1) * BLOCK).min(text.len());
            let block = text.get(index * BLOCK..end).unwrap_or_default();
            let mut padded = [b' '; BLOCK];
            padded[..block.len()].copy_from_slice(block);
            Sums::of(&padded)
        };
        let mut last = from.checked_sub(1).map(block).unwrap_or_default();
        for index in from..to {
            let sums = block(index);
            if sums.is_dense(last) {
                self.digits_max = self.digits_max.max(sums.digits + last.digits);
                self.extend(text, index);
            }
            last = sums;
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

impl Sums {
    #[inline(always)]
    fn of<const N: usize>(bytes: &[u8; N]) -> Self {
        Self {
            digits: sum(bytes, |byte| byte.wrapping_sub(b'0') < 10),
            dots: sum(bytes, |byte| byte == b'.'),
            colons: sum(bytes, |byte| byte == b':'),
        }
    }

    /// Whether these two blocks may hold a number that a detector looks for.
    fn is_dense(self, before: Self) -> bool {
        let digits = self.digits + before.digits;
        digits >= 5
            || (digits >= 4 && self.dots + before.dots >= 3)
            || (digits >= 1 && self.colons + before.colons >= 3)
    }
}

#[inline(always)]
fn sum<const N: usize>(bytes: &[u8; N], is: impl Fn(u8) -> bool) -> u8 {
    bytes.iter().map(|&byte| u8::from(is(byte))).sum()
}

fn has_leet(text: &[u8]) -> bool {
    let Some(count) = text.len().checked_sub(2) else { return false };
    let letter = |byte: u8| u8::from((byte | 0x20).wrapping_sub(b'a') < 26);
    let mut any = 0;
    for ((&a, &b), &c) in text[..count].iter().zip(&text[1..=count]).zip(&text[2..]) {
        any |= letter(a) & u8::from(b.wrapping_sub(b'0') < 8) & letter(c);
    }
    any != 0
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
