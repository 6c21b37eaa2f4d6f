//! Segmentation of a text into sentences, list items and lines.
//!
//! Returns byte ranges. A full stop within a number, after an abbreviation or after a list number
//! ends no sentence. Linear, since the context of a full stop ends at the next space.

use std::ops::Range;
use std::sync::LazyLock;

use spanscore_detect::bytes::{Bytes, any_of, first_eight, places};
use spanscore_detect::letters::is_word_char;

/// Abbreviations with a full stop that ends no sentence.
const ABBREVIATIONS: [&str; 28] = [
    "e.g", "i.e", "dr", "mr", "mrs", "ms", "prof", "st", "vs", "etc", "approx", "no", "fig", "al",
    "inc", "ltd", "jr", "sr", "cf", "z.b", "d.h", "bzw", "ca", "nr", "p.ej", "sra", "sa", "co",
];

/// Returns the units in order, at most `most`; the last one has the remainder of the text.
pub(crate) fn first_units(text: &str, most: usize) -> Vec<Range<u32>> {
    let mut units = units(text);
    let end = units.last().map_or(0, |last| last.end);
    units.truncate(most);
    if let Some(last) = units.last_mut() {
        last.end = end;
    }
    units
}

/// Returns the texts of [`first_units`], trimmed.
pub(crate) fn first_sentences(text: &str, most: usize) -> Vec<String> {
    let units = first_units(text, most).into_iter();
    let texts = units.filter_map(|unit| text.get(unit.start as usize..unit.end as usize));
    texts.map(|text| text.trim().to_owned()).collect()
}

/// Returns the units with a letter or digit, in order.
pub(crate) fn units(text: &str) -> Vec<Range<u32>> {
    let mut units = Vec::new();
    let mut push = |unit: Range<usize>| {
        let part = &text[unit.clone()];
        if part.bytes().any(|b| b.is_ascii_alphanumeric()) || part.contains(is_word_char) {
            units.push(unit.start as u32..unit.end as u32);
        }
    };
    let bytes = text.as_bytes();
    let mut start = 0;
    let mut look_at = |at: usize| {
        let end = match bytes[at] {
            b'\n' => Some(at + 1),
            b'.' | b'!' | b'?' => {
                (ends_plainly(bytes, start, at) || ends_sentence(text, start, at)).then_some(at + 1)
            }
            _ => text[at..]
                .chars()
                .next()
                .filter(|c| matches!(c, '。' | '！' | '？' | '؟' | '۔' | '।'))
                .map(|c| at + c.len_utf8()),
        };
        if let Some(end) = end {
            push(start..end);
            start = end;
        }
    };
    let ends = |bytes: Bytes| any_of(bytes, b".!?\n");
    if text.is_ascii() {
        places(bytes, ends, look_at);
    } else {
        // Also the first bytes of `。！？؟۔।`.
        let starts = |bytes: Bytes| any_of(bytes, &[0xd8, 0xdb, 0xe0, 0xe3, 0xef]);
        places(bytes, |bytes| ends(bytes) | starts(bytes), &mut look_at);
    }
    push(start..text.len());
    units
}

/// Returns true if a space follows the mark at `at`, and a plain word that is no abbreviation
/// precedes it: the usual end, recognized without decoding characters.
fn ends_plainly(text: &[u8], start: usize, at: usize) -> bool {
    static SHORT: LazyLock<[u64; ABBREVIATIONS.len()]> =
        LazyLock::new(|| ABBREVIATIONS.map(|word| first_eight(word.as_bytes(), &(0..word.len()))));
    if text.get(at + 1).is_some_and(|next| !next.is_ascii_whitespace()) {
        return false;
    }
    // Longer than any abbreviation.
    const LONG: usize = 7;
    let before = text[start..at].iter().rev().take(LONG);
    let letters = before.take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = at - letters..at;
    let alone = word.start == start || text[word.start - 1].is_ascii_whitespace();
    text[at] != b'.'
        || letters == LONG
        || (alone && letters > 0 && !SHORT.contains(&first_eight(text, &word)))
}

/// Returns true if the full stop, question or exclamation mark at `at` ends the sentence from
/// `start`.
fn ends_sentence(text: &str, start: usize, at: usize) -> bool {
    let after = text[at + 1..].trim_start_matches(['"', '\'', ')', ']', '”', '’', '*', '_']);
    if !(after.is_empty() || after.starts_with(char::is_whitespace)) {
        return false;
    }
    if text.as_bytes()[at] != b'.' {
        return true;
    }
    // A list number or an abbreviation is no end; only the last word is checked.
    let last = text[start..at].rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = last.trim_start_matches(|c: char| !c.is_alphanumeric());
    let number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let head = number && text[start..at - last.len()].trim().is_empty();
    let short = word.len() <= 6 && ABBREVIATIONS.iter().any(|a| a.eq_ignore_ascii_case(word));
    let rest = after.trim_start_matches(|c: char| c.is_whitespace() && c != '\n');
    let goes_on = !(rest.is_empty() || rest.starts_with('\n'));
    !(head || (short && goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_sentences_items_and_lines() {
        let check = |text: &str, count| assert_eq!(units(text).len(), count, "{text}");
        check("Version 1.2.3 costs $4.99", 1);
        check("e.g. this", 1);
        check("Dr. Smith came. He left.", 2);
        check("パリです。人口は約二百万人です。", 2);
        check("- install\n- restart\n1. check", 3);
        check("Really?! Yes.", 2);
        check("...", 0);
        check("It ends with etc.\nThen more", 2);
        check("\u{3000}etc.\u{3000}more", 1);
        check("", 0);
    }

    #[test]
    fn units_have_their_places() {
        let text = "One. Two?\nThree 。";
        let texts: Vec<&str> = units(text)
            .into_iter()
            .map(|unit| &text[unit.start as usize..unit.end as usize])
            .collect();
        assert_eq!(texts, ["One.", " Two?", "Three 。"]);
    }
}
