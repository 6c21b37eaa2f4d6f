//! Unflattening: conversion of attributes such as `0.message.tool_calls.1.tool_call.id` to a nested
//! value.

use std::borrow::Cow;

use hashbrown::HashMap;

use spanscore_base::value::{Map, Value};

/// Limit on the items of one list or object, whatever their indices; further ones are dropped.
const ITEMS_MAX: usize = 4096;
/// Limit on the parts of one key, which bounds the stack; a longer key is dropped.
const PARTS_MAX: usize = 64;
/// Limit on linearly searched children of a node; more have an index.
const SCAN_MAX: usize = 16;

/// Builds the value described by dotted keys, with numbers as list indices. Lists keep the order of
/// their numbers without gaps. `None` without entries.
pub(super) fn unflatten<'a>(
    entries: impl Iterator<Item = (&'a str, Value<'a>)>,
) -> Option<Value<'a>> {
    let mut root = KeyTreeNode::default();
    let mut path = KeyPath::default();
    for (key, value) in entries.filter(|(key, _)| is_placed(key)) {
        root.put(key, value, &mut path);
    }
    (!root.children.is_empty()).then(|| root.into_value())
}

/// Returns true if a key is short enough for the value.
#[inline]
pub(super) fn is_placed(key: &str) -> bool {
    let dots = || key.bytes().filter(|byte| *byte == b'.').count();
    key.len() < PARTS_MAX || dots() < PARTS_MAX
}

/// Path to the node of the last key: the next key usually shares its prefix, and is inserted from
/// there.
#[derive(Default)]
struct KeyPath<'a> {
    key: &'a str,
    /// End of each part of the key except the last (after its dot), and the index of its node.
    parts: Vec<(usize, usize)>,
}

#[derive(Default)]
struct KeyTreeNode<'a> {
    value: Option<Value<'a>>,
    children: Vec<(&'a str, KeyTreeNode<'a>)>,
    /// Index of the children, if they are many.
    places: Option<Box<HashMap<&'a str, usize>>>,
}

impl<'a> KeyTreeNode<'a> {
    fn put(&mut self, key: &'a str, value: Value<'a>, path: &mut KeyPath<'a>) {
        // Keys of flattened messages share most parts with their predecessor: only the parts after
        // the common prefix are looked up. Attributes in other orders are merely slower.
        let same = common_length(path.key.as_bytes(), key.as_bytes());
        path.key = key;
        let known = path.parts.iter().take_while(|(end, _)| *end <= same).count();
        path.parts.truncate(known);
        let mut node = self;
        let mut at = 0;
        for &(end, place) in &path.parts {
            node = &mut node.children[place].1;
            at = end;
        }
        loop {
            let rest = &key[at..];
            let dot = rest.bytes().position(|byte| byte == b'.');
            let part = dot.map_or(rest, |dot| &rest[..dot]);
            let place = match node.place(part) {
                Some(place) => place,
                None if node.children.len() >= ITEMS_MAX => return,
                None => node.add(part),
            };
            node = &mut node.children[place].1;
            let Some(dot) = dot else { break };
            at += dot + 1;
            path.parts.push((at, place));
        }
        node.value = Some(value);
    }

    fn place(&self, part: &str) -> Option<usize> {
        match &self.places {
            // Keys of one parent are adjacent, so the last child nearly always matches.
            None => self.children.iter().rposition(|(known, _)| *known == part),
            Some(places) => places.get(part).copied(),
        }
    }

    fn add(&mut self, part: &'a str) -> usize {
        let at = self.children.len();
        self.children.push((part, KeyTreeNode::default()));
        if let Some(places) = &mut self.places {
            places.insert(part, at);
        } else if at >= SCAN_MAX {
            let places = self.children.iter().map(|(part, _)| *part).zip(0..);
            self.places = Some(Box::new(places.collect()));
        }
        at
    }

    fn into_value(mut self) -> Value<'a> {
        if self.children.is_empty() {
            return self.value.unwrap_or_default();
        }
        let number = |key: &str| match key.as_bytes() {
            [b'0'..=b'9' | b'+', ..] => key.parse::<u32>().ok(),
            _ => None,
        };
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

/// Returns the length of the common prefix of two keys, in bytes.
fn common_length(one: &[u8], other: &[u8]) -> usize {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    let same = 8 * words.take_while(|(one, other)| one == other).count();
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_begin_alike_share_the_parts_that_are_alike() {
        let keys = ["a.b", "a.bc", "a.bc.d", "a.b.c", "ab.c", "a.b.d", "a", "a.bc.dd.e"];
        let made = unflatten(keys.into_iter().zip((1..).map(Value::from)));
        let whole = r#"{"a":{"b":{"c":4,"d":6},"bc":{"d":3,"dd":{"e":8}}},"ab":{"c":5}}"#;
        assert_eq!(made.map(|value| value.to_string()).as_deref(), Some(whole));
    }

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
