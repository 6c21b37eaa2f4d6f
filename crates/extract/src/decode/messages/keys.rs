//! Bit set of the known members of an object in a message.
//!
//! The reader of messages checks dozens of members on objects with few: each key is matched once,
//! and only present members are looked up.

use super::author::{author, part_text};
use super::{DEPTH_MAX, api, is_bracketed, repr};
use spanscore_base::value::{Map, Value};

/// Defines [`ENVELOPES`] and [`place`] from one list, so that both agree.
macro_rules! envelopes {
    ($($word:literal $place:literal,)*) => {
        /// Keys of messages or their parts, in reading order: a message's text before its calls.
        pub(super) const ENVELOPES: [&str; 30] = [$(text($word)),*];

        /// Returns the index of a key in [`ENVELOPES`].
        fn place(key: &str) -> Option<u32> {
            match key.as_bytes() {
                $($word => Some($place),)*
                _ => None,
            }
        }
    };
}

const fn text(key: &[u8]) -> &str {
    match std::str::from_utf8(key) {
        Ok(key) => key,
        Err(_) => "",
    }
}

// Go prints struct fields with a capital; `delta` belongs to a stream.
envelopes! {
    b"messages" 0, b"Messages" 1, b"message" 2, b"message_content" 3, b"replies" 4,
    b"tool_messages" 5, b"tool_results" 6, b"chat_history" 7, b"candidates" 8, b"choices" 9,
    b"generations" 10, b"data" 11, b"kwargs" 12, b"request" 13, b"response" 14,
    b"responseParts" 15, b"output" 16, b"input" 17, b"blocks" 18, b"contents" 19, b"content" 20,
    b"_content" 21, b"parts" 22, b"text" 23, b"tool_calls" 24, b"toolCalls" 25,
    b"function_call" 26, b"update" 27, b"result" 28, b"delta" 29,
}

/// Keys of the history of rounds (calls and results) run by a client library.
pub(super) const ROUNDS: [&str; 2] =
    ["automatic_function_calling_history", "automaticFunctionCallingHistory"];

/// Set of known members, one bit each: [`ENVELOPES`] by index, then the others.
#[derive(Clone, Copy)]
pub(super) struct Members(u32);

impl Members {
    /// Bit of the members for a message's author or a part's kind.
    const ABOUT: u32 = 1 << 30;
    /// Bit of the rounds run by a client library.
    const ROUNDS: u32 = 1 << 31;
    const ENVELOPES: u32 = (1 << ENVELOPES.len()) - 1;

    /// Returns the set of an object's known members.
    pub(super) fn of(map: &Map<'_>) -> Self {
        Self(map.iter().fold(0, |all, (key, _)| all | bit(key)))
    }

    /// Returns true if a member may state the message's author or the part's kind.
    pub(super) fn say_author(self) -> bool {
        self.0 & Self::ABOUT != 0
    }

    /// Returns true if there are rounds run by a client library.
    pub(super) fn have_rounds(self) -> bool {
        self.0 & Self::ROUNDS != 0
    }

    /// Returns the envelopes in reading order.
    pub(super) fn envelopes(self) -> impl Iterator<Item = &'static str> {
        let mut rest = self.0 & Self::ENVELOPES;
        std::iter::from_fn(move || {
            let envelope = ENVELOPES.get(rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(*envelope)
        })
    }
}

/// Predicts if the reader finds a call, a result or an author in a value; `None` if only reading
/// decides. A cheap test that avoids copying and reading values without messages.
pub(super) fn holds_messages(value: &Value<'_>, depth: usize) -> Option<bool> {
    // The reader stops at this depth too.
    if depth > DEPTH_MAX {
        return Some(false);
    }
    let map = match value {
        Value::List(items) => return any(items.iter(), depth),
        Value::String(text) => {
            return if is_bracketed(text) || repr::may_print_fields(text) {
                None
            } else {
                Some(false)
            };
        }
        Value::Map(map) => map,
        _ => return Some(false),
    };
    let members = Members::of(map);
    if members.say_author() && author(map).is_some() {
        return Some(true);
    }
    if api::may_be_marked(map) || members.have_rounds() {
        return None;
    }
    if members.say_author()
        && let Some(text) = part_text(map)
    {
        return if repr::may_print_fields(text) { None } else { Some(false) };
    }
    any(members.envelopes().filter_map(|key| map.get(key)), depth)
}

fn any<'v>(values: impl Iterator<Item = &'v Value<'v>>, depth: usize) -> Option<bool> {
    let mut found = Some(false);
    for value in values {
        match holds_messages(value, depth + 1) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => found = None,
        }
    }
    found
}

/// Returns the bit of a member; 0 for an unknown key.
fn bit(key: &str) -> u32 {
    if matches!(key.as_bytes(), b"role" | b"_role" | b"type" | b"lc" | b"part_kind" | b"block_type")
    {
        return Members::ABOUT;
    }
    if ROUNDS.contains(&key) {
        return Members::ROUNDS;
    }
    place(key).map_or(0, |place| 1 << place)
}

#[cfg(test)]
mod tests {
    use super::super::Messages;
    use super::*;
    use spanscore_base::value::json;

    #[test]
    fn each_envelope_has_the_bit_of_its_place() {
        for (place, key) in ENVELOPES.iter().enumerate() {
            assert_eq!(bit(key), 1 << place, "{key}");
        }
        let keys = ["result", "x", "messages", "role"];
        let map: Map<'_> = keys.into_iter().map(|key| (key, Value::Null)).collect();
        let members = Members::of(&map);
        assert_eq!(members.envelopes().collect::<Vec<_>>(), ["messages", "result"]);
        assert!(members.say_author() && !members.have_rounds());
        let map: Map<'_> = ROUNDS.into_iter().map(|key| (key, Value::Null)).collect();
        assert!(Members::of(&map).have_rounds());
    }

    #[test]
    fn messages_are_told_as_reading_finds_them() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(30), "]".repeat(30));
        for (text, told) in [
            (r#"{"total": 3, "output": [{"text": "x"}], "parts": [1, null]}"#, Some(false)),
            (r#"{"data": {"role": "user", "content": "x"}}"#, Some(true)),
            (r#"[{"x": 1}, {"messages": [{"type": "ai", "content": ""}]}]"#, Some(true)),
            (r#"{"other": {"role": "user"}}"#, Some(false)),
            (r#"{"type": "text", "text": "x", "parts": [{"role": "user"}]}"#, Some(false)),
            (r#"{"type": "text", "text": "a=1"}"#, None),
            (r#"{"content": "[{\"role\": \"user\"}]"}"#, None),
            (r#"{"name": "x", "arguments": {}}"#, None),
            (&deep(r#"{"role": "user"}"#), Some(false)),
        ] {
            let value = json::parse(text).unwrap();
            assert_eq!(holds_messages(&value, 0), told, "{text}");
            let read = Messages::read(value);
            let found = read.has_author || !read.calls.is_empty() || !read.results.is_empty();
            assert!(told.is_none_or(|told| told == found), "{text}");
        }
    }
}
