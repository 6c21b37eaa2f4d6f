//! What kinds of characters a text holds, and where its digits stand close together.
//!
//! One pass in blocks of sixteen bytes that the compiler turns into vector instructions. Detectors
//! of numbers (cards, phones, addresses) run only in the regions found here.

use std::ops::Range;

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
    /// Sixteen bytes without white space.
    pub(super) long_token: bool,
    /// Where many digits stand together, in order, apart from each other.
    pub(super) digits: Vec<Range<usize>>,
}

#[derive(Default, Clone, Copy)]
struct Block {
    digits: u8,
    dots: u8,
    colons: u8,
    spaces: u8,
    ats: u8,
    high: u8,
}

impl Profile {
    /// Looks at a text.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut profile = Self::default();
        let (blocks, rest) = text.as_chunks::<BLOCK>();
        let mut tail = [b' '; BLOCK];
        tail[..rest.len()].copy_from_slice(rest);
        let mut last = Block::default();
        let (mut any_digit, mut ats, mut high) = (0, 0, 0);
        for (index, bytes) in blocks.iter().chain(std::iter::once(&tail)).enumerate() {
            let block = Block::of(bytes);
            any_digit |= block.digits;
            ats |= block.ats;
            high |= block.high;
            profile.long_token |= block.spaces == 0;
            if block.is_dense(last) {
                profile.extend(text, index);
            }
            last = block;
        }
        profile.non_ascii = high >= 0x80;
        profile.at_sign = ats > 0;
        profile.leet = any_digit > 0 && has_leet(text);
        profile
    }

    fn extend(&mut self, text: &[u8], block: usize) {
        let start = (block.saturating_sub(1) * BLOCK).saturating_sub(MARGIN);
        let end = ((block + 1) * BLOCK + MARGIN).min(text.len());
        if let Some(last) = self.digits.last_mut()
            && start <= last.end
        {
            last.end = edge(text, end);
            return;
        }
        self.digits.push(start..edge(text, end));
    }
}

/// Moves an end on to white space, so that no number is cut in two.
fn edge(text: &[u8], end: usize) -> usize {
    let ahead = &text[end..(end + EDGE_MAX).min(text.len())];
    end + ahead.iter().position(u8::is_ascii_whitespace).unwrap_or(ahead.len())
}

impl Block {
    fn of(bytes: &[u8; BLOCK]) -> Self {
        let mut block = Self::default();
        for &byte in bytes {
            block.digits += u8::from(byte.wrapping_sub(b'0') < 10);
            block.dots += u8::from(byte == b'.');
            block.colons += u8::from(byte == b':');
            block.spaces += u8::from(byte <= b' ');
            block.ats += u8::from(byte == b'@');
            block.high |= byte;
        }
        block
    }

    /// Whether these two blocks may hold a number that a detector looks for.
    fn is_dense(self, before: Self) -> bool {
        let digits = self.digits + before.digits;
        digits >= 5
            || (digits >= 4 && self.dots + before.dots >= 3)
            || (digits >= 1 && self.colons + before.colons >= 3)
    }
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
        let text = format!("{}4111 1111 1111 1111{}", "word ".repeat(40), " word".repeat(40));
        let profile = Profile::of(text.as_bytes());
        let [region] = &profile.digits[..] else { panic!("{profile:?}") };
        assert!(text[region.clone()].contains("4111 1111 1111 1111"));
        assert!(region.len() < 200);
        assert!(Profile::of(b"ten pages are left, then the year 2024 begins").digits.is_empty());
    }

    #[test]
    fn sees_letters_replaced_by_digits() {
        assert!(Profile::of(b"k1ll").leet);
        assert!(!Profile::of(b"in 2024 there were 3 of them").leet);
    }
}
