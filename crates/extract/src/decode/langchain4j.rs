//! Conversations printed by LangChain4j, which LangGraph4j writes into its spans.
//!
//! A message is on a line of its own that starts with a tab and its class. Its fields have the
//! order of the class, with texts in unescaped quotes: a text ends before the name of the next
//! field, or before the next message.

use super::Decoded;
use spanscore_base::value::{Map, Value};

/// Message classes with their roles.
const CLASSES: [(&str, &str); 4] = [
    ("SystemMessage { ", "system"),
    ("UserMessage { ", "user"),
    ("AiMessage { ", "assistant"),
    ("ToolExecutionResultMessage { ", "tool"),
];
/// Start of a call; several in a list are separated by commas.
const CALL: &str = "ToolExecutionRequest { id = \"";
const CALLS: &str = ", toolExecutionRequests = [";
/// Start of a text content in a user's message, then the end of the last content.
const TEXT: &str = "TextContent { text = \"";
const CONTENTS_END: &str = "\" }], attributes = ";
/// Ends of such a text before another kind of content.
const BEFORE_OTHERS: [&str; 4] = [
    "\" }, ImageContent { ",
    "\" }, AudioContent { ",
    "\" }, VideoContent { ",
    "\" }, PdfFileContent { ",
];
/// Start of a single message outside a list.
const ALONE: &str = "messages=";
/// Start of a message's line.
const LINE_START: &str = "\n\t";

/// Returns the messages of a printed state as a list of chat messages.
pub(super) fn printed_messages(value: Value<'_>) -> Option<Decoded<'_>> {
    let text = value.as_str()?;
    let text = text.trim_end().strip_suffix('}').map_or(text, str::trim_end);
    let text = text.strip_suffix(']').map_or(text, str::trim_end);
    let mut messages = Vec::new();
    let mut begun: Option<(&str, &str)> = None;
    let mut is_alone = false;
    let mut from = 0;
    while let Some(at) = text[from..].find(LINE_START).map(|at| from + at) {
        let line = &text[at + LINE_START.len()..];
        let alone = line.strip_prefix(ALONE);
        let line = alone.unwrap_or(line);
        let begins = |(class, role): &(&str, &'static str)| {
            line.strip_prefix(class).map(|rest| (rest, *role))
        };
        let class = CLASSES.iter().find_map(begins);
        if let Some((rest, role)) = class {
            messages.extend(begun.and_then(|(body, role)| message(role, upto(body, text, at))));
            begun = Some((rest, role));
            is_alone = alone.is_some();
        }
        from = at + LINE_START.len();
    }
    messages.extend(begun.and_then(|(body, role)| {
        message(role, body).or_else(|| message(role, before_next_key(body, is_alone)?))
    }));
    (!messages.is_empty()).then_some(Decoded::Value(Value::List(messages)))
}

/// Returns the part of a body before an offset in the whole text, of which it is the end.
fn upto<'t>(body: &'t str, text: &str, at: usize) -> &'t str {
    body.get(..at.saturating_sub(text.len() - body.len())).unwrap_or(body)
}

/// Returns the last body without further keys of the state after the messages.
fn before_next_key(body: &str, is_alone: bool) -> Option<&str> {
    let end = if is_alone { "}\n\t" } else { "}\n\t]" };
    body.rfind(end).map(|at| &body[..=at])
}

/// Parses the fields of one message.
fn message(role: &str, body: &str) -> Option<Value<'static>> {
    let body = body.trim_end().strip_suffix('}')?.trim_end();
    let entry = |key: &'static str, value: Value<'static>| (key, value);
    let text = |text: &str| Value::from(text.to_owned());
    let mut fields = vec![entry("role", text(role))];
    match role {
        "tool" => {
            let (id, rest) = body.strip_prefix("id = \"")?.split_once("\" toolName = \"")?;
            let (name, rest) = rest.split_once("\" text = \"")?;
            let content = rest.strip_suffix('"')?;
            fields.push(entry("tool_call_id", text(id)));
            fields.push(entry("name", text(name)));
            fields.push(entry("content", text(content)));
        }
        "assistant" => {
            let (said, rest) = body.rsplit_once(CALLS)?;
            let said = between(said, "text = \"", "\", thinking = ").map(|(said, _)| said);
            let calls = rest.rsplit_once("], attributes = ")?.0;
            fields.push(entry("content", said.map_or(Value::Null, text)));
            let calls: Vec<_> = calls.split(CALL).skip(1).filter_map(call).collect();
            if !calls.is_empty() {
                fields.push(entry("tool_calls", Value::List(calls)));
            }
        }
        "user" => {
            let said: Vec<_> = body.split(TEXT).skip(1).filter_map(text_content).collect();
            if said.is_empty() {
                return None;
            }
            fields.push(entry("content", text(&said.join("\n"))));
        }
        _ => {
            let (said, _) = body.strip_prefix("text = \"")?.rsplit_once('"')?;
            fields.push(entry("content", text(said)));
        }
    }
    Some(Value::Map(fields.into_iter().collect::<Map<'_>>()))
}

/// Parses a text of a user's message, up to the next content.
fn text_content(printed: &str) -> Option<&str> {
    if let Some(at) = BEFORE_OTHERS.iter().filter_map(|end| printed.find(end)).min() {
        return Some(&printed[..at]);
    }
    let end = printed.rsplit_once(CONTENTS_END).map(|(said, _)| said);
    end.or_else(|| printed.strip_suffix("\" }, "))
}

/// Parses a call after the start of its id.
fn call(printed: &str) -> Option<Value<'static>> {
    let (id, rest) = printed.split_once("\", name = \"")?;
    let (name, rest) = rest.split_once("\", arguments = \"")?;
    let (arguments, _) = rest.rsplit_once("\" }")?;
    let text = |text: &str| Value::from(text.to_owned());
    let function = [("name", text(name)), ("arguments", text(arguments))];
    let function = Value::Map(function.into_iter().collect::<Map<'_>>());
    let fields = [("id", text(id)), ("type", text("function")), ("function", function)];
    Some(Value::Map(fields.into_iter().collect::<Map<'_>>()))
}

/// Returns the part between two texts, the last occurrence of the second, and the rest.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<(&'t str, &'t str)> {
    text.split_once(before)?.1.rsplit_once(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: &str, expected: &str) {
        let is_alone = messages.contains(ALONE);
        let list = format!("\n\tmessages=[{messages}\n\t]");
        let list = if is_alone { messages } else { &list };
        for keys in ["", "\n\tnext=FINISH", "\n\tdone=[\n\ta\n\t]\n\tleft=[b]"] {
            let state = format!("{{{list}{keys}\n}}");
            let read = printed_messages(state.as_str().into());
            let read = read.and_then(Decoded::value).map(|value| value.to_string());
            assert_eq!(read.unwrap_or_default(), expected, "{state}");
        }
    }

    #[test]
    fn texts_of_a_users_message_are_joined() {
        for (contents, expected) in [
            (r#"TextContent { text = "a" }, TextContent { text = "b" }"#, r"a\nb"),
            (r#"TextContent { text = "a" }, ImageContent { image = "i" }"#, "a"),
            (
                r#"ImageContent { image = "i" }, TextContent { text = "{"b": "c" }, d" }"#,
                r#"{\"b\": \"c\" }, d"#,
            ),
        ] {
            check(
                &format!("\n\tUserMessage {{ contents = [{contents}], attributes = {{}} }}"),
                &format!(r#"[{{"role":"user","content":"{expected}"}}]"#),
            );
        }
    }

    #[test]
    fn messages_are_read_up_to_the_next_one() {
        check("", "");
        check(
            "\n\tmessages=AiMessage { text = \"Hi\", thinking = null, toolExecutionRequests = [], \
             attributes = {} }",
            r#"[{"role":"assistant","content":"Hi"}]"#,
        );
        check(
            "\n\tSystemMessage { text = \"Be \"kind\".\" }",
            r#"[{"role":"system","content":"Be \"kind\"."}]"#,
        );
        check(
            concat!(
                "\n\tUserMessage { name = null, contents = [TextContent { text = \"a\n\tb }\" }], ",
                "attributes = {} }\n\tAiMessage { text = \"So: { }\", thinking = null, ",
                "toolExecutionRequests = [], attributes = {} }",
            ),
            concat!(
                r#"[{"role":"user","content":"a\n\tb }"},"#,
                r#"{"role":"assistant","content":"So: { }"}]"#,
            ),
        );
        check(
            concat!(
                "\n\tAiMessage { text = null, thinking = null, toolExecutionRequests = [",
                "ToolExecutionRequest { id = \"1\", name = \"find\", arguments = ",
                "\"{\"a\": {\"b\": \"c\" }}\" }, ToolExecutionRequest { id = \"2\", ",
                "name = \"get\", arguments = \"{}\" }], attributes = {} }",
                "\n\tToolExecutionResultMessage { id = \"1\" toolName = \"find\" ",
                "text = \"{\"d\": \"e\" }\" }",
            ),
            concat!(
                r#"[{"role":"assistant","content":null,"tool_calls":["#,
                r#"{"id":"1","type":"function","function":"#,
                r#"{"name":"find","arguments":"{\"a\": {\"b\": \"c\" }}"}},"#,
                r#"{"id":"2","type":"function","function":{"name":"get","arguments":"{}"}}]},"#,
                r#"{"role":"tool","tool_call_id":"1","name":"find","#,
                r#""content":"{\"d\": \"e\" }"}]"#,
            ),
        );
    }
}
