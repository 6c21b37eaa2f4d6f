//! Line-terminator encoding for multi-line patterns of [`regex`](crate::js_regex).
//!
//! With `m` JavaScript has four line terminators, and a line edge between CR and LF. The `regex`
//! crate has one terminator. So each of the four becomes a line feed, a byte absent from texts, and
//! another line feed, in pattern and text alike.

use super::class::Ranges;

/// Line terminators, with the byte that identifies each.
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

/// Returns the expressions of the terminators in a class, or of those not in it.
pub(crate) fn alternatives(ranges: &Ranges, negated: bool) -> String {
    let has = |c: char| ranges.iter().any(|&(low, high)| (low..=high).contains(&u32::from(c)));
    let marks = MARKS.iter().filter(|(end, _)| has(*end) != negated);
    marks.map(|(_, mark)| format!("|\\n(?-u:\\x{mark:02x})\\n")).collect()
}
