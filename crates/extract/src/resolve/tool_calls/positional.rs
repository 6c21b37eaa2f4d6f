//! Names of positional arguments, taken in order from the tool's schema.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::super::super::decode::message_arguments;
use super::SpanCall;
use crate::decode::Decoded;
use spanscore_base::model::{Content, WorkBudget};
use spanscore_base::value::{Map, Value};

/// Members of the recorded arguments of a function.
const FUNCTION: [&str; 3] = ["args", "kwargs", "sanitize_inputs_outputs"];

/// Returns a function's arguments by the parameter names in a schema; `None` if they already have
/// names, or outnumber the parameters.
pub(super) fn named<'a>(arguments: &Value<'a>, schema: &Value<'a>) -> Option<Value<'a>> {
    let map =
        arguments.as_map().filter(|map| map.iter().all(|(key, _)| FUNCTION.contains(&key)))?;
    let args = map.get("args")?.as_list().filter(|args| !args.is_empty())?;
    let properties = schema.get("properties").unwrap_or(schema).as_map()?;
    let given = match map.get("kwargs") {
        Some(Value::Map(kwargs)) => kwargs.clone(),
        _ => Map::default(),
    };
    if args.len() + given.len() > properties.len() {
        return None;
    }
    let names = properties.iter().map(|(name, _)| Cow::Owned(name.to_owned()));
    let mut entries: Vec<_> = names.zip(args.iter().cloned()).collect();
    entries.extend(given.into_entries());
    Some(Value::Map(Map::from_entries(entries)))
}

/// Names bare arguments without a message, if all other calls of the tool have one argument of the
/// same name.
pub(in super::super) fn name_bare<'a>(calls: &mut [SpanCall<'a>], effort: &WorkBudget) {
    if !calls.iter().any(|call| call.bare_arguments) || !effort.spend(calls.len()) {
        return;
    }
    let mut names: HashMap<String, Option<(String, bool)>> = HashMap::new();
    for call in calls.iter().filter(|call| !call.bare_arguments) {
        let Some(Value::Map(map)) = call.call.arguments.value() else { continue };
        let mut members = map.iter();
        let only = match (members.next(), members.next()) {
            (Some((name, value)), None) => Some((name.to_owned(), value.as_str().is_some())),
            _ => None,
        };
        let known = names.entry(call.call.name.to_string()).or_insert_with(|| only.clone());
        if *known != only {
            *known = None;
        }
    }
    for call in calls.iter_mut().filter(|call| call.bare_arguments) {
        let Some(Some((name, is_text))) = names.get(&*call.call.name) else { continue };
        let Content::Unreadable(text) = &call.call.arguments else { continue };
        if !effort.spend(name.len() + text.len()) {
            return;
        }
        let value = match message_arguments(Value::String(text.clone())) {
            Decoded::Value(value) if !is_text => value,
            _ => Value::String(text.clone()),
        };
        let entries = vec![(Cow::Owned(name.clone()), value)];
        call.call.arguments = Content::ready(Value::Map(Map::from_entries(entries)));
        call.bare_arguments = false;
    }
}
