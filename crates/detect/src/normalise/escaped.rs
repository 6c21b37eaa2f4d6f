//! Decoding of HTML character references and JSON escapes.
//!
//! In: a text at an `&` or a backslash. Out: the character and its encoded length. Letters, digits,
//! spaces, invisible characters and the two signs of an address are decoded. Syntax characters stay
//! encoded, since quotes and tags would become real ones.

use memchr::memchr2_iter;

/// Longest reference, bytes: `&#1114111;`.
const REFERENCE_MAX: usize = 10;

/// Returns true if any character of a text is written as a reference or escape.
pub(crate) fn occurs(text: &str) -> bool {
    memchr2_iter(b'&', b'\\', text.as_bytes()).any(|at| read(&text[at..]).is_some())
}

/// Returns the character at the start of a text, and its encoded length.
pub(super) fn read(text: &str) -> Option<(char, usize)> {
    let (found, length) = match text.as_bytes() {
        [b'&', ..] => reference(text)?,
        [b'\\', b'u', ..] => json(text)?,
        [b'\\', b'x', ..] => (char::from_u32(hex(text.get(2..4)?)?)?, 4),
        _ => return None,
    };
    let is_plain = found.is_alphanumeric() || matches!(found, ' ' | '@' | '.' | '\u{a0}');
    let is_unseen = matches!(found, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{206f}');
    (is_plain || is_unseen).then_some((found, length))
}

fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(REFERENCE_MAX).position(|byte| byte == b';')?;
    let found = match text.get(1..end)? {
        "nbsp" | "ensp" | "emsp" | "thinsp" => ' ',
        "shy" => '\u{ad}',
        "zwj" | "zwnj" | "ZeroWidthSpace" => '\u{200b}',
        "commat" => '@',
        "period" => '.',
        name => {
            let code = name.strip_prefix('#')?;
            let number = match code.strip_prefix(['x', 'X']) {
                Some(code) => hex(code)?,
                None => code.parse().ok()?,
            };
            char::from_u32(number)?
        }
    };
    Some((found, end + 1))
}

/// Decodes one escape of four digits, or two for one character.
fn json(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| hex(text.get(at + 2..at + 6)?);
    let first = unit(0)?;
    if let Some(found) = char::from_u32(first) {
        return Some((found, 6));
    }
    let second = text.get(6..8).filter(|start| *start == "\\u").and_then(|_| unit(6))?;
    let both = [first as u16, second as u16];
    char::decode_utf16(both).next()?.ok().map(|found| (found, 12))
}

fn hex(digits: &str) -> Option<u32> {
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_and_signs_of_syntax_are_not() {
        let check = |text: &str, found: Option<(char, usize)>| assert_eq!(read(text), found);
        check("&#105;gnore", Some(('i', 6)));
        check("&#x49;", Some(('I', 6)));
        check("&nbsp;all", Some((' ', 6)));
        check("&shy;", Some(('\u{ad}', 5)));
        check("\\u5ffd\\u7565", Some(('忽', 6)));
        check("\\x41", Some(('A', 4)));
        check("\\ud835\\udc1a", Some(('𝐚', 12)));
        for text in ["&lt;b", "&#60;", "&amp;", "& b;", "\\n", "\\u00", "\\u0022", "\\ud835x", "&"]
        {
            check(text, None);
        }
        assert!(occurs("a & b &#97;") && !occurs("a && b \\n &quot;"));
    }
}
