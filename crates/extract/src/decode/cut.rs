//! Detection of truncated results: by a mark at the end, or by JSON or a Python literal that ends
//! in the middle.

/// Bytes at the end of a text searched for a mark.
const MARK_BYTES_MAX: usize = 64;

/// Words of marks in brackets, in lower case.
const WORDS: [&str; 5] = ["truncated", "omitted", "clipped", "trimmed", "cut off"];

/// Placeholders for an omitted result.
const LEFT_OUT: [&str; 4] = ["<omitted>", "<truncated>", "[omitted]", "[truncated]"];

/// Returns true if a text states or shows that its end is missing.
pub(in super::super) fn is_cut(text: &str) -> bool {
    let text = text.trim_end();
    if text.is_empty() {
        return false;
    }
    LEFT_OUT.contains(&text) || ends_with_mark(text) || ends_inside(text)
}

/// Returns true if a text ends with a mark in brackets (`... [truncated, 7000 chars total]`,
/// `… (truncated)`), or with `...N more characters`.
fn ends_with_mark(text: &str) -> bool {
    let from = text.len().saturating_sub(MARK_BYTES_MAX);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let Some(end) = text.get(from..).map(str::to_ascii_lowercase) else { return false };
    let opening = match end.as_bytes().last() {
        Some(b']') => '[',
        Some(b')') => '(',
        Some(b'>') => '<',
        _ => return is_dotted_count(&end),
    };
    let Some((before, mark)) = end.rsplit_once(opening) else { return false };
    let mark = mark.trim_matches(|sign: char| !sign.is_alphanumeric());
    let says = WORDS.iter().any(|word| mark.starts_with(word) || mark.ends_with(word));
    let counts = || is_count_of_rest(mark);
    // The word itself is a sign only after dots, alone, or with a number.
    says && (is_dotted(before) || mark.len() <= "truncated".len() || has_digit(mark))
        || is_dotted(before) && counts()
}

/// Returns true for `N more characters` and the like; `3 items` and `20 USD` count present things.
fn is_count_of_rest(mark: &str) -> bool {
    let mut words = mark.split(|sign: char| !sign.is_alphanumeric()).filter(|it| !it.is_empty());
    let is_size = |word: &str| {
        let unit = word.strip_suffix('s').unwrap_or(word);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        is_number || ["char", "character", "byte", "token"].contains(&unit)
    };
    let has_unit = mark.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_more = words.clone().any(|word| ["more", "remaining", "omitted"].contains(&word));
    has_digit(mark) && has_unit && (is_more || words.all(is_size))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn is_dotted(text: &str) -> bool {
    let text = text.trim_end();
    text.ends_with("...") || text.ends_with('…')
}

/// Returns true for an end such as `... 120 more characters` or `…+3 chars`.
fn is_dotted_count(end: &str) -> bool {
    let dots = end.rfind("...").map(|at| at + 3).or_else(|| end.rfind('…').map(|at| at + 3));
    let rest = dots.and_then(|at| end.get(at..)).map(str::trim).unwrap_or_default();
    let says = WORDS.contains(&rest);
    says || rest.len() < 32 && is_count_of_rest(rest)
}

/// Returns true if a text that starts like a JSON or Python object or list ends inside it.
fn ends_inside(text: &str) -> bool {
    let bytes = text.trim_start().as_bytes();
    let begins_so = match bytes {
        [b'{', rest @ ..] | [b'[', rest @ ..] => match rest.trim_ascii_start() {
            [b'"' | b'\'' | b'{' | b'[', ..] => true,
            // A text in brackets may be anything; numbers in a list are followed by a comma.
            [b'0'..=b'9' | b'-', ..] => bytes.contains(&b','),
            _ => false,
        },
        _ => false,
    };
    begins_so && is_open(bytes)
}

/// Returns true if a bracket or a quoted text is open at the end.
fn is_open(bytes: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut escaped = false;
    for &byte in bytes {
        match (quote, byte) {
            _ if std::mem::take(&mut escaped) => {}
            (Some(_), b'\\') => escaped = true,
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"') => quote = Some(byte),
            (None, b'\'') if bytes.get(1..3).is_some_and(|begin| begin.contains(&b'\'')) => {
                quote = Some(byte);
            }
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => {
                depth = depth.saturating_sub(1);
                // Text after a complete object is independent.
                if depth == 0 {
                    return false;
                }
            }
            _ => {}
        }
    }
    depth > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_cut_off_is_told_from_a_whole_one() {
        let check = |text: &str, expected: bool| assert_eq!(is_cut(text), expected, "{text}");
        for text in [
            r#"{"rows": [1, 2"... [truncated, 512 chars total]"#,
            r#"{"rows": ["x"...[truncated 12 chars]"#,
            r#"{"rows": ["x", "y"..."#,
            r#"[{"n": 1}, {"n"#,
            "{'rows': ['x', 'y'...",
            "[1, 2, 3, 4",
            "<omitted>",
            "[truncated]",
            "Found 3 rows: x, y an… (truncated)",
            "line 1\nline 2\n<truncated 40 lines>",
            "a long story that ends... (1200 more characters)",
            "a long story that ends...[+120 chars]",
            "a long story that ends... 250 more characters",
        ] {
            check(text, true);
        }
        for text in [
            "",
            "Loading...",
            "and so on …",
            r#"{"rows": [1, 2]}"#,
            r#"{"rows": [1]} and more"#,
            "[INFO] started",
            "[1] a reference",
            "{name} is a placeholder",
            "[link](https://example.org)",
            "the log was truncated",
            "rows were dropped (none truncated)",
            "see the list (3 items)",
            "Payment sent... charged 20 USD",
            "Searching... 3 items found",
            "Results... (3 items)",
            "Booked... airline 42",
            "it's {'fine'}",
            "['it\\'s', 'whole']",
        ] {
            check(text, false);
        }
    }
}
