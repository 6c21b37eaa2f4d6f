//! The fields at the top of a JSON object, found without building the object.
//!
//! Results are long and errors rare, so this walks over the text once and allocates nothing. Only
//! the first value of the text is read; what follows is not looked at. Strict as RFC 8259, and with
//! the limits of the reader that Dokimos uses: [`DEPTH_MAX`] levels, numbers of
//! [`NUMBER_BYTES_MAX`] characters.

use crate::value::json;

/// Deepest nesting; deeper text is not JSON.
const DEPTH_MAX: usize = 1000;

/// Longest number; a text with a longer one is not JSON.
const NUMBER_BYTES_MAX: usize = 1000;

/// Calls `field` with each key and the text of its value, in order; `None` where the text does not
/// begin with a JSON object. Fields before a mistake were told.
pub(super) fn walk(text: &str, mut field: impl FnMut(&str, &str)) -> Option<()> {
    let mut walk = Walk { text, bytes: text.as_bytes(), at: 0 };
    walk.white_space();
    walk.expect(b'{')?;
    walk.white_space();
    if walk.take(b'}') {
        return Some(());
    }
    loop {
        let key = walk.key()?;
        walk.white_space();
        let start = walk.at;
        walk.value()?;
        let value = &text[start..walk.at];
        match key.contains('\\') {
            // The quotes stand around the key.
            true => field(json::parse(&text[key_span(text, key)]).ok()?.as_str()?, value),
            false => field(key, value),
        }
        walk.white_space();
        if walk.take(b'}') {
            return Some(());
        }
        walk.expect(b',')?;
        walk.white_space();
    }
}

/// Where a key stands in the text, with its quotes.
fn key_span(text: &str, key: &str) -> std::ops::Range<usize> {
    let start = key.as_ptr() as usize - text.as_ptr() as usize;
    start - 1..start + key.len() + 1
}

struct Walk<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// Which brackets are open, one bit each: set for an object.
struct Open {
    bits: [u64; DEPTH_MAX.div_ceil(64)],
    depth: usize,
}

impl Open {
    fn push(&mut self, object: bool) -> Option<()> {
        // The outermost object is not among these.
        if self.depth + 1 >= DEPTH_MAX {
            return None;
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if object {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
        self.depth += 1;
        Some(())
    }

    fn in_object(&self) -> bool {
        let last = self.depth.saturating_sub(1);
        self.bits[last / 64] & (1 << (last % 64)) != 0
    }
}

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.take(byte).then_some(())
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// A key and its colon; gives the text between the quotes.
    fn key(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        self.string_rest()?;
        let key = &self.text[start..self.at - 1];
        self.white_space();
        self.expect(b':')?;
        Some(key)
    }

    /// One value with all that is in it.
    fn value(&mut self) -> Option<()> {
        let mut open = Open { bits: [0; DEPTH_MAX.div_ceil(64)], depth: 0 };
        loop {
            self.white_space();
            let opened = self.begin(&mut open)?;
            if opened {
                continue;
            }
            loop {
                if open.depth == 0 {
                    return Some(());
                }
                self.white_space();
                let object = open.in_object();
                if self.take(if object { b'}' } else { b']' }) {
                    open.depth -= 1;
                    continue;
                }
                self.expect(b',')?;
                if object {
                    self.white_space();
                    self.key()?;
                }
                break;
            }
        }
    }

    /// Takes a scalar or an empty bracket whole, or opens a bracket and says so.
    fn begin(&mut self, open: &mut Open) -> Option<bool> {
        let first = self.peek()?;
        self.at += 1;
        match first {
            b'{' | b'[' => {
                open.push(first == b'{')?;
                self.white_space();
                if self.take(if first == b'{' { b'}' } else { b']' }) {
                    open.depth -= 1;
                    return Some(false);
                }
                if first == b'{' {
                    self.key()?;
                }
                return Some(true);
            }
            b'"' => self.string_rest()?,
            b't' => self.word("rue")?,
            b'f' => self.word("alse")?,
            b'n' => self.word("ull")?,
            b'-' | b'0'..=b'9' => {
                self.at -= 1;
                self.number()?;
            }
            _ => return None,
        }
        Some(false)
    }

    fn word(&mut self, rest: &str) -> Option<()> {
        let found = self.bytes[self.at..].starts_with(rest.as_bytes());
        self.at += rest.len();
        found.then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        (self.at - start <= NUMBER_BYTES_MAX).then_some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// What follows the first quote of a string, with the last one.
    fn string_rest(&mut self) -> Option<()> {
        loop {
            let rest = &self.bytes[self.at..];
            let stop = rest.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20)?;
            self.at += stop + 1;
            match rest[stop] {
                b'"' => return Some(()),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        let kind = self.peek()?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.bytes.get(self.at..self.at + 4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Value;
    use crate::value::json::hard_texts;

    fn fields(text: &str) -> Option<Vec<(String, String)>> {
        let mut found = Vec::new();
        walk(text, |key, value| found.push((key.to_owned(), value.to_owned())))?;
        Some(found)
    }

    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let expected: Option<Vec<_>> = expected
            .map(|all| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
        assert_eq!(fields(text), expected, "{text}");
    }

    #[test]
    fn fields_at_the_top_are_found() {
        check(" { } x", Some(&[]));
        check(
            r#"{"a" : [1, {"b": 2}], "b":null}}"#,
            Some(&[("a", r#"[1, {"b": 2}]"#), ("b", "null")]),
        );
        check(r#"{"\u0065rror": 1}"#, Some(&[("error", "1")]));
        check(r#"{"a": 01}"#, None);
        check(r#"{"a": 1,}"#, None);
        check(r#"{'a': 1}"#, None);
        check("[1]", None);
        check("{\"a\": \"\u{1}\"}", None);
    }

    #[test]
    fn hard_texts_read_as_ever() {
        let read = |text: &str| {
            let mut told = Vec::new();
            let end = walk(text, |key, value| told.push((key.to_owned(), value.to_owned())));
            format!("{end:?} {told:?}")
        };
        insta::assert_snapshot!(hard_texts::table(read));
    }

    #[test]
    fn depth_and_numbers_are_limited() {
        let nested =
            |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(fields(&nested(DEPTH_MAX)).is_some());
        assert!(fields(&nested(DEPTH_MAX + 1)).is_none());
        let number = |bytes: usize| format!("{{\"a\":{}}}", "1".repeat(bytes));
        assert!(fields(&number(NUMBER_BYTES_MAX)).is_some());
        assert!(fields(&number(NUMBER_BYTES_MAX + 1)).is_none());
    }

    proptest! {
        #[test]
        fn reads_what_the_json_reader_reads(text in r#"\{[ {}\[\]"ab\\un0123.eE:,+-]{0,24}"#) {
            let object = match json::parse_prefix(&text) {
                Ok((Value::Map(map), _)) => Some(map),
                _ => None,
            };
            prop_assert_eq!(fields(&text).is_some(), object.is_some());
        }
    }
}
