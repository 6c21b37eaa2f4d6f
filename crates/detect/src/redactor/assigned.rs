//! Secrets by name in flat texts: `password=...`, `"apiKey": "..."` in JSON that is cut off or
//! inside strings, headers, command options, XML elements, connection strings.
//!
//! In: a text. Out: the byte ranges of values. One pass over assignment signs; the key is parsed
//! backwards from each, the value forwards, both within limits.

use std::ops::Range;

use super::bare_words::{BareWords, VALUE_BYTES_MAX};
use super::keys::{UnderKey, looks_password};

/// Longest key, bytes.
const KEY_BYTES_MAX: usize = 64;
/// Limit on spaces around a sign.
const SPACES_MAX: usize = 16;
/// Limit on backslashes before a quote: JSON within JSON doubles them.
const SLASHES_MAX: usize = 16;

/// Key before a sign, with its closing quote and backslashes.
struct AssignedKey<'t> {
    class: UnderKey,
    quote: &'t str,
    start: usize,
}

/// Returns the ranges of secrets, in order and without overlaps.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut words = BareWords::of(text);
    let mut from = 0;
    for sign in memchr::memchr3_iter(b':', b'=', b'>', text.as_bytes()) {
        if sign < from {
            continue;
        }
        let key = key_before(text, sign);
        if key.class == UnderKey::Plain {
            continue;
        }
        let before = found.len();
        values_behind(text, sign, (&key, &mut words), &mut found);
        if found.len() > before {
            from = found.last().map_or(from, |last| last.end);
        }
    }
    options(text, &mut BareWords::of(text), &mut found);
    found.sort_by_key(|value| (value.start, value.end));
    found.dedup_by(|value, before| {
        let overlaps = value.start < before.end;
        if overlaps {
            before.end = before.end.max(value.end);
        }
        overlaps
    });
    found
}

/// Adds values of options: `--password hunter2`.
fn options(text: &str, words: &mut BareWords<'_>, found: &mut Vec<Range<usize>>) {
    for at in memchr::memmem::find_iter(text.as_bytes(), b"--") {
        let rest = &text.as_bytes()[at + 2..];
        let length = rest.iter().take(KEY_BYTES_MAX).take_while(|&&b| is_key_byte(b)).count();
        let start = at + 2 + length;
        if text.as_bytes().get(start) != Some(&b' ') {
            continue;
        }
        let class = UnderKey::of(text.get(at + 2..start).unwrap_or_default());
        if class == UnderKey::Plain {
            continue;
        }
        let value = match opening_quote(text, start + 1) {
            Some(quote) => closed(text, start + 1 + quote.len(), quote),
            None => words.at(start + 1),
        };
        let shown = &text[value.clone()];
        if class.holds(shown) && !shown.starts_with('-') {
            found.push(value);
        }
    }
}

/// Parses the key before a sign.
fn key_before(text: &str, sign: usize) -> AssignedKey<'_> {
    let bytes = text.as_bytes();
    let back = |end: usize, most: usize, is: fn(u8) -> bool| {
        end - bytes[..end].iter().rev().take(most).take_while(|&&b| is(b)).count()
    };
    let mut end = back(sign, SPACES_MAX, |b| matches!(b, b' ' | b'\t'));
    end = back(end, 1, |b| b == b']');
    let unquoted = back(end, 1, |b| matches!(b, b'"' | b'\'' | b'`'));
    let slashes = if unquoted < end { back(unquoted, SLASHES_MAX, |b| b == b'\\') } else { end };
    let quote = &text[slashes..end];
    let mut start = back(slashes, KEY_BYTES_MAX, is_key_byte);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    if bytes[sign] == b'>' && start.checked_sub(1).map(|at| bytes[at]) != Some(b'<') {
        // The sign of an arrow follows another one.
        return AssignedKey { class: UnderKey::Plain, quote, start };
    }
    let mut class = UnderKey::of(&text[start..slashes]);
    // Two words: `API key`, `client secret`.
    if class != UnderKey::Secret && start > 1 && bytes[start - 1] == b' ' {
        let first = back(start - 1, KEY_BYTES_MAX, |b| b.is_ascii_alphabetic());
        let both = UnderKey::of(&text[first..slashes]);
        if first < start - 1 && both.is_certain() {
            class = both;
        }
    }
    AssignedKey { class, quote, start }
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || matches!(byte, b'_' | b'-' | b'.')
}

/// Adds the value after a sign, or all values of a list.
fn values_behind(
    text: &str,
    sign: usize,
    (key, words): (&AssignedKey<'_>, &mut BareWords<'_>),
    found: &mut Vec<Range<usize>>,
) {
    let bytes = text.as_bytes();
    let mut at = sign + 1;
    at += bytes[at..].iter().take(2).take_while(|&&b| matches!(b, b'=' | b'>')).count();
    let spaces = bytes[at..].iter().take(SPACES_MAX);
    let is_space = |b: &&u8| matches!(**b, b' ' | b'\t') || (!key.quote.is_empty() && **b == b'\n');
    let gap = spaces.take_while(is_space).count();
    at += gap;
    if bytes.get(at) == Some(&b'[') && !key.quote.is_empty() {
        listed(text, at + 1, key.class, found);
        return;
    }
    if matches!(bytes.get(at), Some(b'b' | b'f' | b'r' | b'u'))
        && opening_quote(text, at + 1).is_some()
    {
        at += 1;
    }
    if let Some(quote) = opening_quote(text, at) {
        let value = closed(text, at + quote.len(), quote);
        if key.class.holds(&text[value.clone()]) {
            found.push(value);
        }
        return;
    }
    if bytes[sign] == b'>' {
        let value = element(text, at);
        if key.class.holds(&text[value.clone()]) {
            found.push(value);
        }
        return;
    }
    let value = words.with_scheme(at);
    let shown = &text[value.clone()];
    if shown.is_empty() {
        return;
    }
    let is_number = shown.bytes().all(|b| b.is_ascii_digit());
    let is_named = bytes[sign] == b'=' && gap == 0 && is_ended(text, key, value.end);
    let is_secret = if words.are_crowded() {
        true
    } else if is_number && !key.quote.is_empty() {
        key.class.holds_number(shown)
    } else {
        key.class.holds(shown) && (is_named || looks_password(shown))
    };
    if is_secret {
        found.push(value);
    } else {
        words.count_vain_key();
    }
}

/// Returns true if a value after `=` ends like that of a setting, not like code.
fn is_ended(text: &str, key: &AssignedKey<'_>, end: usize) -> bool {
    let bytes = text.as_bytes();
    let before = key.start.checked_sub(1).map(|at| bytes[at]);
    let is_argument = matches!(before, Some(b'('))
        || matches!(bytes.get(end), Some(b')' | b',' | b'(' | b'[' | b']'));
    !is_argument
}

/// Adds the quoted texts of a list.
fn listed(text: &str, mut at: usize, class: UnderKey, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    loop {
        at += bytes[at..]
            .iter()
            .take(SPACES_MAX)
            .take_while(|b| matches!(b, b' ' | b'\n' | b','))
            .count();
        let Some(quote) = opening_quote(text, at) else { return };
        let value = closed(text, at + quote.len(), quote);
        at = (value.end + quote.len()).min(text.len());
        if class.holds(&text[value.clone()]) {
            found.push(value);
        }
    }
}

/// Returns the opening quote here, with its backslashes.
fn opening_quote(text: &str, at: usize) -> Option<&str> {
    let bytes = text.as_bytes().get(at..)?;
    let slashes = bytes.iter().take(SLASHES_MAX).take_while(|&&b| b == b'\\').count();
    matches!(bytes.get(slashes), Some(b'"' | b'\'' | b'`')).then(|| &text[at..at + slashes + 1])
}

/// Returns the text up to the closing quote, which has as many backslashes; without one, up to the
/// end of the text.
fn closed(text: &str, start: usize, quote: &str) -> Range<usize> {
    let bytes = text.as_bytes();
    let most = text.floor_char_boundary((start + VALUE_BYTES_MAX).min(text.len()));
    let slashes = quote.len() - 1;
    let mark = quote.as_bytes()[slashes];
    for at in memchr::memchr_iter(mark, &bytes[start..most]).map(|at| start + at) {
        let before = bytes[start..at].iter().rev().take_while(|&&b| b == b'\\').count();
        // More backslashes belong to a quote within the text; pairs of them, to a backslash before
        // it.
        let is_close = if slashes == 0 { before % 2 == 0 } else { before == slashes };
        if is_close {
            return start..at - slashes;
        }
    }
    start..most
}

/// Returns the value of an XML element, up to the next tag.
fn element(text: &str, start: usize) -> Range<usize> {
    let most = (start + VALUE_BYTES_MAX).min(text.len());
    match memchr::memchr(b'<', &text.as_bytes()[start..most]) {
        Some(length) => start..start + length,
        None => start..start,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bare_words::VAIN_KEYS_MAX;
    use super::*;

    #[track_caller]
    fn check(text: &str, values: &[&str]) {
        let found: Vec<_> = secrets(text).into_iter().map(|value| &text[value]).collect();
        assert_eq!(found, values, "{text}");
    }

    #[test]
    fn values_end_where_their_forms_end() {
        check(r#"{"password": "a b\"c", "n": 1"#, &[r#"a b\"c"#]);
        check(r#"{\"password\": \"a b\", \"n\""#, &["a b"]);
        check("PASSWORD=abc def", &["abc"]);
        check("?api_key=abc&n=1", &["abc"]);
        check("<apiKey>a b</apiKey>", &["a b"]);
        check(r#""passwords": ["one", "two"], "n": ["x"]"#, &["one", "two"]);
        check("--token abc123 --password=one -p x", &["abc123", "one"]);
        check("headers['x-api-key'] = 'abc'", &["abc"]);
        check(r#"{"api_key": "cut of"#, &["cut of"]);
        check("Authorization: Basic YWJjOmRlZg==; n", &["Basic YWJjOmRlZg=="]);
    }

    #[test]
    fn word_of_many_keys_hides_its_end() {
        let crowd = "pin:".repeat(VAIN_KEYS_MAX);
        check(&format!("{crowd}pin:x, pin:x"), &["x"]);
        check(&"<key>Name</key> key: A4 ".repeat(VAIN_KEYS_MAX * 2), &[]);
    }

    #[test]
    fn prose_and_code_have_no_values() {
        check("password: please ask", &[]);
        check("login(password=password, token=token)", &[]);
        check("key: A4, max_tokens=1024, password_policy=\"long\"", &[]);
        check("if password == other:", &[]);
    }
}
