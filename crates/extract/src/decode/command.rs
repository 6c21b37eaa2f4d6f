//! LangGraph's `Command` as the result of a call, by which a tool updates the graph's state.

use memchr::memmem;

use super::json_or_py_or_text;
use super::shapes::{content_text, is_failed, tool_message_fields};
use spanscore_base::value::{Map, Value};

/// Members of a `Command`.
const MEMBERS: [&str; 5] = ["graph", "update", "resume", "goto", "lg_name"];

/// Returns the message that a tool wrote into the state: the last one, since some tools write the
/// whole history back.
pub(super) fn last_message<'a>(map: &Map<'a>) -> Option<Map<'a>> {
    messages(map)?.iter().rev().find_map(tool_fields)
}

/// Returns the value that a tool wrote into the state for a call's id, and true if it reports a
/// failure.
pub(in super::super) fn result_of<'a>(text: &'a str, id: &str) -> Option<(Value<'a>, bool)> {
    let holds = |word: &str| memmem::find(text.as_bytes(), word.as_bytes()).is_some();
    if !holds("update") || !holds("messages") || !holds(id) {
        return None;
    }
    let Value::Map(command) = json_or_py_or_text(Value::from(text)) else { return None };
    let command = command.get("output").and_then(Value::as_map).unwrap_or(&command);
    let is_own = |fields: &Map<'_>| fields.get("tool_call_id").and_then(Value::as_str) == Some(id);
    let mut fields = messages(command)?.iter().filter_map(tool_fields).find(is_own)?;
    let failed = is_failed(&fields);
    Some((content_text(fields.remove("content").unwrap_or_default()), failed))
}

fn messages<'v, 'a>(map: &'v Map<'a>) -> Option<&'v [Value<'a>]> {
    let update = map.get("update").filter(|_| map.iter().all(|(key, _)| MEMBERS.contains(&key)))?;
    let messages = match update {
        Value::Map(update) => update.get("messages")?,
        // Updates may be pairs of a channel and its value.
        Value::List(pairs) => pairs.iter().find_map(|pair| match pair.as_list()? {
            [channel, messages] if channel.as_str() == Some("messages") => Some(messages),
            _ => None,
        })?,
        _ => return None,
    };
    messages.as_list()
}

/// Returns the fields of a tool's message.
fn tool_fields<'a>(message: &Value<'a>) -> Option<Map<'a>> {
    let names_id = message.get("type").and_then(Value::as_str) == Some("tool")
        || message.get("tool_call_id").is_some()
        || message.get("kwargs").is_some_and(|inner| inner.get("tool_call_id").is_some());
    tool_message_fields(message.clone()).ok().filter(|_| names_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, id: &str, expected: Option<(&str, bool)>) {
        let found = result_of(text, id).map(|(value, failed)| (value.to_string(), failed));
        assert_eq!(
            found,
            expected.map(|(text, failed)| (text.to_owned(), failed)),
            "{id} of {text}"
        );
    }

    #[test]
    fn command_is_read_by_the_id_of_the_call() {
        let message = |id, content, status| {
            let of_call = format!(r#""type": "tool", "tool_call_id": "{id}""#);
            format!(r#"{{{of_call}, "content": "{content}", "status": "{status}"}}"#)
        };
        let own = message("a", "packed B-1", "success");
        let other = message("b", "no room", "error");
        let command = |update: &str| {
            format!(r#"{{"graph": null, "update": {update}, "resume": null, "goto": []}}"#)
        };
        let both = command(&format!(r#"{{"seen": 2, "messages": [{own}, {other}]}}"#));
        check(&both, "a", Some((r#""packed B-1""#, false)));
        check(&both, "b", Some((r#""no room""#, true)));
        check(&both, "c", None);
        check(&format!(r#"{{"output": {both}}}"#), "a", Some((r#""packed B-1""#, false)));
        let pairs = command(&format!(r#"[["seen", 2], ["messages", [{own}]]]"#));
        check(&pairs, "a", Some((r#""packed B-1""#, false)));
        check(&format!(r#"{{"update": {{"messages": [{own}]}}, "rows": 3}}"#), "a", None);
    }
}
