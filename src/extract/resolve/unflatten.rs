//! Attributes such as `0.message.tool_calls.1.tool_call.id` put together again.

use std::borrow::Cow;

use crate::value::{Map, Value};

/// Most items of one list; what lies beyond is left out, so that an index cannot ask for memory.
const ITEMS_MAX: usize = 4096;

/// Builds the value that keys divided by dots describe; numbers are places in lists. Lists keep
/// the order of their numbers, gaps are closed. Nothing comes of no entries.
pub(super) fn unflatten<'a>(
    entries: impl Iterator<Item = (&'a str, Value<'a>)>,
) -> Option<Value<'a>> {
    let mut root = Node::default();
    for (key, value) in entries {
        root.put(key, value);
    }
    (!root.children.is_empty()).then(|| root.into_value())
}

#[derive(Default)]
struct Node<'a> {
    value: Option<Value<'a>>,
    children: Vec<(&'a str, Node<'a>)>,
}

impl<'a> Node<'a> {
    fn put(&mut self, key: &'a str, value: Value<'a>) {
        let mut node = self;
        for part in key.split('.') {
            // Keys of one parent come one after another, so the last child is nearly always it.
            let at = node.children.iter().rposition(|(known, _)| *known == part);
            let at = match at {
                Some(at) => at,
                None if node.children.len() >= ITEMS_MAX => return,
                None => {
                    node.children.push((part, Node::default()));
                    node.children.len() - 1
                }
            };
            node = &mut node.children[at].1;
        }
        node.value = Some(value);
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
}
