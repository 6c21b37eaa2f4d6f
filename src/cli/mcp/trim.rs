//! Trimming of values to a size for an assistant.

use serde_json::{Map, Value};

/// Limit on one answer, bytes; doubled if a client also wants it as text.
pub(super) const ANSWER_BYTES_MAX: usize = 48 << 10;
/// Limit on one resource, bytes.
pub(super) const RESOURCE_BYTES_MAX: usize = 1 << 20;
/// Limit on nesting of shown values.
const DEPTH_MAX: usize = 48;
/// Initial limit on elements in a list or map, halved while a value is too large.
const ITEMS_MAX: usize = 200;
/// Smallest limit on texts, bytes.
const TEXT_BYTES_MIN: usize = 32;

/// Returns the size of a value as compact JSON, bytes.
pub(super) fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Trims a value to `bytes_max`: long texts keep their head, long lists and maps their first
/// elements, with a note for the rest.
pub(super) fn fitted(value: &Value, mut text_bytes: usize, bytes_max: usize) -> Value {
    let mut items = ITEMS_MAX;
    loop {
        let cut = trimmed(value, TrimRoom { text_bytes, items }, DEPTH_MAX);
        let is_least = text_bytes <= TEXT_BYTES_MIN && items <= 1;
        if size(&cut) <= bytes_max {
            return cut;
        }
        if is_least {
            return Value::String(format!("[{} bytes left out]", size(value)));
        }
        text_bytes = (text_bytes / 2).max(TEXT_BYTES_MIN);
        items = (items / 2).max(1);
    }
}

/// Limits of one round of trimming.
#[derive(Clone, Copy)]
struct TrimRoom {
    text_bytes: usize,
    items: usize,
}

fn trimmed(value: &Value, room: TrimRoom, depth: usize) -> Value {
    let Some(below) = depth.checked_sub(1) else { return Value::from("[deeper values left out]") };
    match value {
        Value::String(text) => Value::String(head(text, room.text_bytes)),
        Value::Array(items) => {
            let kept = items.iter().take(room.items).map(|item| trimmed(item, room, below));
            let more = items.len().saturating_sub(room.items);
            kept.chain((more > 0).then(|| Value::from(format!("[{more} more]")))).collect()
        }
        Value::Object(map) => {
            let kept = map.iter().take(room.items);
            let mut kept: Map<String, Value> = kept
                .map(|(key, value)| (head(key, room.text_bytes), trimmed(value, room, below)))
                .collect();
            let more = map.len().saturating_sub(room.items);
            if more > 0 {
                kept.insert("[more]".to_owned(), Value::from(more));
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// Cuts a text at a character boundary, with a note of the omitted bytes.
pub(super) fn head(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{}[{} bytes more]", &text[..end], text.len() - end)
}

/// One page of a list, with the index of the next, if any.
pub(super) struct TrimmedPage {
    pub(super) items: Vec<Value>,
    pub(super) next: Option<usize>,
}

/// Takes elements from `start` on within both limits; at least one.
pub(super) fn page<T>(
    items: impl Iterator<Item = T>,
    start: usize,
    (limit, bytes_max): (usize, usize),
    mut show: impl FnMut(T) -> Result<Value, String>,
) -> Result<TrimmedPage, String> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for item in items.skip(start) {
        let shown = if taken.len() < limit { Some(show(item)?) } else { None };
        bytes += shown.as_ref().map_or(0, size);
        match shown.filter(|_| bytes <= bytes_max || taken.is_empty()) {
            Some(value) => taken.push(value),
            None => {
                let next = Some(start + taken.len());
                return Ok(TrimmedPage { items: taken, next });
            }
        }
    }
    Ok(TrimmedPage { items: taken, next: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_is_said_in_its_place() {
        let value = json!({"text": "x".repeat(100), "list": [1, 2, 3]});
        assert_eq!(fitted(&value, 1_000, 1_000), value);
        let cut = fitted(&value, 40, 90);
        assert_eq!(cut["text"], format!("{}[60 bytes more]", "x".repeat(40)));
        assert_eq!(fitted(&json!(vec!["a"; 300]), 10, 10_000)[200], "[100 more]");
    }

    #[test]
    fn pages_end_by_number_and_by_bytes_and_always_go_on() {
        let of = |start, limit, bytes| {
            let page = page(0..5, start, (limit, bytes), |n| Ok(json!(n)));
            page.map(|page| (page.items.len(), page.next))
        };
        assert_eq!(of(0, 2, 100), Ok((2, Some(2))));
        assert_eq!(of(3, 2, 100), Ok((2, None)));
        assert_eq!(of(0, 9, 0), Ok((1, Some(1))));
        assert_eq!(of(9, 9, 100), Ok((0, None)));
    }

    proptest! {
        #[test]
        fn nothing_is_larger_than_its_room(
            texts in proptest::collection::vec("\\PC{0,300}", 0..300),
            depth in 0..60_usize,
            room in 64..4_000_usize,
        ) {
            let mut value = json!(texts);
            for _ in 0..depth {
                value = json!({"in": value});
            }
            prop_assert!(size(&fitted(&value, 2_000, room)) <= room);
        }
    }
}
