//! Bitmaps of character classes: letters and digits, and characters unchanged by lower-casing.
//!
//! The standard library searches compressed tables for each character beyond ASCII, which took a
//! fifth of the time of an Arabic text. Here the first 65,536 characters have one bit each,
//! computed once.

use std::sync::LazyLock;

/// Number of characters with a bit; for others the standard library decides.
const KNOWN: u32 = 1 << 16;

/// Bitmap of the first characters.
type Bits = Box<[u64; KNOWN as usize / 64]>;

fn bits(is: impl Fn(char) -> bool) -> Bits {
    let mut bits: Bits = Box::new([0; KNOWN as usize / 64]);
    for c in (0..KNOWN).filter_map(char::from_u32).filter(|&c| is(c)) {
        bits[c as usize / 64] |= 1 << (c as usize % 64);
    }
    bits
}

#[inline(always)]
fn has(bits: &Bits, c: char, is: impl Fn(char) -> bool) -> bool {
    bits.get(c as usize / 64).map_or_else(|| is(c), |word| word >> (c as usize % 64) & 1 == 1)
}

/// Returns true if a character is a letter or digit.
#[inline(always)]
pub fn is_word_char(c: char) -> bool {
    static WORD: LazyLock<Bits> = LazyLock::new(|| bits(char::is_alphanumeric));
    has(&WORD, c, char::is_alphanumeric)
}

/// Returns true if lower-casing leaves a character unchanged.
#[inline(always)]
pub fn is_lower(c: char) -> bool {
    static LOWER: LazyLock<Bits> = LazyLock::new(|| bits(stays_in_lower_case));
    has(&LOWER, c, stays_in_lower_case)
}

fn stays_in_lower_case(c: char) -> bool {
    c.to_lowercase().eq([c])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_say_what_the_standard_library_says() {
        for c in (0..=0x2_0000).filter_map(char::from_u32) {
            assert_eq!(is_word_char(c), c.is_alphanumeric(), "{c:?}");
            assert_eq!(is_lower(c), c.to_lowercase().to_string() == c.to_string(), "{c:?}");
        }
    }
}
