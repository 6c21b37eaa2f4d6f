//! Byte-class scanning with SIMD: runs, offsets and rows of the bytes of a class.
//!
//! In: bytes and a class. Out: the offsets where runs of the class start and end. Vector
//! instructions turn a block of sixty-four bytes into a word of bits without branches; only edges
//! of runs are visited one by one. Linear, no allocation.

use std::ops::Range;

use wide::u8x16;

const BLOCK: usize = 64;

/// Vector of sixteen bytes, or its mask for a class: all bits of each member set.
pub type Bytes = u8x16;

/// Returns the mask of the bytes from `first` to `last`, both included.
#[inline(always)]
pub fn between(bytes: Bytes, first: u8, last: u8) -> Bytes {
    (bytes - Bytes::splat(first)).simd_lt(Bytes::splat(last - first + 1))
}

/// Returns the mask of the bytes that are in a list.
#[inline(always)]
pub fn any_of(bytes: Bytes, these: &[u8]) -> Bytes {
    these.iter().fold(Bytes::ZERO, |any, &one| any | bytes.simd_eq(Bytes::splat(one)))
}

/// Returns the mask of the ASCII digits.
#[inline(always)]
pub fn digits(bytes: Bytes) -> Bytes {
    between(bytes, b'0', b'9')
}

/// Returns the mask of the ASCII letters.
#[inline(always)]
pub(crate) fn letters(bytes: Bytes) -> Bytes {
    between(bytes | Bytes::splat(0x20), b'a', b'z')
}

/// Returns the mask of the ASCII letters and digits.
#[inline(always)]
pub fn alphanumerics(bytes: Bytes) -> Bytes {
    letters(bytes) | digits(bytes)
}

/// Returns the members of a class as bits: bit `n` is byte `n`.
#[inline(always)]
pub fn mask(block: &[u8; BLOCK], class: impl Fn(Bytes) -> Bytes) -> u64 {
    let mut mask = 0;
    for (index, part) in block.as_chunks::<16>().0.iter().enumerate() {
        mask |= u64::from(class(Bytes::from(*part)).to_bitmask()) << (index * 16);
    }
    mask
}

/// Calls `take` with each block; the last is padded with zeros.
#[inline(always)]
pub fn each_block(text: &[u8], mut take: impl FnMut(&[u8; BLOCK])) {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    blocks.iter().for_each(&mut take);
    let mut tail = [0; BLOCK];
    tail[..rest.len()].copy_from_slice(rest);
    take(&tail);
}

/// Calls `take` with the offset of each block's first byte and its members of a class as bits. The
/// last block is padded with zeros.
#[inline(always)]
fn blocks(text: &[u8], class: impl Fn(Bytes) -> Bytes + Copy, mut take: impl FnMut(usize, u64)) {
    let mut first = 0;
    each_block(text, |block| {
        take(first, mask(block, class));
        first += BLOCK;
    });
}

/// Calls `take` with each maximal run of bytes of the class, in order. Zero is in no class.
#[inline(always)]
pub fn runs(
    text: &[u8],
    class: impl Fn(Bytes) -> Bytes + Copy,
    mut take: impl FnMut(Range<usize>),
) {
    let mut start = 0;
    let mut inside = 0;
    blocks(text, class, |first, members| {
        let mut edges = members ^ (members << 1 | inside);
        let mut open = inside;
        inside = members >> 63;
        while edges != 0 {
            let at = first + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            if open == 0 {
                start = at;
            } else {
                take(start..at);
            }
            open ^= 1;
        }
    });
}

/// Least length of a long token, bytes.
pub(crate) const TOKEN_BYTES_MIN: usize = 20;

/// Returns the maximal runs of visible ASCII that are [long enough](TOKEN_BYTES_MIN).
pub(crate) fn tokens(text: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    runs(
        text,
        |bytes| between(bytes, b'!', b'~'),
        |run| {
            if run.len() >= TOKEN_BYTES_MIN {
                all.push(run);
            }
        },
    );
    all
}

/// Calls `take` with the offset of each byte of the class, in order. Zero is in no class.
#[inline(always)]
pub fn places(text: &[u8], class: impl Fn(Bytes) -> Bytes + Copy, mut take: impl FnMut(usize)) {
    blocks(text, class, |first, mut members| {
        while members != 0 {
            take(first + members.trailing_zeros() as usize);
            members &= members - 1;
        }
    });
}

/// Searches for rows: twenty consecutive bytes of the class, and nine adjacent pairs that each have
/// one byte of the class and one other.
#[inline(always)]
pub(crate) fn rows(text: &[u8], class: impl Fn(Bytes) -> Bytes + Copy) -> (bool, bool) {
    // Ends of rows of one, two, four, eight and sixteen members in the last block. Shifts double
    // the length: twenty in a row end where four do and sixteen ended four bytes before. So there
    // is no branch.
    let mut members = [0; 5];
    let mut edges = [0; 4];
    let mut twenty = 0;
    let mut nine_edges = 0;
    blocks(text, class, |_, one| {
        // Shifts bits by this many bytes, with the carry of the last block.
        let before = |now: u64, last: u64, by: u32| now << by | last >> (64 - by);
        let edge = one ^ before(one, members[0], 1);
        let two = one & before(one, members[0], 1);
        let four = two & before(two, members[1], 2);
        let eight = four & before(four, members[2], 4);
        let sixteen = eight & before(eight, members[3], 8);
        twenty |= four & before(sixteen, members[4], 4);
        members = [one, two, four, eight, sixteen];
        let two = edge & before(edge, edges[0], 1);
        let four = two & before(two, edges[1], 2);
        let eight = four & before(four, edges[2], 4);
        nine_edges |= edge & before(eight, edges[3], 1);
        edges = [edge, two, four, eight];
    });
    (twenty != 0, nine_edges != 0)
}

/// Returns the first eight bytes of a run in lower case as one word, padded with zeros.
#[inline(always)]
pub fn first_eight(text: &[u8], run: &Range<usize>) -> u64 {
    let bytes = match text[run.start..].first_chunk::<8>() {
        Some(bytes) => *bytes,
        None => {
            let mut bytes = [0; 8];
            let rest = &text[run.start..];
            bytes[..rest.len()].copy_from_slice(rest);
            bytes
        }
    };
    first_of(bytes, run.len())
}

/// Returns the first `length` bytes in lower case as one word, padded with zeros.
#[inline(always)]
pub fn first_of(bytes: [u8; 8], length: usize) -> u64 {
    const KEEP: [u64; 9] = [
        0,
        0xff,
        0xffff,
        0xff_ffff,
        0xffff_ffff,
        0xff_ffff_ffff,
        0xffff_ffff_ffff,
        0xff_ffff_ffff_ffff,
        u64::MAX,
    ];
    (u64::from_le_bytes(bytes) | 0x2020_2020_2020_2020) & KEEP[length.min(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_blocks() {
        let letters = |bytes: Bytes| between(bytes | Bytes::splat(0x20), b'a', b'z');
        for before in [0, 1, 7, 60, 63, 64, 65, 127, 128] {
            for length in [1, 2, 8, 63, 64, 65, 130] {
                let text = format!("{}{} b", " ".repeat(before), "a".repeat(length));
                let mut found = Vec::new();
                let mut all = Vec::new();
                runs(text.as_bytes(), letters, |run| found.push(run));
                let last = before + length + 1;
                assert_eq!(found, [before..before + length, last..last + 1]);
                places(text.as_bytes(), letters, |at| all.push(at));
                assert_eq!((all.first(), all.len()), (Some(&before), length + 1));
            }
        }
        runs(b"", letters, |_| panic!("no run in nothing"));
    }

    #[test]
    fn long_tokens_are_runs_of_visible_ascii() {
        let long = "x/".repeat(10);
        let short = "y".repeat(19);
        let text = format!("{long} {short}\n{long}z{short}é{short}\u{7f}{long}");
        let found = tokens(text.as_bytes()).into_iter().map(|run| &text[run]).collect::<Vec<_>>();
        assert_eq!(found, [&*long, &*format!("{long}z{short}"), &*long]);
    }

    #[test]
    fn first_bytes_are_in_lower_case() {
        let word = |text: &str| u64::from_le_bytes(*text.as_bytes().first_chunk().unwrap());
        assert_eq!(first_eight(b"x THE end", &(2..5)), word("the\0\0\0\0\0"));
        assert_eq!(first_eight(b"Instructions", &(0..12)), word("instruct"));
        assert_eq!(first_eight(b"is It", &(3..5)), word("it\0\0\0\0\0\0"));
    }
}
