//! Decoders of the frameworks' envelopes around arguments and results.

use std::borrow::Cow;

use super::{Decoded, command, is_bracketed, json_or_py_or_text, json_or_text, read_json, repr};
use spanscore_base::value::{Map, Value};

/// Returns `kwargs` of `{args, kwargs, sanitize_inputs_outputs}` without positional arguments, or
/// the other members if the named arguments are next to these keys. For `{args: [input, options]}`
/// of the Vercel AI SDK returns the input; other values stay.
pub(super) fn unwrap(value: Value<'_>) -> Value<'_> {
    let Value::Map(mut map) = value else { return value };
    let known = |key: &str| matches!(key, "args" | "kwargs" | SANITIZE);
    let no_positional = match map.get("args") {
        Some(Value::List(args)) => args.is_empty(),
        Some(Value::Map(args)) => args.is_empty() && map.get(SANITIZE).is_some(),
        Some(args) => args.is_null(),
        None => true,
    };
    if !map.iter().all(|(key, _)| known(key)) {
        let has_both = map.get("args").is_some() && map.get(SANITIZE).is_some();
        if has_both && no_positional {
            map.remove("args");
            map.remove(SANITIZE);
        }
        return Value::Map(map);
    }
    if !no_positional {
        return input_beside_options(map);
    }
    match map.remove("kwargs") {
        Some(kwargs) => kwargs,
        None if map.get(SANITIZE).is_some() => Value::Map(Map::default()),
        None => Value::Map(map),
    }
}

/// Parameter of every smolagents tool that is hidden from callers.
const SANITIZE: &str = "sanitize_inputs_outputs";

/// Returns the input of a tool recorded with its options, which have the call's id.
fn input_beside_options(mut map: Map<'_>) -> Value<'_> {
    let Some(Value::List(args)) = map.get("args") else { return Value::Map(map) };
    if !matches!(&args[..], [_, options] if options.get("toolCallId").is_some()) {
        return Value::Map(map);
    }
    match map.remove("args") {
        Some(Value::List(args)) => args.into_iter().next().unwrap_or_default(),
        _ => Value::Map(map),
    }
}

/// Returns `x` of exactly `{result: x}`; other values stay.
pub(super) fn unwrap_result(value: Value<'_>) -> Value<'_> {
    under(value, &["result"])
}

/// Keys of a function's return value in decorators.
const RETURNED: [&str; 7] =
    ["result", "output", "value", "return_value", "tool_output", "__default__", "default"];

/// Returns the only member of an object if its key is one of `keys`; other values stay.
fn under<'a>(value: Value<'a>, keys: &[&str]) -> Value<'a> {
    match value {
        Value::Map(mut map) if map.len() == 1 => {
            let member = keys.iter().find_map(|key| map.remove(key));
            member.unwrap_or(Value::Map(map))
        }
        value => value,
    }
}

/// Returns `x` of `{output: x}` or `{outputs: x}`, LangSmith's wrapper of values other than
/// objects.
pub(super) fn sole_output(value: Value<'_>) -> Option<Decoded<'_>> {
    Some(Decoded::Value(under(value, &["output", "outputs"])))
}

/// Returns `x` of `{_value: x}`, traceAI's wrapper of values other than objects.
pub(super) fn only_value(value: Value<'_>) -> Option<Decoded<'_>> {
    Some(Decoded::Value(under(value, &["_value"])))
}

/// Returns the value of Pydantic AI's `ToolReturn`, which has more content for the model; other
/// values stay.
pub(super) fn tool_return(value: Value<'_>) -> Option<Decoded<'_>> {
    let is_return = |map: &Map<'_>| {
        let known = ["return_value", "content", "metadata"];
        map.get("kind").and_then(Value::as_str) == Some("tool-return")
            || map.get("content").is_some() && map.iter().all(|(key, _)| known.contains(&key))
    };
    Some(Decoded::Value(match value {
        Value::Map(mut map) if map.get("return_value").is_some() && is_return(&map) => {
            map.remove("return_value").unwrap_or_default()
        }
        value => value,
    }))
}

/// Returns a function's return value if it is an object's only content; other values stay.
pub(super) fn only_output(value: Value<'_>) -> Option<Decoded<'_>> {
    Some(Decoded::Value(under(value, &RETURNED)))
}

/// Returns the content of a list's only message by any author: some instrumentations record a
/// tool's arguments or result as messages.
pub(super) fn only_message(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::List(mut messages) = json_or_text(value) else { return None };
    let (Some(Value::Map(mut message)), true) = (messages.pop(), messages.is_empty()) else {
        return None;
    };
    let content = match message.remove("content").or_else(|| message.remove("parts"))? {
        Value::List(blocks) => match joined_text(&blocks) {
            Some(text) => Value::from(text),
            None => part_field(Value::List(blocks.clone()), "tool_call_response", "response")
                .or_else(|| part_field(Value::List(blocks), "tool_call", "arguments"))?,
        },
        content => content,
    };
    Some(Decoded::Value(json_or_text(content)))
}

/// Returns the name of a function without its module and class.
pub(super) fn qualified_name(value: Value<'_>) -> Option<Decoded<'_>> {
    Some(Decoded::Value(match value {
        Value::String(text) => match text.rsplit_once('.') {
            Some((_, name)) if !name.is_empty() => Value::from(name.to_owned()),
            _ => Value::String(text),
        },
        value => value,
    }))
}

/// Returns the fields of an object printed by Python.
pub(super) fn printed_fields(value: Value<'_>) -> Option<Decoded<'_>> {
    let fields = repr::fields(value.as_str()?)?;
    Some(Decoded::Value(Value::Map(fields)))
}

/// Parses each member of an object as JSON; other texts stay.
pub(super) fn json_members(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(map) = value else { return None };
    let members = map.into_entries().into_iter();
    let read: Map<'_> = members.map(|(key, member)| (key, json_or_text(member))).collect();
    Some(Decoded::Value(Value::Map(read)))
}

/// Joins a list of text blocks, and parses the text if it is JSON; other values stay. A list of
/// plain texts is a tool's result instead of blocks, and stays too.
pub(super) fn content_text(value: Value<'_>) -> Value<'_> {
    match json_or_text(value) {
        Value::List(blocks) if blocks.iter().all(|block| block.as_str().is_some()) => {
            Value::List(blocks)
        }
        Value::List(blocks) => match joined_text(&blocks) {
            Some(text) => json_or_text(Value::from(text)),
            None => single_json_block(blocks),
        },
        value => value,
    }
}

/// Joins the texts of a list with only text blocks; `None` for an empty list.
pub(super) fn joined_text(blocks: &[Value<'_>]) -> Option<String> {
    if blocks.is_empty() {
        return None;
    }
    let mut joined = String::new();
    for block in blocks {
        joined.push_str(block_text(block)?);
    }
    Some(joined)
}

/// Returns the text of `{text}`, `{type: text, text | content}`, `{block_type: text, text}` or a
/// string.
pub(super) fn block_text<'v>(block: &'v Value<'_>) -> Option<&'v str> {
    let map = match block {
        Value::String(text) => return Some(text),
        Value::Map(map) => map,
        _ => return None,
    };
    let kind = map.get("type").or_else(|| map.get("block_type")).and_then(Value::as_str);
    match kind {
        None if map.len() == 1 => {}
        Some("text" | "input_text" | "output_text") => {}
        _ => return None,
    }
    map.get("text").or_else(|| map.get("content")).and_then(Value::as_str)
}

/// Returns `x` of `[{json: x}]`, a Bedrock tool result, without Strands' wrapper of values other
/// than objects; for Cohere's single document its data.
fn single_json_block(mut blocks: Vec<Value<'_>>) -> Value<'_> {
    if let [Value::Map(map)] = &mut blocks[..]
        && let Some(Value::Map(document)) = map.get("document")
        && let Some(data) = document.get("data")
    {
        return json_or_text(data.clone());
    }
    match &mut blocks[..] {
        [Value::Map(map)] if map.len() == 1 => match map.remove("json") {
            Some(Value::Map(mut map)) if map.len() == 1 && map.get("$value").is_some() => {
                map.remove("$value").unwrap_or_default()
            }
            Some(value) => value,
            None => Value::List(blocks),
        },
        _ => Value::List(blocks),
    }
}

/// Returns the fields of a serialised LangChain `ToolMessage` in any shape, or of a result in
/// blocks with an error flag, such as MCP's.
pub(super) fn tool_message_fields<'a>(value: Value<'a>) -> Result<Map<'a>, Value<'a>> {
    let mut map = match value {
        Value::Map(map) => map,
        Value::String(text) => match repr::fields(&text) {
            Some(fields) => return printed(fields).map_err(|_| Value::String(text)),
            None => return Err(Value::String(text)),
        },
        value => return Err(value),
    };
    let is_message =
        |map: &Map<'_>| map.get("tool_call_id").is_some() && map.get("content").is_some();
    if map.len() == 1
        && let Some(inner) = map.get("output")
        && let Ok(fields) = tool_message_fields(inner.clone())
    {
        return Ok(fields);
    }
    if let Some(message) = chosen_tool_message(&map).or_else(|| command::last_message(&map)) {
        return Ok(message);
    }
    for inner in ["data", "kwargs"] {
        if map.get(inner).and_then(Value::as_map).is_some_and(is_message)
            && let Some(Value::Map(fields)) = map.remove(inner)
        {
            return Ok(fields);
        }
    }
    let is_tool = map.get("type").and_then(Value::as_str) == Some("tool");
    let flag = map.get("isError").or_else(|| map.get("is_error"));
    let is_list = map.get("content").is_some_and(|content| content.as_list().is_some());
    if is_list && (matches!(flag, Some(Value::Bool(_))) || is_served_result(&map)) {
        return Ok(map);
    }
    // Bedrock's own form, also used by Strands.
    if is_list && let Some(id) = map.get("toolUseId").cloned() {
        map.insert("tool_call_id", id);
        return Ok(map);
    }
    // LangWatch writes a value's type next to it.
    if map.len() == 2 && map.get("type").is_some() && map.get("value").is_some() {
        return tool_message_fields(map.remove("value").unwrap_or_default());
    }
    if is_message(&map) || (is_tool && map.get("content").is_some()) {
        return Ok(map);
    }
    if is_function_response(&map) {
        let content = unwrap_result(map.remove("response").unwrap_or_default());
        let id = map.remove("id").unwrap_or_default();
        return Ok([("content", content), ("tool_call_id", id)].into_iter().collect());
    }
    Err(Value::Map(map))
}

/// Returns true for a function response in Gemini's form with the call's id: the response is an
/// object.
fn is_function_response(map: &Map<'_>) -> bool {
    let is_text = |key| map.get(key).is_some_and(|value| value.as_str().is_some());
    map.len() == 3
        && is_text("id")
        && is_text("name")
        && map.get("response").is_some_and(|it| it.as_map().is_some())
}

/// Returns true for an MCP server's result: blocks with only related members.
fn is_served_result(map: &Map<'_>) -> bool {
    let known = ["content", "structuredContent", "structured_content", "_meta", "meta"];
    map.iter().all(|(key, _)| known.contains(&key))
        && map.get("content").is_some_and(is_text_blocks)
}

/// Returns the tool message in the envelope of a chat completion with one choice.
fn chosen_tool_message<'a>(map: &Map<'a>) -> Option<Map<'a>> {
    let [choice] = map.get("choices")?.as_list()? else { return None };
    let message = choice.as_map()?.get("message")?.as_map()?;
    let is_tools = message.get("role").and_then(Value::as_str) == Some("tool");
    let mut fields = message.get("content").filter(|_| is_tools).map(|_| message.clone())?;
    if let Some(id) = fields.remove("tool_id") {
        fields.insert("tool_call_id", id);
    }
    Some(fields)
}

/// Converts a printed message, or a printed result (`status='failure' result=... error='...'`), to
/// a message's fields.
fn printed(mut map: Map<'static>) -> Result<Map<'static>, ()> {
    if map.get("content").is_some() && (map.get("tool_call_id").is_some() || map.len() > 1) {
        return Ok(map);
    }
    let (Some(status), true) = (map.get("status").cloned(), map.get("result").is_some()) else {
        return Err(());
    };
    let failed = matches!(status.as_str(), Some("failure" | "error" | "failed"));
    let error = map.remove("error").filter(|error| failed && !error.is_null());
    let content = map.remove("result").filter(|result| !failed || !result.is_null());
    let status = Value::from(if failed { "error" } else { "success" });
    let fields = [("content", content.or(error).unwrap_or_default()), ("status", status)];
    Ok(fields.into_iter().collect())
}

pub(super) fn tool_message(value: Value<'_>) -> Value<'_> {
    match tool_message_fields(json_or_py_or_text(value)) {
        Ok(mut fields) => content_text(fields.remove("content").unwrap_or_default()),
        Err(value) if is_text_block(&value) => content_text(Value::List(vec![value])),
        Err(value) if is_text_blocks(&value) => content_text(value),
        Err(value) => match value.as_str().and_then(repr::list).map(Value::List) {
            Some(blocks) if is_text_blocks(&blocks) => content_text(blocks),
            _ => value,
        },
    }
}

/// Returns true for a list of only text blocks, as returned by MCP tools.
fn is_text_blocks(value: &Value<'_>) -> bool {
    value.as_list().is_some_and(|blocks| !blocks.is_empty() && blocks.iter().all(is_text_block))
}

/// Members of a text block in MCP, and of its copies in clients.
const BLOCK: [&str; 6] = ["type", "text", "annotations", "_meta", "meta", "id"];

fn is_text_block(value: &Value<'_>) -> bool {
    let Some(map) = value.as_map() else { return false };
    map.get("type").and_then(Value::as_str) == Some("text")
        && map.get("text").is_some_and(|text| text.as_str().is_some())
        && map.iter().all(|(key, _)| BLOCK.contains(&key))
}

/// Marker words of a call's id: every message with an id has one; `response` only as a key, since
/// the word is common. Then those of a tool's name, and of a failure.
pub(super) const ID_MARKS: &[&str] =
    &["tool_call_id", "tool_id", "toolUseId", "response\"", "response'"];
pub(super) const NAME_MARKS: &[&str] = &["name"];
pub(super) const ERROR_MARKS: &[&str] = &["error", "isError", "fail"];

/// Returns the non-empty text of a field in a tool's message.
pub(super) fn tool_message_text<'a>(value: Value<'a>, key: &str) -> Option<Value<'a>> {
    let mut fields = tool_message_fields(json_or_py_or_text(value)).ok()?;
    fields.remove(key).filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))
}

pub(super) fn tool_message_error(value: Value<'_>) -> Option<Value<'_>> {
    let mut fields = tool_message_fields(json_or_py_or_text(value)).ok()?;
    is_failed(&fields).then(|| content_text(fields.remove("content").unwrap_or_default()))
}

/// Returns true if a message's fields report a failed call.
pub(crate) fn is_failed(fields: &Map<'_>) -> bool {
    let says = |key| fields.get(key).and_then(Value::as_str) == Some("error");
    let flag = |key| fields.get(key) == Some(&Value::Bool(true));
    says("status") || says("state") || flag("is_error") || flag("isError")
}

/// Returns `raw_output` of a serialised LlamaIndex `ToolOutput`, else the texts of its blocks.
pub(super) fn tool_output(value: Value<'_>) -> Value<'_> {
    let mut map = match json_or_py_or_text(value) {
        Value::Map(map) if map.get("raw_output").is_some() || map.get("blocks").is_some() => map,
        value => return value,
    };
    match map.remove("raw_output") {
        Some(raw) if !raw.is_null() => json_or_py_or_text(raw),
        _ => match map.remove("blocks") {
            Some(Value::List(blocks)) => match joined_text(&blocks) {
                Some(text) => json_or_py_or_text(Value::from(text)),
                None => Value::List(blocks),
            },
            other => other.unwrap_or_default(),
        },
    }
}

/// Returns a field of the first part of a kind in a message list.
pub(super) fn part_field<'a>(value: Value<'a>, kind: &str, field: &str) -> Option<Value<'a>> {
    match value {
        Value::List(items) => items.into_iter().find_map(|item| part_field(item, kind, field)),
        Value::Map(mut map) => {
            if map.get("type").and_then(Value::as_str) == Some(kind) {
                return map.remove(field).filter(|value| !value.is_null());
            }
            map.remove("parts").and_then(|parts| part_field(parts, kind, field))
        }
        _ => None,
    }
}

/// Adds to a message its author, which only its event's name states.
pub(super) fn with_role<'a>(value: Value<'a>, role: &str) -> Value<'a> {
    let mut map = match value {
        Value::Map(map) => map,
        content => Map::from([("content", content)]),
    };
    if map.get("role").is_none() {
        map.insert("role", Value::from(role.to_owned()));
    }
    Value::Map(map)
}

/// Builds a message from an event's attributes, with its author from the event's name
/// (`gen_ai.user.message`; `gen_ai.choice` is the model's).
pub(super) fn event_message(value: Value<'_>) -> Option<Decoded<'_>> {
    let Value::Map(mut map) = value else { return None };
    let name = map.remove("event.name")?;
    let name = name.as_str()?;
    let of_role = name.strip_suffix(".message").and_then(|name| name.rsplit('.').next());
    let role = of_role.unwrap_or("assistant");
    let mut parts: Vec<(Cow<'_, str>, Value<'_>)> = Vec::with_capacity(map.len());
    for (key, part) in map.into_entries() {
        let is_whole = matches!(&*key, "message" | "gen_ai.event.content");
        // Attributes cannot be objects or lists, which are written as JSON.
        let part = if is_whole || key == "tool_calls" { json_or_text(part) } else { part };
        match part {
            Value::Map(inner) if is_whole => parts.extend(inner.into_entries()),
            part if is_whole => parts.push(("content".into(), part)),
            part => parts.push((key, part)),
        }
    }
    Some(Decoded::Value(with_role(Value::Map(Map::from_entries(parts)), role)))
}

/// Parses a model's arguments: an object, or its text.
pub(in super::super) fn message_arguments(value: Value<'_>) -> Decoded<'_> {
    match value {
        Value::String(text) if text.trim().is_empty() => Decoded::Value(Value::Map(Map::default())),
        value => read_json(value).unwrap_or(Decoded::Value(Value::Null)),
    }
}

/// Parses a tool's result repeated in a message.
pub(super) fn message_result(value: Value<'_>) -> Value<'_> {
    match value {
        Value::List(_) => content_text(value),
        Value::String(text) if is_bracketed(&text) => {
            match json_or_py_or_text(Value::String(text)) {
                list @ Value::List(_) => content_text(list),
                value => match unwrap_result(value) {
                    text @ Value::String(_) => json_or_py_or_text(text),
                    value => value,
                },
            }
        }
        Value::String(text) if repr::may_print_fields(&text) => tool_message(Value::String(text)),
        value => json_or_py_or_text(unwrap_result(value)),
    }
}
