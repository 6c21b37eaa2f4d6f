//! Attributes such as `0.message.tool_calls.1.tool_call.id` put together again.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::value::{Map, Value};

/// Most items of one list; what lies beyond is left out, so that an index cannot ask for memory.
const ITEMS_MAX: usize = 4096;
/// Most parts of one key; a longer key is left out, so that no key can exhaust the stack.
const PARTS_MAX: usize = 64;
/// Items that a list may have before they are indexed.
const SCAN_MAX: usize = 16;

/// Builds the value that keys divided by dots describe; numbers are places in lists. Lists keep
/// the order of their numbers, gaps are closed. Nothing comes of no entries.
pub(super) fn unflatten<'a>(
    entries: impl Iterator<Item = (&'a str, Value<'a>)>,
) -> Option<Value<'a>> {
    let mut root = KeyTreeNode::default();
    for (key, value) in entries {
        root.put(key, value);
    }
    (!root.children.is_empty()).then(|| root.into_value())
}

#[derive(Default)]
struct KeyTreeNode<'a> {
    value: Option<Value<'a>>,
    children: Vec<(&'a str, KeyTreeNode<'a>)>,
    /// Where each child stands, once there are many.
    places: HashMap<&'a str, usize>,
}

impl<'a> KeyTreeNode<'a> {
    fn put(&mut self, key: &'a str, value: Value<'a>) {
        if key.split('.').nth(PARTS_MAX).is_some() {
            return;
        }
        let mut node = self;
        for part in key.split('.') {
            let at = match node.place(part) {
                Some(at) => at,
                None if node.children.len() >= ITEMS_MAX => return,
                None => node.add(part),
            };
            node = &mut node.children[at].1;
        }
        node.value = Some(value);
    }

    fn place(&self, part: &str) -> Option<usize> {
        if self.places.is_empty() {
            // Keys of one parent come one after another, so the last child is nearly always it.
            return self.children.iter().rposition(|(known, _)| *known == part);
        }
        self.places.get(part).copied()
    }

    fn add(&mut self, part: &'a str) -> usize {
        let at = self.children.len();
        self.children.push((part, KeyTreeNode::default()));
        if !self.places.is_empty() {
            self.places.insert(part, at);
        } else if at >= SCAN_MAX {
            self.places = self.children.iter().map(|(part, _)| *part).zip(0..).collect();
        }
        at
    }

    fn into_value(mut self) -> Value<'a> {
        if self.children.is_empty() {
            return self.value.unwrap_or_default();
        }
        let number = |key: &str| key.parse::<u32>().ok();
        if self.children.iter().all(|(key, _)| number(key).is_some()) {
            self.children.sort_by_key(|(key, _)| number(key));
            return Value::List(
                self.children.into_iter().map(|(_, node)| node.into_value()).collect(),
            );
        }
        let entries = self.children.into_iter();
        Value::Map(Map::from_entries(
            entries.map(|(key, node)| (Cow::Borrowed(key), node.into_value())).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_places_in_lists() {
        let entries = [
            ("1.message.role", "assistant"),
            ("0.message.role", "user"),
            ("10.message.role", "tool"),
            ("1.message.tool_calls.0.tool_call.id", "c"),
        ];
        let value = unflatten(entries.into_iter().map(|(key, text)| (key, Value::from(text))));
        assert_eq!(
            value.map(|value| value.to_string()).as_deref(),
            Some(concat!(
                r#"[{"message":{"role":"user"}},"#,
                r#"{"message":{"role":"assistant","tool_calls":[{"tool_call":{"id":"c"}}]}},"#,
                r#"{"message":{"role":"tool"}}]"#
            ))
        );
        assert_eq!(unflatten(std::iter::empty()), None);
    }

    #[test]
    fn keys_that_ask_for_too_much_are_left_out() {
        let long = "0.".repeat(100_000);
        let many: Vec<String> = (0..ITEMS_MAX + 5).map(|number| number.to_string()).collect();
        let keys = std::iter::once(long.as_str()).chain(many.iter().map(String::as_str));
        let made = unflatten(keys.map(|key| (key, Value::from(1))));
        let items = made.as_ref().and_then(Value::as_list).map(<[_]>::len);
        assert_eq!(items, Some(ITEMS_MAX));
        let deepest = |parts: usize| {
            unflatten([(vec!["a"; parts].join(".").as_str(), Value::from(1))].into_iter()).is_some()
        };
        assert_eq!([deepest(PARTS_MAX), deepest(PARTS_MAX + 1)], [true, false]);
    }
}
