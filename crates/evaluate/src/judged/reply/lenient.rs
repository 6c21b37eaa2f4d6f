//! Lenient JSON (either kind of quotes, comments, unquoted keys, trailing commas), rewritten as
//! strict JSON.

/// Rewrites the first value of a lenient text as strict JSON; other errors stay.
pub(in crate::judged) fn strict(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    // Open brackets; the last two characters outside of strings and white space.
    let mut open: Vec<char> = Vec::new();
    let mut last = ' ';
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let in_key = open.last() == Some(&'{') && matches!(last, '{' | ',');
        let taken = match c {
            '/' => comment(rest)?,
            '"' | '\'' => string(rest, c, &mut out)?,
            _ if c.is_ascii_whitespace() => {
                out.push(' ');
                1
            }
            '}' | ']' => {
                if last == ',' && !matches!(before, ',' | '{' | '[') {
                    out.truncate(out.rfind(',')?);
                }
                out.push(c);
                open.pop();
                if open.is_empty() {
                    return Some(out);
                }
                1
            }
            _ if in_key && is_bare(c) => {
                let end = rest.find(|c: char| !is_bare(c)).unwrap_or(rest.len());
                out.push('"');
                out.push_str(&rest[..end]);
                out.push('"');
                end
            }
            _ => {
                if matches!(c, '{' | '[') {
                    open.push(c);
                }
                out.push(c);
                c.len_utf8()
            }
        };
        if !c.is_ascii_whitespace() && c != '/' {
            (before, last) = (last, c);
        }
        rest = &rest[taken..];
    }
    None
}

/// Returns true for characters of unquoted keys.
fn is_bare(c: char) -> bool {
    c.is_alphanumeric() || "_$@#*-+".contains(c)
}

/// Returns the length of a comment at the start of the text.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inner = text.strip_prefix("/*")?;
    inner.find("*/").map(|end| end + 4)
}

/// Rewrites a string in either kind of quotes as a strict one; returns its length.
fn string(text: &str, quote: char, out: &mut String) -> Option<usize> {
    out.push('"');
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => {
                out.push('"');
                return Some(at + 1);
            }
            '"' => out.push_str("\\\""),
            '\\' => match chars.next()?.1 {
                '\'' => out.push('\''),
                escaped => out.extend(['\\', escaped]),
            },
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", c as u32)),
            _ => out.push(c),
        }
    }
    None
}
