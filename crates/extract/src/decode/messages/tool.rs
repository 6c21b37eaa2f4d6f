//! Messages with a tool's result, whoever is named as their author.

use std::borrow::Cow;

use super::super::{api, json_or_text, repr};
use super::author::{Author, asks};
use super::keys::ROUNDS;
use super::{Messages, NAMES, take_text};
use spanscore_base::value::{Map, Value};

impl<'a> Messages<'a> {
    /// Reads a message of the role `tool`; returns true if it has a result.
    pub(super) fn tool_message(&mut self, map: &mut Map<'a>) -> bool {
        for inner in ["data", "kwargs"] {
            if let Some(Value::Map(fields)) = map.get(inner)
                && fields.get("tool_call_id").is_some()
                && let Some(Value::Map(mut fields)) = map.remove(inner)
            {
                return self.tool_message(&mut fields);
            }
        }
        let is_error = is_error(map);
        // A log event of a tool message has the call's id as `id`.
        let beside = |map: &Map<'a>| {
            let id = map.get("additional_kwargs")?.get("tool_call_id")?.as_str()?;
            Some(Cow::Owned(id.to_owned()))
        };
        let id = take_text(map, &["tool_call_id", "id"]).or_else(|| beside(map));
        let is_content = |key: &&str| {
            map.get(key).is_some_and(|content| id.is_some() || !holds_results(content))
        };
        let Some(key) =
            ["content", "_content", "contents", "output", "blocks"].into_iter().find(is_content)
        else {
            return false;
        };
        let name = take_text(map, &NAMES);
        let value = map.remove(key).unwrap_or_default();
        self.push_result(id, name, unwrap_contents(value), is_error);
        true
    }

    /// Reads a user's text that is a list of tool results, or an object around one: in some model
    /// APIs the user sends results. Returns any other text.
    pub(super) fn replies(&mut self, text: Cow<'a, str>, depth: usize) -> Option<Cow<'a, str>> {
        let may_hold = ["result", "esponse"].iter().any(|word| text.contains(word));
        if !may_hold || !matches!(text.as_bytes(), [b'{' | b'[', b'{' | b'"', ..]) {
            return Some(text);
        }
        let value = json_or_text(Value::String(text.clone()));
        let parts = ["parts", "content"].into_iter().find_map(|key| value.get(key));
        if !holds_results(parts.unwrap_or(&value)) {
            return Some(text);
        }
        // Read without an author: its texts are the tool's, not the user's.
        self.walk(value, Author::Other, depth + 1);
        None
    }
}

/// Returns true if a message names its call.
pub(super) fn names_call(map: &Map<'_>) -> bool {
    map.get("tool_call_id").and_then(Value::as_str).is_some_and(|id| !id.is_empty())
}

/// Removes the rounds of calls and results that a client library ran before the response that
/// contains them, without the repeated part of the conversation.
pub(super) fn rounds_before<'a>(map: &mut Map<'a>) -> Option<Vec<Value<'a>>> {
    let Value::List(mut rounds) = ROUNDS.into_iter().find_map(|key| map.remove(key))? else {
        return None;
    };
    let asked = rounds.iter().rposition(asks)?;
    Some(rounds.split_off(asked + 1))
}

/// Returns true if a tool message's content is a list of results with their own call ids.
fn holds_results(content: &Value<'_>) -> bool {
    let Some(items) = content.as_list() else { return false };
    let prints_result = |item: &Value<'_>| item.as_str().is_some_and(repr::may_print_fields);
    let holds_result = |map: &Map<'_>| api::is_result(map) || api::result_in(map).is_some();
    items.iter().any(|item| item.as_map().is_some_and(holds_result) || prints_result(item))
}

pub(super) fn is_error(map: &Map<'_>) -> bool {
    let flag = ["is_error", "isError"].iter().any(|key| map.get(key) == Some(&Value::Bool(true)));
    let flag = flag || map.get("error") == Some(&Value::Bool(true));
    flag || map.get("status").and_then(Value::as_str) == Some("error")
        || api::part_kind(map) == Some("retry-prompt")
}

/// Returns true for a block with a result as its member and without a call's id.
fn is_wrapped(block: &Value<'_>) -> bool {
    block.as_map().is_some_and(|map| map.get("tool_result").is_some() && api::is_result(map))
}

/// Removes OpenInference's wrapper around each block, and the block of Azure's evaluations around
/// the result.
fn unwrap_contents(value: Value<'_>) -> Value<'_> {
    match value {
        Value::List(mut items) if items.len() == 1 && is_wrapped(&items[0]) => match items.pop() {
            Some(Value::Map(mut block)) => block.remove("tool_result").unwrap_or_default(),
            _ => Value::Null,
        },
        Value::List(items) => Value::List(
            items
                .into_iter()
                .map(|item| match item {
                    Value::Map(mut map) => map.remove("message_content").unwrap_or(Value::Map(map)),
                    item => item,
                })
                .collect(),
        ),
        value => value,
    }
}
