//! Wrappings of a judge's answer: objects and texts that hold it alone, keys in capitals.
//!
//! They are taken off, since none of them gives the answer another meaning.

use std::borrow::Cow;

use spanscore_base::value::{Map, Value, json};

/// Keys of objects that hold an answer, tool calls written as a text among them.
const WRAPPERS: [&str; 13] = [
    "verdicts", "arguments", "parameters", "input", "function", "response", "answer", "result",
    "output", "data", "json", "evaluation", "final",
];
/// Keys that hold an answer in a whole reply: elsewhere they are of a block of the record.
const WHOLE_WRAPPERS: [&str; 2] = ["text", "content"];
/// Keys of an answer.
const KEYS: [&str; 8] =
    ["items", "id", "verdict", "cites", "reason", "injection_suspected", "score", "justification"];
/// Keys that make an object an answer of its own.
const ANSWERS: [&str; 3] = ["items", "verdict", "score"];
/// Keys of texts that may stand beside a wrapped answer.
const LABELS: [&str; 5] = ["name", "type", "id", "tool", "status"];
/// Keys of what a model thinks before its answer, and beside a wrapped one.
const THOUGHTS: [&str; 8] = [
    "thoughts", "thought", "thinking", "reasoning", "reasoning_content", "scratchpad",
    "chain_of_thought", ANALYSIS,
];
/// Key of thoughts that may also be an answer: alone, it holds no mere draft.
const ANALYSIS: &str = "analysis";
/// Longest text beside a wrapped answer, bytes.
const LABEL_BYTES_MAX: usize = 64;
/// Key of an answer that also stands outside of what holds it.
const SUSPICION: &str = "injection_suspected";
/// Depth of objects around an answer, and of one.
const DEPTH_MAX: usize = 4;

/// Returns the answer that a value holds, wrapped as it may be; nothing if it has a key of an
/// answer twice, as `verdict` and `Verdict`. `is_whole` if it is all of a reply.
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

/// Returns true for an object of thoughts alone: a draft of an answer in it is none.
pub(super) fn is_thoughts(value: &Value<'_>) -> bool {
    let mut keys = value.as_map().into_iter().flat_map(Map::iter).map(|(key, _)| key).peekable();
    keys.peek().is_some() && keys.all(|key| THOUGHTS.contains(&key) && key != ANALYSIS)
}

/// Returns the value that a wrapper holds: of a list of one, or of a key of [`WRAPPERS`], in a
/// whole reply of [`WHOLE_WRAPPERS`] too, of an object that says nothing itself.
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

/// Adds the suspicion that stands beside a value to it; nothing if it has another of its own.
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

/// Returns true for what stands beside an answer as the name of a tool does: other texts say more.
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

/// Writes the keys of an answer as its schema has them; nothing if that makes two of them one.
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

/// Returns the key of an answer that is meant by one in capitals or without underscores.
fn known(key: &str) -> &str {
    let squeezed = |key: &str| key.replace(['_', '-', ' '], "").to_lowercase();
    let own = squeezed(key);
    KEYS.into_iter().find(|known| squeezed(known) == own).unwrap_or(key)
}
