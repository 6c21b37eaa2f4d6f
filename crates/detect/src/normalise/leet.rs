//! Leetspeak decoding: digits and signs in place of similar letters.
//!
//! In: a text. Out: the text with such digits as letters, and the parts around affected words.
//! Versions, hashes and keys have letters and digits too, so only words with mostly letters count.
//! Linear.

use std::ops::Range;

/// Bytes around a word that may belong to its phrase.
const AROUND: usize = 200;
/// Lengths of disguised words, bytes.
const WORD_BYTES: std::ops::RangeInclusive<usize> = 3..=24;

/// Returns the text with digits read as letters, and the parts worth a search; `None` without
/// disguised words.
pub(crate) fn read_as_letters(text: &[u8]) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].iter().position(|&byte| is_member(byte)) {
        let start = at + first;
        let length = text[start..].iter().position(|&byte| !is_member(byte));
        at = length.map_or(text.len(), |length| start + length);
        if is_disguised(&text[start..at]) {
            let part = start.saturating_sub(AROUND)..(at + AROUND).min(text.len());
            match parts.last_mut() {
                Some(last) if part.start <= last.end => last.end = part.end,
                _ => parts.push(part),
            }
        }
    }
    let letters = || text.iter().map(|&byte| letter(byte)).collect();
    (!parts.is_empty()).then(|| (letters(), parts))
}

fn is_member(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'$' | b'!')
}

/// Returns true if a word has a digit between letters, more letters than digits, and is not
/// hexadecimal.
fn is_disguised(word: &[u8]) -> bool {
    let digits = word.iter().filter(|byte| !byte.is_ascii_alphabetic()).count();
    let inside = || {
        word.windows(2).any(|pair| !pair[0].is_ascii_alphabetic() && pair[1].is_ascii_alphabetic())
    };
    digits > 0
        && WORD_BYTES.contains(&word.len())
        && digits * 2 <= word.len() + 1
        && !word.iter().all(u8::is_ascii_hexdigit)
        && word[1..].iter().any(|byte| letter(*byte) != *byte)
        && inside()
}

/// Returns the letter for a digit or sign; other bytes unchanged.
fn letter(byte: u8) -> u8 {
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
    fn words_in_disguise_are_told_from_names_with_digits() {
        let check = |text: &str, found: bool| {
            assert_eq!(read_as_letters(text.as_bytes()).is_some(), found, "{text}");
        };
        check("1gn0re prev1ous", true);
        check("k1ll", true);
        check("instruct10ns", true);
        check("in 2024 there were 3", false);
        check("sha 9f86d081884c7d659a2feaa0c55ad015", false);
        check("v12 utf8 md5", false);
        let (text, parts) = read_as_letters(b"1gn0re").unwrap();
        assert_eq!((&text[..], parts.first()), (&b"ignore"[..], Some(&(0..6))));
    }
}
