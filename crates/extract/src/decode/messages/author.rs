//! Author of a message, and its spoken text.

use super::super::api::{kind, part_kind};
use super::{block_text, repr};
use spanscore_base::value::{Map, Value};

/// Author of a message.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Author {
    Unknown,
    User,
    Assistant,
    Tool,
    Operator,
    Other,
}

/// Returns true if a message has content and all of it is empty.
pub(super) fn has_content(map: &Map<'_>) -> bool {
    let has = |map: &Map<'_>| {
        ["content", "contents", "parts"].iter().any(|key| {
            map.get(key).is_some_and(|content| match content {
                Value::String(text) => text.is_empty(),
                Value::List(items) => items.iter().all(|item| block_text(item) == Some("")),
                _ => false,
            })
        })
    };
    let inner = |key| map.get(key).and_then(Value::as_map).is_some_and(has);
    has(map) || inner("data") || inner("kwargs")
}

/// Returns true for a user's message, or Python's printed form of one.
pub(super) fn is_users(value: &Value<'_>) -> bool {
    let written_by = match value {
        Value::String(text) => repr::fields(text).as_ref().and_then(author),
        value => value.as_map().and_then(author),
    };
    written_by == Some(Author::User)
}

/// Returns true if a message has words and is a user's or names no author: results of tools may
/// also have the user's role.
pub(super) fn asks(value: &Value<'_>) -> bool {
    let says = |part: &Value<'_>| {
        let text = part.get("text").and_then(Value::as_str).or_else(|| block_text(part));
        text.is_some_and(|text| !text.is_empty())
    };
    let has = |key| match value.get(key) {
        Some(Value::List(parts)) => parts.iter().any(says),
        Some(part) => says(part),
        None => false,
    };
    let may_be_users = value.as_map().and_then(author).is_none_or(|by| by == Author::User);
    may_be_users && ["parts", "content"].into_iter().any(has)
}

/// Kinds of parts that are not spoken text: a model's reasoning, and data.
const UNSAID: [&str; 12] = [
    "reasoning", "thinking", "redacted_thinking", "compaction", "blob", "uri", "file", "image",
    "audio", "video", "document", "media",
];

/// Returns true for a part of a user's or model's message that is not spoken text.
pub(super) fn is_unsaid(map: &Map<'_>, outer: Author) -> bool {
    matches!(outer, Author::User | Author::Assistant)
        && kind(map).is_some_and(|kind| UNSAID.contains(&kind))
}

/// Returns the author of a message; `None` if the object is none.
pub(super) fn author(map: &Map<'_>) -> Option<Author> {
    let role = map.get("role").or_else(|| map.get("_role")).and_then(Value::as_str);
    let role = role.map(|role| role.strip_prefix("ChatRole.").unwrap_or(role)).or_else(|| {
        match kind(map) {
            Some(kind @ ("human" | "ai" | "system" | "tool")) => Some(kind),
            _ => lang_chain_class(map).or_else(|| part_author(map)),
        }
    })?;
    Some(of_role(role).unwrap_or_else(|| {
        // Enumerations print their members as written in code: `USER`, `User`.
        of_role(&role.to_ascii_lowercase()).unwrap_or(Author::Other)
    }))
}

fn of_role(role: &str) -> Option<Author> {
    Some(match role {
        "user" | "human" | "HumanMessage" => Author::User,
        "assistant" | "model" | "ai" | "AIMessage" => Author::Assistant,
        "tool" | "function" | "ToolMessage" | "tool-response" => Author::Tool,
        "system" | "developer" => Author::Operator,
        _ => return None,
    })
}

/// Returns the author of a part of Pydantic AI's messages, which have no role.
fn part_author<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    match part_kind(map)? {
        "user-prompt" => Some("user"),
        "text" => Some("assistant"),
        "system-prompt" => Some("system"),
        _ => None,
    }
}

/// Returns the class of a message serialised by LangChain: the last item of `id`.
fn lang_chain_class<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("lc")?;
    map.get("id")?.as_list()?.last()?.as_str()
}

/// Returns the text of a part that is only text.
pub(super) fn part_text<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    if map.get("role").is_some() || map.get("_role").is_some() {
        return None;
    }
    match kind(map).or_else(|| map.get("block_type").and_then(Value::as_str)) {
        Some("text" | "input_text" | "output_text") => {
            map.get("text").or_else(|| map.get("content")).and_then(Value::as_str)
        }
        _ => None,
    }
}
