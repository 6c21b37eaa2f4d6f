//! Line-terminator encoding in which [`regex`](crate::js_regex) matches multi-line
//! patterns.
//!
//! With `m` JavaScript knows four line terminators, and an edge of a line between CR and LF. The
//! `regex` crate knows one. So each of the four becomes a line feed, a byte that occurs in no text,
//! and a line feed again, in the pattern and in the text alike.

use super::class::Ranges;

/// Line terminators, with the byte that tells each from the others.
const MARKS: [(char, u8); 4] = [('\n', 0xf8), ('\r', 0xf9), ('\u{2028}', 0xfa), ('\u{2029}', 0xfb)];
/// Expression of any character of an encoded text.
pub(crate) const ANY: &str = "(?:[^\\n]|\\n(?-u:[\\xf8-\\xfb])\\n)";

/// Encodes a text.
pub(crate) fn encoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut utf8 = [0; 4];
    for c in text.chars() {
        match MARKS.iter().find(|(end, _)| *end == c) {
            Some((_, mark)) => out.extend([b'\n', *mark, b'\n']),
            None => out.extend(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
    out
}

/// Returns the expressions of those terminators that are in a class, or of those that are not.
pub(crate) fn alternatives(ranges: &Ranges, negated: bool) -> String {
    let has = |c: char| ranges.iter().any(|&(low, high)| (low..=high).contains(&u32::from(c)));
    let marks = MARKS.iter().filter(|(end, _)| has(*end) != negated);
    marks.map(|(_, mark)| format!("|\\n(?-u:\\x{mark:02x})\\n")).collect()
}
