//! Incidental numbers of a text: statuses, counts, pages and years.
//!
//! `{"http_status": 200}` is no source of `refund(amount: 200)`. An incidental number is recognized
//! by the preceding word, usually its key (`page_count`, `statusCode`), by the following word
//! (`200 results`), or as a year in prose.

use hashbrown::HashSet;

use crate::judged::tokens::{self, NumberKey, fold};

/// Parts of a word that make the following number incidental.
const BEFORE: [&str; 9] =
    ["status", "http", "count", "counts", "page", "pages", "year", "years", "offset"];
/// Parts next to `code` that make it one of a protocol or program.
const OF_CODES: [&str; 6] = ["error", "exit", "return", "response", "http", "status"];
/// Parts before a counted noun, as in `total_results`.
const OF_COUNTS: [&str; 3] = ["total", "num", "number"];
/// Words that follow a count.
const COUNTED: [&str; 10] =
    ["results", "items", "rows", "records", "entries", "matches", "hits", "pages", "lines", "ok"];
const YEARS: std::ops::RangeInclusive<u32> = 1_900..=2_099;

/// Word between delimiters, and true at the end of its line.
#[derive(Clone, Copy, Default)]
struct PlacedWord<'t> {
    word: &'t str,
    ends_line: bool,
}

/// Collects the numbers of a plain text by value, without incidental ones.
pub(super) fn telling_numbers(plain: &str, found: &mut HashSet<NumberKey>) {
    let words = plain.split_inclusive(tokens::is_number_edge).filter_map(|piece| {
        let word = piece.trim_end_matches(tokens::is_number_edge);
        let ends_line = piece.ends_with('\n');
        (!word.is_empty()).then_some(PlacedWord { word, ends_line })
    });
    let mut words = words.peekable();
    let mut earlier = PlacedWord::default();
    let mut before = PlacedWord::default();
    while let Some(placed) = words.next() {
        if placed.word.contains(char::is_numeric) {
            let next = words.peek().filter(|_| !placed.ends_line).map_or("", |next| next.word);
            if !is_incidental((earlier, before), placed.word, next) {
                tokens::numbers(&fold(placed.word), found);
            }
        }
        (earlier, before) = (before, placed);
    }
}

fn is_incidental(
    (earlier, before): (PlacedWord<'_>, PlacedWord<'_>),
    word: &str,
    next: &str,
) -> bool {
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_counted = || {
        let next = next.trim_matches(|c: char| !c.is_alphanumeric());
        COUNTED.iter().any(|counted| next.eq_ignore_ascii_case(counted))
    };
    // `page 3 of 200`, `HTTP/1.1 200`.
    let is_of_pair = is_number(before.word) && earlier.word.eq_ignore_ascii_case("http")
        || before.word.eq_ignore_ascii_case("of") && is_number(earlier.word);
    // After the end of a line comes the value of a key, which would itself name a year.
    let is_year = || !before.ends_line && is_year(word);
    is_named(before.word) || is_of_pair || is_counted() || is_year()
}

fn is_year(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.len() == 4 && word.parse().is_ok_and(|year| YEARS.contains(&year))
}

/// Returns true if a word names a status, count, page or year.
fn is_named(word: &str) -> bool {
    let parts = parts(word);
    let has = |names: &[&str]| parts.iter().any(|part| names.contains(&part.as_str()));
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let is_code = last == "code" && (parts.len() == 1 || has(&OF_CODES));
    let is_total = OF_COUNTS.contains(&first.as_str()) && COUNTED.contains(&last.as_str());
    has(&BEFORE) || is_code || is_total
}

/// Splits a name into lower-case parts at `_`, `-` and the like, and between a small letter and a
/// capital.
fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in word.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_alphanumeric()) {
            part.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(json: &str, tells: &[&str], silent: &[&str]) {
        let mut plain = String::new();
        tokens::write_plain(&json::parse(json).unwrap(), &mut plain);
        let mut found = HashSet::new();
        telling_numbers(&plain, &mut found);
        for (numbers, expected) in [(tells, true), (silent, false)] {
            for number in numbers {
                let key = tokens::key_of_text(number).unwrap();
                assert_eq!(found.contains(&key), expected, "{number} in {json}");
            }
        }
    }

    #[test]
    fn statuses_counts_pages_and_years_tell_nothing() {
        check(r#"{"http_status":200,"total":140}"#, &["140"], &["200"]);
        check(r#"{"statusCode":404,"exit_code":137,"code":500}"#, &[], &["404", "137", "500"]);
        check(r#"{"itemCount":250,"total_pages":300,"page":120}"#, &[], &["250", "300", "120"]);
        check(r#"{"total_results":812,"num_items":911,"year":2031}"#, &[], &["812", "911", "2031"]);
        check(r#""HTTP/1.1 200 OK, 350 results, page 3 of 120""#, &[], &["200", "350", "120"]);
        check(r#""It was built in 1998, and status 503 since.""#, &[], &["1998", "503"]);
        check(r#""{\"status\": 200, \"balance\": 75.5}""#, &["75.5"], &["200"]);
    }

    #[test]
    fn numbers_with_a_meaning_of_their_own_tell() {
        check(
            r#"{"account":7781,"discount":150,"zip_code":12345}"#,
            &["7781", "150", "12345"],
            &[],
        );
        check(r#"{"order_id":2041,"ids":[300,400]}"#, &["2041", "300", "400"], &[]);
        check(r#"{"price":200,"items":[]}"#, &["200"], &[]);
        check(r#""Pay 1,234.50 EUR of 2,000 to 4771.""#, &["1234.5", "2000", "4771"], &[]);
        check(r#""a refund of 200 EUR""#, &["200"], &[]);
    }
}
