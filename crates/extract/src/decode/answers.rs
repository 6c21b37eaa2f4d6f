//! Decoders that extract the user's request and the agent's answer from the envelopes of
//! instrumentations.
//!
//! The result is a text, an object, a list, a number, a boolean or `null`. A list of chat messages
//! is unwrapped to the text of the last message by the requested author. The arguments or return
//! value of a decorated function are unwrapped, and so are LangChain's callbacks. Other values stay
//! unchanged, since an answer may have any members.

use super::messages::Messages;
use super::shapes::joined_text;
use super::{Decoded, json_or_py_or_text, repr};
use spanscore_base::value::{Map, Value};

/// Deepest nesting of envelopes; deeper values stay unchanged.
const DEPTH_MAX: usize = 8;

/// Author of the requested text.
#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    User,
    Agent,
}

/// Decodes the user's request.
pub(super) fn user_text(value: Value<'_>) -> Option<Decoded<'_>> {
    // An empty list of messages is no request.
    match recorded(value, Speaker::User, 0) {
        Some(Decoded::Value(Value::List(items))) if items.is_empty() => None,
        // Nor are empty inputs, as an object or as text.
        Some(Decoded::Value(Value::Map(map))) if map.iter().all(|(_, value)| is_nothing(value)) => {
            None
        }
        Some(Decoded::Value(Value::String(text))) if is_bare(&text) => None,
        asked => asked,
    }
}

/// Returns true for an empty value, including the text of an empty object or list.
fn is_nothing(value: &Value<'_>) -> bool {
    is_empty(value) || value.as_str().is_some_and(is_bare)
}

/// Returns true for the text of an empty object or list.
fn is_bare(text: &str) -> bool {
    let inner = text.trim().strip_prefix(['{', '[']).and_then(|text| text.strip_suffix(['}', ']']));
    inner.is_some_and(|inner| inner.trim().is_empty())
}

/// Decodes the agent's answer.
pub(super) fn assistant_text(value: Value<'_>) -> Option<Decoded<'_>> {
    recorded(value, Speaker::Agent, 0)
}

/// Returns the messages of a state after the user's last one.
pub(super) fn last_turn(value: Value<'_>) -> Option<Decoded<'_>> {
    Messages::last_turn(value).map(Decoded::Value)
}

/// Returns the user's text in a body's messages.
pub(super) fn said_by_user(value: Value<'_>) -> Option<Decoded<'_>> {
    said(value).into_user().map(|text| Decoded::Value(Value::String(text)))
}

/// Returns the model's text in a body's messages.
pub(super) fn said_by_model(value: Value<'_>) -> Option<Decoded<'_>> {
    said(value).assistant.map(|text| Decoded::Value(Value::String(text)))
}

fn said(value: Value<'_>) -> Messages<'_> {
    match json_or_py_or_text(value) {
        Value::String(_) => Messages::default(),
        value => Messages::read(value),
    }
}

/// Prefix written by LangChain's tool for structured answers before the printed answer.
const RETURNING: &str = "Returning structured response: ";

/// Parses the object in an answer's text: JSON, or Python's printed form.
pub(in super::super) fn told_object(text: &str) -> Option<Value<'static>> {
    let text = text.strip_prefix(RETURNING).unwrap_or(text);
    let told = match json_or_py_or_text(Value::from(text.to_owned())) {
        Value::Map(mut map) if map.len() == 1 && map.get("structured_response").is_some() => {
            map.remove("structured_response")?
        }
        told => told,
    };
    match told {
        told @ Value::Map(_) => Some(told),
        told => repr::fields(told.as_str()?).map(Value::Map),
    }
}

fn recorded(value: Value<'_>, speaker: Speaker, depth: usize) -> Option<Decoded<'_>> {
    if value.is_null() && depth == 0 {
        return None;
    }
    let mut value = match json_or_py_or_text(value) {
        // The start of a truncated message list is no person's text.
        Value::String(text) if text.starts_with("[{\"") || text.starts_with("{\"") => {
            return Some(Decoded::Unreadable(text));
        }
        value @ (Value::Map(_) | Value::List(_)) => value,
        value => return Some(Decoded::Value(value)),
    };
    if speaker == Speaker::Agent
        && let Some(answer) = structured_response(&mut value, 0)
    {
        return Some(Decoded::Value(answer));
    }
    // The cheap test decides for most answers; otherwise a copy is parsed, perhaps in vain.
    let value = match Messages::are_in(&value) {
        Some(false) => value,
        Some(true) => return said_by(speaker, Messages::read(value)),
        None => {
            let messages = Messages::read(value.clone());
            if messages.has_author || !messages.calls.is_empty() || !messages.results.is_empty() {
                return said_by(speaker, messages);
            }
            value
        }
    };
    if depth >= DEPTH_MAX {
        return Some(Decoded::Value(value));
    }
    match unwrapped(value, speaker) {
        Ok(inner) => recorded(inner, speaker, depth + 1),
        Err(value) => Some(Decoded::Value(value)),
    }
}

fn said_by(speaker: Speaker, messages: Messages<'_>) -> Option<Decoded<'_>> {
    let own = match speaker {
        Speaker::User => messages.into_user(),
        Speaker::Agent => messages.assistant,
    };
    own.map(|text| Decoded::Value(Value::String(text)))
}

/// Removes the structured answer of a LangGraph state that also has messages.
fn structured_response<'a>(value: &mut Value<'a>, depth: usize) -> Option<Value<'a>> {
    let Value::Map(map) = value else { return None };
    if map.get("messages").is_some()
        && map.get("structured_response").is_some_and(|answer| !answer.is_null())
    {
        let answer = map.remove("structured_response")?;
        return Some(serialised(json_or_py_or_text(answer)));
    }
    let inner = ["outputs", "output"].into_iter().find(|key| map.get(key).is_some())?;
    if depth >= DEPTH_MAX {
        return None;
    }
    let mut inner = map.get(inner)?.clone();
    structured_response(&mut inner, depth + 1)
}

/// Returns the fields of an object serialised by LangChain.
fn serialised(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Map(mut map) if map.get("lc").is_some() && map.get("kwargs").is_some() => {
            map.remove("kwargs").unwrap_or_default()
        }
        value => value,
    }
}

/// Returns the content of an envelope; `Err` has any other value.
fn unwrapped<'a>(value: Value<'a>, speaker: Speaker) -> Result<Value<'a>, Value<'a>> {
    match value {
        Value::Map(map) => unwrapped_map(map, speaker).map_err(Value::Map),
        Value::List(items) => {
            let is_block = |item: &Value<'_>| item.as_map().is_some();
            match joined_text(&items) {
                Some(text) if items.iter().all(is_block) => Ok(Value::from(text)),
                _ => Err(Value::List(items)),
            }
        }
        value => Err(value),
    }
}

/// Members next to `inputs` or `outputs` in LangChain's callbacks.
const BESIDE: [&str; 6] = ["tags", "metadata", "kwargs", "run_type", "name", "input_str"];

/// Keys of the user's text in the arguments of a function that calls an agent.
const INPUT_KEYS: [&str; 13] = [
    "input", "query", "question", "prompt", "task", "text", "user", "user_msg", "content",
    "user_input", "user_message", "user_query", "message",
];

/// Keys of objects that only contain an answer.
const OUTPUT_KEYS: [&str; 10] = [
    "output", "outputs", "text", "result", "response", "raw", "final_output", "content",
    "return_value", "__default__",
];

fn unwrapped_map<'a>(mut map: Map<'a>, speaker: Speaker) -> Result<Value<'a>, Map<'a>> {
    if map.get("lc").is_some() && map.get("kwargs").is_some() {
        return Ok(map.remove("kwargs").unwrap_or_default());
    }
    if is_function_call(&map) {
        return Ok(function_arguments(map));
    }
    // The Vercel AI SDK and Mastra return the answer with many other members of the run.
    if speaker == Speaker::Agent
        && ["text", "object", "files"].into_iter().all(|key| map.get(key).is_some())
    {
        let object = map.remove("object").filter(|object| !object.is_null());
        return object.or_else(|| map.remove("text")).ok_or(map);
    }
    // LangWatch writes a value's type next to it.
    if map.len() == 2 && map.get("type").is_some_and(|kind| kind.as_str().is_some()) {
        if let Some(value) = map.remove("value") {
            return Ok(value);
        }
        return Err(map);
    }
    let whole = if speaker == Speaker::User { "inputs" } else { "outputs" };
    if map.len() > 1
        && map.get(whole).is_some()
        && map.iter().all(|(key, _)| key == whole || BESIDE.contains(&key))
    {
        return Ok(map.remove(whole).unwrap_or_default());
    }
    // State of a pipeline's only component, under the component's name.
    if map.len() == 1
        && map.iter().any(|(_, inner)| holds_messages(inner, 0))
        && let Some((_, inner)) = map.clone().into_entries().pop()
    {
        return Ok(inner);
    }
    let key = match speaker {
        Speaker::User => only(&map, &INPUT_KEYS, |other| {
            !matches!(other, Value::String(_) | Value::List(_) | Value::Map(_)) || is_empty(other)
        }),
        Speaker::Agent => only(&map, &OUTPUT_KEYS, is_empty),
    };
    match key {
        Some(key) => Ok(map.remove(key).unwrap_or_default()),
        None => Err(map),
    }
}

fn holds_messages(value: &Value<'_>, depth: usize) -> bool {
    let Some(map) = value.as_map() else { return false };
    let is_list = |key| map.get(key).is_some_and(|inner| inner.as_list().is_some());
    is_list("messages")
        || is_list("replies")
        || depth < DEPTH_MAX
            && map.len() == 1
            && map.iter().any(|(_, inner)| holds_messages(inner, depth + 1))
}

/// Returns true for `{args, kwargs}`, the recorded arguments of a decorated function.
fn is_function_call(map: &Map<'_>) -> bool {
    let known = ["args", "kwargs", "sanitize_inputs_outputs"];
    (map.get("args").is_some() || map.get("kwargs").is_some())
        && map.iter().all(|(key, _)| known.contains(&key))
}

/// Returns the only argument, else the named ones, else all.
fn function_arguments(mut map: Map<'_>) -> Value<'_> {
    let args = match map.remove("args") {
        Some(Value::List(args)) => args,
        _ => Vec::new(),
    };
    let kwargs = match map.remove("kwargs") {
        Some(Value::Map(kwargs)) => kwargs,
        _ => Map::default(),
    };
    if !kwargs.is_empty() {
        let only = kwargs.iter().map(|(_, value)| value).next().filter(|_| kwargs.len() == 1);
        return match only.cloned() {
            Some(value) if args.is_empty() => value,
            _ => Value::Map(kwargs),
        };
    }
    let mut args = args.into_iter();
    match (args.next(), args.len()) {
        (Some(only), 0) => only,
        (Some(first), _) => Value::List([first].into_iter().chain(args).collect()),
        (None, _) => Value::Null,
    }
}

/// Returns the key among `keys` of an object's only content; `is_nothing` is true for other members
/// without content.
fn only(
    map: &Map<'_>,
    keys: &[&'static str],
    is_nothing: impl Fn(&Value<'_>) -> bool,
) -> Option<&'static str> {
    let found = *keys.iter().find(|key| map.get(key).is_some())?;
    let is_text = map.get(found)?.as_str().is_some_and(|text| !text.is_empty());
    let mut others = map.iter().filter(|(key, _)| *key != found);
    ((is_text || map.len() == 1) && others.all(|(_, value)| is_nothing(value))).then_some(found)
}

/// Returns true for null, and for an empty text, list or object.
pub(super) fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}
