//! Truncation of long values, with markers, that keeps the values used later.
//!
//! A list keeps its first three elements and its last, a text its head and its tail. Both keep
//! elements or lines with a value of a later call or of the answer. A marker has the number of
//! bytes cut.

use hashbrown::HashSet;

use super::record::{LineKind, RecordLine};
use super::tokens::{self, fold};
use spanscore_base::value::{Map, Value};

/// Elements kept at the start of a list.
const HEAD_ELEMENTS: usize = 3;
/// Tenths of a text's bytes for its head.
const HEAD_SHARE: usize = 6;
/// Limit on kept entries of an object, used or not.
const ENTRIES_MAX: usize = 40;
/// Limit on used elements or lines kept of one value.
const USED_MAX: usize = 50;
/// Bytes kept on either side of a used value in a long line.
const AROUND: usize = 120;
/// Fewest bytes of any part.
const PART_MIN: usize = 48;
/// Nesting depth at which values are cut as a whole.
const DEPTH_MAX: usize = 64;

/// Index of the folded values used in calls and answers, which are not cut.
#[derive(Debug, Default)]
pub(super) struct UsedValues {
    tokens: HashSet<String>,
    /// Bit set of token lengths in bytes; lengths from 63 share the last bit.
    lengths: u64,
    phrases: Vec<String>,
}

/// Limit on searched phrases of several words.
const PHRASES_MAX: usize = 200;

impl UsedValues {
    /// Collects the values of all arguments, and tokens of answers that look like values.
    pub(super) fn of<'l>(lines: impl IntoIterator<Item = &'l RecordLine>) -> Self {
        let mut used = Self::default();
        for line in lines {
            match (line.kind, line.content.value()) {
                (LineKind::Call, Some(arguments)) => used.add_leaves(arguments),
                (LineKind::Answer | LineKind::Criterion, Some(Value::String(text))) => {
                    used.add_words(&fold(text));
                }
                _ => {}
            }
        }
        used
    }

    fn add_leaves(&mut self, value: &Value<'_>) {
        match value {
            Value::List(list) => list.iter().for_each(|item| self.add_leaves(item)),
            Value::Map(map) => map.iter().for_each(|(_, item)| self.add_leaves(item)),
            Value::String(text) => {
                let text = fold(text.trim());
                if text.contains(char::is_whitespace) {
                    if text.len() <= 64 && self.phrases.len() < PHRASES_MAX {
                        self.phrases.push(text.clone());
                    }
                    self.add_words(&text);
                } else if text.chars().count() >= tokens::CHARS_MIN {
                    self.add_token(text);
                }
            }
            Value::Number(number) => {
                let text = number.to_string();
                if text.len() >= tokens::CHARS_MIN {
                    self.add_token(text);
                }
            }
            _ => {}
        }
    }

    /// Adds the ids, addresses, paths and numbers of a text, without common words.
    fn add_words(&mut self, text: &str) {
        let is_value = |token: &&str| {
            token.chars().count() >= tokens::CHARS_MIN
                && token.contains(|c: char| c.is_ascii_digit() || "@/_".contains(c))
        };
        tokens::tokens(text).filter(is_value).for_each(|token| self.add_token(token.to_owned()));
    }

    fn add_token(&mut self, token: String) {
        self.lengths |= length_bit(&token);
        self.tokens.insert(token);
    }

    /// Returns true for a used token; its length excludes most tokens before they are hashed.
    fn has(&self, token: &str) -> bool {
        self.lengths & length_bit(token) != 0 && self.tokens.contains(token)
    }

    /// Returns the byte offset of a used value in a text.
    fn find(&self, text: &str) -> Option<usize> {
        let folded = fold(text);
        let token = tokens::tokens(&folded).find(|token| self.has(token));
        let at = match token {
            Some(token) => token.as_ptr() as usize - folded.as_ptr() as usize,
            None => self.phrases.iter().find_map(|phrase| folded.find(phrase.as_str()))?,
        };
        // Folding may shift offsets by a few bytes, which is acceptable here.
        Some(at.min(text.len()))
    }

    /// Returns true if a value contains any of them.
    pub(super) fn is_in(&self, value: &Value<'_>) -> bool {
        match value {
            Value::String(text) => self.find(text).is_some(),
            Value::List(list) => list.iter().any(|item| self.is_in(item)),
            Value::Map(map) => map.iter().any(|(_, item)| self.is_in(item)),
            Value::Number(number) => self.has(&number.to_string()),
            _ => false,
        }
    }
}

fn length_bit(token: &str) -> u64 {
    1 << token.len().min(63)
}

/// Truncates a value to about `bytes_max` bytes of JSON; also returns the bytes cut.
pub(super) fn shorten(
    value: &Value<'static>,
    bytes_max: usize,
    used: &UsedValues,
) -> (Value<'static>, u64) {
    let mut cut = 0;
    let value = shortened(value, bytes_max, used, 0, &mut cut);
    (value, cut)
}

fn shortened(
    value: &Value<'static>,
    room: usize,
    used: &UsedValues,
    depth: usize,
    cut: &mut u64,
) -> Value<'static> {
    let size = json_bytes(value);
    if size <= room {
        return value.clone();
    }
    if depth >= DEPTH_MAX {
        *cut += size as u64;
        return marker(size);
    }
    match value {
        Value::String(text) => Value::from(short_text(text, room, used, cut)),
        Value::List(list) => {
            let last = list.len() - 1;
            let mut left = USED_MAX;
            let keeps: Vec<bool> = list
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    let is_end = at < HEAD_ELEMENTS || at == last;
                    is_end
                        || (left > 0 && used.is_in(item) && {
                            left -= 1;
                            true
                        })
                })
                .collect();
            let kept = keeps.iter().filter(|keep| **keep).count();
            let part = (room / kept.max(1)).max(PART_MIN);
            let mut out = Vec::with_capacity(kept + 2);
            let mut skipped = 0;
            for (item, keep) in list.iter().zip(keeps) {
                if !keep {
                    skipped += json_bytes(item) + 1;
                    continue;
                }
                out.extend(left_out(&mut skipped, cut));
                out.push(shortened(item, part, used, depth + 1, cut));
            }
            Value::List(out)
        }
        Value::Map(map) => short_map(map, room, used, depth, cut),
        scalar => scalar.clone(),
    }
}

fn short_map(
    map: &Map<'static>,
    room: usize,
    used: &UsedValues,
    depth: usize,
    cut: &mut u64,
) -> Value<'static> {
    let part = (room / map.len().clamp(1, ENTRIES_MAX)).max(PART_MIN);
    let mut out = Vec::new();
    let mut skipped = 0;
    let mut left = USED_MAX;
    for (at, (key, item)) in map.iter().enumerate() {
        let is_used = at >= ENTRIES_MAX && left > 0 && used.is_in(item);
        left -= usize::from(is_used);
        if at < ENTRIES_MAX || is_used {
            let key = std::borrow::Cow::Owned(key.to_owned());
            out.push((key, shortened(item, part, used, depth + 1, cut)));
        } else {
            skipped += key.len() + json_bytes(item) + 4;
        }
    }
    if let Some(marker) = left_out(&mut skipped, cut) {
        out.push(("…".into(), marker));
    }
    Value::Map(Map::from_entries(out))
}

/// Returns the marker for the bytes skipped so far, if any.
fn left_out(skipped: &mut usize, cut: &mut u64) -> Option<Value<'static>> {
    let bytes = std::mem::take(skipped);
    *cut += bytes as u64;
    (bytes > 0).then(|| marker(bytes))
}

fn marker(bytes: usize) -> Value<'static> {
    Value::from(marker_text(bytes))
}

fn marker_text(bytes: usize) -> String {
    format!("…[{bytes} bytes cut]…")
}

fn short_text(text: &str, room: usize, used: &UsedValues, cut: &mut u64) -> String {
    let head = floor(text, room * HEAD_SHARE / 10);
    let tail = ceil(text, text.len() - (room - room * HEAD_SHARE / 10).min(text.len() - head));
    let mut out = text[..head].to_owned();
    let mut skipped = 0;
    let mut left = USED_MAX;
    for line in text[head..tail].split_inclusive('\n') {
        let found = if left > 0 { used.find(line) } else { None };
        let Some(at) = found else {
            skipped += line.len();
            continue;
        };
        left -= 1;
        let (from, to) = if line.len() > 4 * AROUND {
            (floor(line, at.saturating_sub(AROUND)), ceil(line, at + AROUND))
        } else {
            (0, line.len())
        };
        skipped += from;
        push_cut(&mut out, &mut skipped, cut);
        out.push_str(&line[from..to]);
        skipped += line.len() - to;
    }
    push_cut(&mut out, &mut skipped, cut);
    out.push_str(&text[tail..]);
    out
}

fn push_cut(out: &mut String, skipped: &mut usize, cut: &mut u64) {
    let bytes = std::mem::take(skipped);
    if bytes > 0 {
        *cut += bytes as u64;
        out.push_str(&marker_text(bytes));
    }
}

fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

fn ceil(text: &str, at: usize) -> usize {
    text.ceil_char_boundary(at.min(text.len()))
}

/// Estimates the bytes of a value as JSON.
pub(super) fn json_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(_) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::List(list) => 2 + list.iter().map(|item| json_bytes(item) + 1).sum::<usize>(),
        Value::Map(map) => {
            2 + map.iter().map(|(key, item)| key.len() + 4 + json_bytes(item)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(values: &[&'static str]) -> UsedValues {
        let mut used = UsedValues::default();
        values.iter().for_each(|value| used.add_leaves(&Value::from(*value)));
        used
    }

    #[test]
    fn a_list_keeps_its_ends_and_what_is_used() {
        let item = |n: usize| Value::from(format!("order A-{n} of the day"));
        let list = Value::List((0..100).map(item).collect());
        let (short, cut) = shorten(&list, 400, &used(&["A-57"]));
        let expected = concat!(
            r#"["order A-0 of the day","order A-1 of the day","order A-2 of the day","#,
            r#""…[1289 bytes cut]…","order A-57 of the day","…[984 bytes cut]…","#,
            r#""order A-99 of the day"]"#,
        );
        assert_eq!((short.to_string().as_str(), cut), (expected, 2273));
    }

    #[test]
    fn a_text_keeps_head_tail_and_lines_that_are_used() {
        let text: String = (0..200).map(|n| format!("pod api-{n:03} ok\n")).collect();
        let (short, cut) = shorten(&Value::from(text.clone()), 100, &used(&["api-120"]));
        let short = short.as_str().unwrap().to_owned();
        assert!(short.starts_with("pod api-000 ok\n") && short.ends_with("pod api-199 ok\n"));
        assert!(short.contains("…pod api-120 ok\n…"), "{short}");
        assert!(short.len() < 300 && cut as usize > text.len() - 200);
    }

    #[test]
    fn a_text_of_one_long_line_keeps_what_stands_around_a_used_value() {
        let text = format!("{}the key k-77 is it{}", "x ".repeat(4000), " y".repeat(4000));
        let (short, _) = shorten(&Value::from(text), 200, &used(&["k-77"]));
        assert!(short.as_str().unwrap().contains("the key k-77 is it"));
        assert!(json_bytes(&short) < 800);
    }
}
