//! Wrappings of a judge's answer: objects and texts that only contain it, keys in capitals.
//!
//! They are removed, since they do not change its meaning.

use std::borrow::Cow;

use spanscore_base::value::{Map, Value, json};

/// Keys of objects that contain an answer, including tool calls written as text.
const WRAPPERS: [&str; 13] = [
    "verdicts", "arguments", "parameters", "input", "function", "response", "answer", "result",
    "output", "data", "json", "evaluation", "final",
];
/// Keys that contain an answer in a whole reply: elsewhere they belong to a quoted block.
const WHOLE_WRAPPERS: [&str; 2] = ["text", "content"];
/// Keys of an answer.
const KEYS: [&str; 8] =
    ["items", "id", "verdict", "cites", "reason", "injection_suspected", "score", "justification"];
/// Keys that make an object an answer.
const ANSWERS: [&str; 3] = ["items", "verdict", "score"];
/// Keys of texts allowed next to a wrapped answer.
const LABELS: [&str; 5] = ["name", "type", "id", "tool", "status"];
/// Keys of a model's thoughts, before or next to a wrapped answer.
const THOUGHTS: [&str; 8] = [
    "thoughts", "thought", "thinking", "reasoning", "reasoning_content", "scratchpad",
    "chain_of_thought", ANALYSIS,
];
/// Key of thoughts that may also be an answer: alone, it holds no mere draft.
const ANALYSIS: &str = "analysis";
/// Longest text next to a wrapped answer, bytes.
const LABEL_BYTES_MAX: usize = 64;
/// Key of an answer that may also be outside of its wrapper.
const SUSPICION: &str = "injection_suspected";
/// Limit on the depth of wrappers, and of an answer.
const DEPTH_MAX: usize = 4;

/// Returns the answer in a value with any wrapping; `None` if it has an answer's key twice, as
/// `verdict` and `Verdict`. `is_whole` says that the value is the whole reply.
pub(super) fn unwrapped(
    value: &Value<'static>,
    is_whole: bool,
    is_form: impl Fn(&Value<'_>) -> bool,
) -> Option<Value<'static>> {
    let mut value = Cow::Borrowed(value);
    for _ in 0..DEPTH_MAX {
        let own = folded(&value, 0)?;
        if is_form(&own) {
            return Some(own);
        }
        value = Cow::Owned(inner(&value, is_whole)?);
    }
    None
}

/// Returns true for an object of thoughts only: a draft in it is no answer.
pub(super) fn is_thoughts(value: &Value<'_>) -> bool {
    let mut keys = value.as_map().into_iter().flat_map(Map::iter).map(|(key, _)| key).peekable();
    keys.peek().is_some() && keys.all(|key| THOUGHTS.contains(&key) && key != ANALYSIS)
}

/// Returns the value in a wrapper: a list of one, or an object with a key of [`WRAPPERS`] (in a
/// whole reply also of [`WHOLE_WRAPPERS`]) and no content of its own.
fn inner(value: &Value<'static>, is_whole: bool) -> Option<Value<'static>> {
    match value {
        Value::List(list) if list.len() == 1 => held(list.first()?),
        Value::Map(map) if !map.iter().any(|(key, _)| ANSWERS.contains(&known(key))) => {
            let is_beside = |key: &str, value: &Value<'_>| {
                known(key) == SUSPICION || THOUGHTS.contains(&key) || is_label(key, value)
            };
            let mut whole = map.iter().filter(|(key, value)| !is_beside(key, value));
            let (key, wrapped) = whole.next()?;
            let wraps = WRAPPERS.contains(&key) || (is_whole && WHOLE_WRAPPERS.contains(&key));
            let held = held(wrapped).filter(|_| wraps && whole.next().is_none());
            match suspicion(map) {
                Some(suspected) => suspecting(held?, suspected),
                None => held,
            }
        }
        _ => None,
    }
}

fn suspicion<'m>(map: &'m Map<'static>) -> Option<&'m Value<'static>> {
    map.iter().find(|(key, _)| known(key) == SUSPICION).map(|(_, suspected)| suspected)
}

/// Adds the suspicion next to a value to it; `None` if it has a different one.
fn suspecting(value: Value<'static>, suspected: &Value<'static>) -> Option<Value<'static>> {
    let mut entries: Vec<(Cow<'_, str>, Value<'static>)> = match value {
        Value::Map(map) => {
            if let Some(own) = suspicion(&map) {
                let is_same = own == suspected;
                return is_same.then_some(Value::Map(map));
            }
            map.iter().map(|(key, value)| (Cow::Owned(key.to_owned()), value.clone())).collect()
        }
        list => vec![(Cow::Borrowed("items"), list)],
    };
    entries.push((Cow::Borrowed(SUSPICION), suspected.clone()));
    Some(Value::Map(Map::from_entries(entries)))
}

/// Returns true for a label next to an answer, such as a tool's name; longer texts have content.
fn is_label(key: &str, value: &Value<'_>) -> bool {
    match value {
        Value::String(text) => LABELS.contains(&key) && text.len() <= LABEL_BYTES_MAX,
        Value::List(_) | Value::Map(_) => false,
        _ => true,
    }
}

fn held(value: &Value<'static>) -> Option<Value<'static>> {
    match value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            json::parse(text).ok().map(Value::into_owned)
        }
        Value::Map(_) | Value::List(_) => Some(value.clone()),
        _ => None,
    }
}

/// Renames an answer's keys as in its schema; `None` if two of them coincide.
fn folded(value: &Value<'static>, depth: usize) -> Option<Value<'static>> {
    match value {
        Value::List(list) if depth < DEPTH_MAX => {
            let each = list.iter().map(|value| folded(value, depth + 1));
            Some(Value::List(each.collect::<Option<_>>()?))
        }
        Value::Map(map) if depth < DEPTH_MAX => {
            let keys: Vec<&str> = map.iter().map(|(key, _)| known(key)).collect();
            let is_once = |known: &&str| keys.iter().filter(|key| *key == known).count() < 2;
            if !KEYS.iter().all(is_once) {
                return None;
            }
            let entries = map.iter().zip(keys).map(|((_, value), key)| {
                Some((Cow::Owned(key.to_owned()), folded(value, depth + 1)?))
            });
            Some(Value::Map(Map::from_entries(entries.collect::<Option<_>>()?)))
        }
        value => Some(value.clone()),
    }
}

/// Returns the answer's key for one in capitals or without underscores.
fn known(key: &str) -> &str {
    let squeezed = |key: &str| key.replace(['_', '-', ' '], "").to_lowercase();
    let own = squeezed(key);
    KEYS.into_iter().find(|known| squeezed(known) == own).unwrap_or(key)
}
