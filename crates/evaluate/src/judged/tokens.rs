//! Token search in normalized texts (NFKC, lower case), with checks at token boundaries.

use hashbrown::HashSet;
use icu_normalizer::ComposingNormalizerBorrowed;

use spanscore_base::value::{Number, Value};

/// Shortest searched value, characters: shorter ones occur anywhere.
pub(super) const CHARS_MIN: usize = 3;

fn is_between_tokens(c: char) -> bool {
    let is_sign =
        matches!(c, '!'..='"' | '\''..='*' | ',' | ';'..='?' | '[' | ']' | '`' | '{'..='}');
    is_sign || c.is_whitespace()
}

/// Normalizes a text: NFKC, in lower case.
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    ComposingNormalizerBorrowed::new_nfkc().normalize(text).to_lowercase()
}

/// Returns true if a folded text contains a folded value as whole tokens: without an adjacent
/// letter, digit or underscore, and without a character that joins it to one, such as the dot in
/// `peter.lang@example.com`.
pub(super) fn holds(text: &str, value: &str) -> bool {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&text.as_bytes()[from..], value.as_bytes()) {
        let start = from + at;
        let end = start + value.len();
        let before = text[..start].chars().rev();
        if is_edge(before, value.starts_with(is_word))
            && is_edge(text[end..].chars(), value.ends_with(is_word))
        {
            return true;
        }
        from = start + value.chars().next().map_or(1, char::len_utf8);
    }
    false
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns true if a token ends before these characters.
fn is_edge(mut beyond: impl Iterator<Item = char>, ends_in_word: bool) -> bool {
    match beyond.next() {
        None => true,
        // Scripts without spaces have no visible boundaries: any position may be one.
        Some(c) if is_word(c) => !ends_in_word || is_unspaced(c),
        Some('-' | '.' | '@' | '/' | ':' | '+' | '\\' | '%' | '~' | ',' | '#') => {
            !beyond.next().is_some_and(|c| is_word(c) && !is_unspaced(c))
        }
        Some(_) => true,
    }
}

/// Returns true for letters of scripts without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Splits a folded text into tokens, at spaces, quotes, brackets and the like.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(is_between_tokens);
    let parts = parts.map(|part| part.trim_matches(|c| matches!(c, '.' | ':' | '-' | '/')));
    parts.filter(|part| !part.is_empty())
}

/// Returns true for delimiters of numbers.
pub(super) fn is_number_edge(c: char) -> bool {
    c.is_whitespace() || "\"'`()[]{}<>;|!?=*/:".contains(c)
}

/// Collects the numbers of a folded text by value, without thousands separators.
pub(super) fn numbers(text: &str, found: &mut HashSet<NumberKey>) {
    for part in text.split(is_number_edge) {
        let part = part.trim_matches(|c: char| !c.is_alphanumeric() && c != '-');
        let part = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let part = part.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '-');
        if part.is_empty() {
            continue;
        }
        found.extend(key_of_text(part));
        if part.contains(',') {
            found.extend(key_of_text(&part.replace(',', "")));
            part.split(',').for_each(|piece| found.extend(key_of_text(piece.trim())));
        }
    }
}

/// Key shared by equal numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NumberKey(String);

/// Returns the key of a text that is a number; an id with a leading zero is none.
pub(super) fn key_of_text(text: &str) -> Option<NumberKey> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // A leading zero marks an id.
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_id = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if !plain || is_id || !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let number = if text.contains('.') {
        Number::Float(text.parse().ok()?)
    } else {
        Number::from_decimal(text)?
    };
    Some(key_of(&number))
}

/// Returns the key of a number.
pub(super) fn key_of(number: &Number) -> NumberKey {
    let text = number.to_string();
    NumberKey(match number.as_i64() {
        Some(whole) => whole.to_string(),
        None => text,
    })
}

/// Writes a value as lines of text: keys, strings and numbers.
pub(super) fn write_plain(value: &Value<'_>, out: &mut String) {
    match value {
        Value::Null => {}
        Value::List(list) => list.iter().for_each(|item| write_plain(item, out)),
        Value::Map(map) => {
            for (key, item) in map.iter() {
                out.push_str(key);
                out.push('\n');
                write_plain(item, out);
            }
        }
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        scalar => {
            out.push_str(&scalar.to_string());
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_as_whole_tokens() {
        let check = |text: &str, value: &str, expected: bool| {
            assert_eq!(holds(&fold(text), &fold(value)), expected, "{value:?} in {text:?}");
        };
        check("Where is my order A-17?", "A-17", true);
        check("Where is my order A-17?", "a-1", false);
        check("Send to 14 Mill Lane, Thornby.", "14 Mill Lane, Thornby", true);
        check("peter.lang@example.com", "peter", false);
        check("deploy/worker.toml", "worker.toml", false);
        check("see deploy/worker.toml.", "deploy/worker.toml", true);
        check("pod api-9f ok", "api", false);
        check("app api that", "api", true);
        check("渋谷で今夜", "渋谷", true);
        check("ＡＢＣ１２", "abc12", true);
        check("number 47710", "4771", false);
    }

    #[test]
    fn tokens_stand_between_spaces_quotes_and_brackets() {
        let ascii = (0..=127_u8).map(char::from);
        for c in ascii.chain(['\u{85}', '\u{a0}', '\u{3000}', 'é', '—']) {
            let expected = c.is_whitespace() || "\"'`()[]{}<>,;|!?=*".contains(c);
            assert_eq!(is_between_tokens(c), expected, "{c:?}");
        }
        let found: Vec<&str> = tokens("see (a/b.toml), \"k-77\"; ok. -").collect();
        assert_eq!(found, ["see", "a/b.toml", "k-77", "ok"]);
    }

    #[test]
    fn numbers_are_found_by_value() {
        let mut found = HashSet::new();
        numbers("pay 1,234.50 eur (or 40.0), id 007, -7 and 12.", &mut found);
        for (number, expected) in
            [("1234.5", true), ("40", true), ("7", false), ("-7", true), ("12", true), ("1", true)]
        {
            let key = key_of_text(number).unwrap();
            assert_eq!(found.contains(&key), expected, "{number}");
        }
    }
}
