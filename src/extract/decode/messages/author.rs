//! Who wrote a message, and what it says.

use super::super::api::{kind, part_kind};
use super::block_text;
use crate::value::{Map, Value};

/// Who wrote a message.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Author {
    Unknown,
    User,
    Assistant,
    Tool,
    Other,
}

/// Whether a message has content, be it empty.
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

/// Whether an object is a message of a user.
pub(super) fn is_users(value: &Value<'_>) -> bool {
    value.as_map().and_then(author) == Some(Author::User)
}

/// Who wrote a message, if the object is one.
pub(super) fn author(map: &Map<'_>) -> Option<Author> {
    let role = map.get("role").or_else(|| map.get("_role")).and_then(Value::as_str);
    let role = role.map(|role| role.strip_prefix("ChatRole.").unwrap_or(role)).or_else(|| {
        match kind(map) {
            Some(kind @ ("human" | "ai" | "system" | "tool")) => Some(kind),
            _ => lang_chain_class(map).or_else(|| part_author(map)),
        }
    })?;
    Some(of_role(role).unwrap_or_else(|| {
        // Enumerations are printed as they are spelled in the code: `USER`, `User`.
        of_role(&role.to_ascii_lowercase()).unwrap_or(Author::Other)
    }))
}

fn of_role(role: &str) -> Option<Author> {
    Some(match role {
        "user" | "human" | "HumanMessage" => Author::User,
        "assistant" | "model" | "ai" | "AIMessage" => Author::Assistant,
        "tool" | "function" | "ToolMessage" | "tool-response" => Author::Tool,
        "system" | "developer" => Author::Other,
        _ => return None,
    })
}

/// Who wrote a part of Pydantic AI's messages, which have no role.
fn part_author<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    match part_kind(map)? {
        "user-prompt" => Some("user"),
        "text" => Some("assistant"),
        "system-prompt" => Some("system"),
        _ => None,
    }
}

/// The class of a message in LangChain's own serialisation: the last item of `id`.
fn lang_chain_class<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("lc")?;
    map.get("id")?.as_list()?.last()?.as_str()
}

/// The text of a part that is nothing but text.
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
