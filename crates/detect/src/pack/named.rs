//! Label before a number: the word for the thing that it belongs to.
//!
//! In: a text and the offset of a number. Out: the word before it: `Build 412-68-9037` is the
//! number of a build. Words that only announce a number are skipped; a person's name is no thing.

use std::ops::Range;

/// Words that only announce a number.
const SAYS_NUMBER: [&str; 8] = ["no", "nr", "num", "number", "nummer", "id", "code", "key"];
/// Bytes before a number that are searched for its label.
const WORD_BYTES: usize = 48;

/// Returns the range of the word before a number, if it may name a thing: one with an announced
/// number, or a title directly before it. Any other word may be a verb, or somebody's name before a
/// colon.
pub(super) fn thing_before(text: &[u8], at: usize) -> Option<Range<usize>> {
    let mut end = at;
    loop {
        let word = word_before(text, end, at)?;
        let found = &text[word.clone()];
        if SAYS_NUMBER.iter().any(|says| found.eq_ignore_ascii_case(says.as_bytes())) {
            end = word.start;
            continue;
        }
        let is_numbered = end != at;
        let is_title = found[0].is_ascii_uppercase() && matches!(&text[word.end..at], b" " | b" #");
        let may_name = (is_numbered || is_title) && !is_name(text, &word, at);
        return may_name.then_some(word);
    }
}

/// Returns the word that ends before an offset, with only name punctuation between.
fn word_before(text: &[u8], end: usize, at: usize) -> Option<Range<usize>> {
    let start = at.saturating_sub(WORD_BYTES);
    let before = text.get(start..end)?;
    let signs = |byte: &u8| matches!(byte, b' ' | b'.' | b':' | b'#' | b'_' | b'-' | b'"' | b'=');
    let gap = before.iter().rev().take_while(|byte| signs(byte)).count();
    let last = end - gap;
    let length =
        text[start..last].iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    (length > 0).then(|| last - length..last)
}

/// Returns true if a word is the last part of a name: capitalised, as is the word before it.
fn is_name(text: &[u8], word: &Range<usize>, at: usize) -> bool {
    let is_capital = |word: &Range<usize>| {
        let word = &text[word.clone()];
        word.len() > 1
            && word[0].is_ascii_uppercase()
            && word[1..].iter().all(u8::is_ascii_lowercase)
    };
    is_capital(word)
        && text.get(word.start.wrapping_sub(1)) == Some(&b' ')
        && word_before(text, word.start, at)
            .is_some_and(|other| other.end + 1 == word.start && is_capital(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, word: Option<&str>) {
        let at = text.find(|c: char| c.is_ascii_digit()).unwrap();
        let found = thing_before(text.as_bytes(), at);
        assert_eq!(found.map(|found| &text[found]), word, "{text}");
    }

    #[test]
    fn the_word_before_a_number_names_it() {
        check("Build 412", Some("Build"));
        check("the part no. 412", Some("part"));
        check("{\"order_id\": \"412", Some("order"));
        check("Serial number: 412", Some("Serial"));
        check("Lot #412", Some("Lot"));
    }

    #[test]
    fn persons_verbs_and_rows_name_no_thing() {
        let names = ["Jane Doe 412", "Jane: 412", "Doe, 412", "she read out 412", "s s n 412"];
        for text in names.into_iter().chain(["412", "номер 412", "number: 412", "x;412"]) {
            check(text, None);
        }
    }
}
