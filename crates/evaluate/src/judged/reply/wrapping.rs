//! Wrappings of a judge's answer: objects and texts that hold it alone, keys in capitals. They are taken
//! off, since none of them gives the answer another meaning.

use std::borrow::Cow;

use spanscore_base::value::{Map, Value, json};

/// Keys of objects that hold an answer, tool calls written as a text among them.
const WRAPPERS: [&str; 13] = [
    "verdicts",
    "arguments",
    "parameters",
    "input",
    "function",
    "response",
    "answer",
    "result",
    "output",
    "data",
    "json",
    "evaluation",
    "final",
];
/// Keys of an answer.
const KEYS: [&str; 8] =
    ["items", "id", "verdict", "cites", "reason", "injection_suspected", "score", "justification"];
/// Keys that make an object an answer of its own.
const ANSWERS: [&str; 3] = ["items", "verdict", "score"];
/// Longest text beside a wrapped answer, bytes.
const LABEL_BYTES_MAX: usize = 64;
/// Depth of objects around an answer, and of one.
const DEPTH_MAX: usize = 4;

/// Returns the answer that a value holds, wrapped as it may be.
pub(super) fn unwrapped(
    value: &Value<'static>,
    is_form: impl Fn(&Value<'_>) -> bool,
) -> Option<Value<'static>> {
    let mut value = Cow::Borrowed(value);
    for _ in 0..DEPTH_MAX {
        let own = folded(&value, 0);
        if is_form(&own) {
            return Some(own);
        }
        value = Cow::Owned(inner(&value)?);
    }
    None
}

/// Returns the value that a wrapper holds: of a list of one, or of a key of [`WRAPPERS`] of an
/// object that says nothing itself.
fn inner(value: &Value<'static>) -> Option<Value<'static>> {
    match value {
        Value::List(list) if list.len() == 1 => held(list.first()?),
        Value::Map(map) if !map.iter().any(|(key, _)| ANSWERS.contains(&known(key))) => {
            let mut whole = map.iter().filter(|(_, value)| !is_label(value));
            let (key, wrapped) = whole.next()?;
            held(wrapped).filter(|_| WRAPPERS.contains(&key) && whole.next().is_none())
        }
        _ => None,
    }
}

/// Returns true for what stands beside an answer as the name of a tool does: texts say more.
fn is_label(value: &Value<'_>) -> bool {
    match value {
        Value::String(text) => text.len() <= LABEL_BYTES_MAX,
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

/// Writes the keys of an answer as its schema has them, where that leaves them apart.
fn folded(value: &Value<'static>, depth: usize) -> Value<'static> {
    match value {
        Value::List(list) if depth < DEPTH_MAX => {
            Value::List(list.iter().map(|value| folded(value, depth + 1)).collect())
        }
        Value::Map(map) if depth < DEPTH_MAX => {
            let keys: Vec<&str> = map.iter().map(|(key, _)| known(key)).collect();
            let is_apart = |at: usize| !keys[..at].contains(&keys[at]);
            let keeps = keys.len() > KEYS.len() * 2 || !(0..keys.len()).all(is_apart);
            let entries = map.iter().zip(keys).map(|((own, value), key)| {
                let key = if keeps { own } else { key };
                (Cow::Owned(key.to_owned()), folded(value, depth + 1))
            });
            Value::Map(Map::from_entries(entries.collect()))
        }
        value => value.clone(),
    }
}

/// Returns the key of an answer that is meant by one in capitals or without underscores.
fn known(key: &str) -> &str {
    let squeezed = |key: &str| key.replace(['_', '-', ' '], "").to_lowercase();
    let own = squeezed(key);
    KEYS.into_iter().find(|known| squeezed(known) == own).unwrap_or(key)
}
