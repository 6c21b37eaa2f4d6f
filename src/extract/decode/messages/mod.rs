//! The messages of model calls, in whatever shape they were written.
//!
//! One reader knows the shapes of OpenTelemetry (parts), OpenAI (chat and responses), Anthropic,
//! Bedrock, Gemini, Genkit, the Vercel AI SDK, LangChain and OpenInference: what marks a call or a
//! result differs from shape to shape, so none is mistaken for another.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::shapes::{block_text, joined_text, message_arguments, message_result};
use super::{Decoded, is_bracketed, json_or_text};
use crate::value::{Map, Value};

/// Deepest nesting that is searched; what lies deeper is not found.
const DEPTH_MAX: usize = 24;

/// A tool call in a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageCall<'a> {
    /// The id that the model gave it.
    pub id: Option<Cow<'a, str>>,
    /// A second id of the same call, where the model's interface has two.
    pub item_id: Option<Cow<'a, str>>,
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// The arguments.
    pub arguments: Decoded<'a>,
    /// How many times a result stands between a call and the next before this call: calls with no
    /// result between them were made together.
    pub turn: u32,
}

/// A tool's result in a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageResult<'a> {
    /// The id of the call; empty where neither the result nor its call has one.
    pub id: Cow<'a, str>,
    /// Place of its call among [`Messages::calls`], where these messages hold it.
    pub call: Option<u32>,
    /// What the tool gave back.
    pub value: Value<'a>,
    /// Whether it is marked as an error.
    pub is_error: bool,
}

/// What a list of messages holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Messages<'a> {
    /// The tool calls in order.
    pub calls: Vec<MessageCall<'a>>,
    /// The tool results in order.
    pub results: Vec<MessageResult<'a>>,
    /// The text of the last message of a user.
    pub user: Option<Cow<'a, str>>,
    /// The text of the last message of a model that has one.
    pub assistant: Option<Cow<'a, str>>,
    /// The turn of the last call, and the number of results before it.
    turn: u32,
    answered: usize,
    /// How many texts of models there were.
    spoken: u32,
    /// The places of the calls that have a result.
    answered_calls: HashSet<u32>,
    /// Whether any message says who wrote it.
    pub has_author: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Author {
    Unknown,
    User,
    Assistant,
    Tool,
    Other,
}

impl<'a> Messages<'a> {
    /// Reads a value: a message, a list of them, or an envelope around them; or the text of one.
    pub(crate) fn read(value: Value<'a>) -> Self {
        let mut messages = Self::default();
        messages.walk(value, Author::Unknown, 0);
        messages
    }

    fn walk(&mut self, value: Value<'a>, author: Author, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::List(items) => self.list(items, author, depth),
            Value::Map(map) => self.map(map, author, depth),
            Value::String(text) if author == Author::Unknown && is_bracketed(&text) => {
                match json_or_text(Value::String(text)) {
                    Value::String(_) => {}
                    value => self.walk(value, author, depth + 1),
                }
            }
            Value::String(text) => self.text(text, author),
            _ => {}
        }
    }

    fn list(&mut self, items: Vec<Value<'a>>, author: Author, depth: usize) {
        if matches!(author, Author::User | Author::Assistant) {
            let texts: Vec<&str> = items.iter().filter_map(block_text).collect();
            if !texts.is_empty() {
                let joined = texts.concat();
                self.text(Cow::Owned(joined), author);
            }
            for item in items.into_iter().filter(|item| block_text(item).is_none()) {
                self.walk(item, author, depth + 1);
            }
            return;
        }
        for item in items {
            self.walk(item, author, depth + 1);
        }
    }

    fn text(&mut self, text: Cow<'a, str>, author: Author) {
        // Content that is a list of blocks may be written as a text.
        let text = if text.starts_with("[{\"") && author != Author::Unknown {
            match json_or_text(Value::from(&*text)).as_list().and_then(joined_text) {
                Some(joined) => Cow::Owned(joined),
                None => text,
            }
        } else {
            text
        };
        match author {
            Author::User => self.user = Some(text),
            Author::Assistant if !text.is_empty() => {
                self.assistant = Some(text);
                self.spoken += 1;
            }
            _ => {}
        }
    }

    fn map(&mut self, mut map: Map<'a>, outer: Author, depth: usize) {
        if self.call(&mut map) || self.result(&mut map) {
            return;
        }
        let own_author = author(&map);
        let author = own_author.unwrap_or(outer);
        self.has_author |= own_author.is_some();
        if author == Author::Tool && self.tool_message(&mut map) {
            return;
        }
        if let Some(text) = part_text(&map) {
            let text = text.to_owned();
            self.text(Cow::Owned(text), author);
            return;
        }
        let said_nothing = own_author == Some(Author::Assistant) && has_content(&map);
        let before = (self.calls.len(), self.spoken);
        // In the order in which they are to be read: a message's text before its calls.
        for key in ENVELOPES {
            if let Some(inner) = map.remove(key) {
                self.walk(inner, author, depth + 1);
            }
        }
        // A model that asks for no tool and says nothing has given an empty answer.
        if said_nothing && before == (self.calls.len(), self.spoken) {
            self.assistant = Some(Cow::Borrowed(""));
        }
    }

    /// A call of any shape.
    fn call(&mut self, map: &mut Map<'a>) -> bool {
        if is_result(map) {
            return false;
        }
        for key in ["tool_call", "toolUse", "toolRequest", "functionCall", "function_call"] {
            if map.get(key).is_some_and(|inner| inner.as_map().is_some())
                && let Some(Value::Map(mut inner)) = map.remove(key)
            {
                return self.call_fields(&mut inner);
            }
        }
        let typed = matches!(
            kind(map),
            Some("tool_call" | "function_call" | "tool_use" | "tool-call" | "mcp_call")
        );
        let shaped = map.get("function").is_some_and(|inner| inner.get("name").is_some())
            || map.get("toolCallId").is_some()
            || (map.get("name").is_some()
                && (map.get("args").is_some() || map.get("arguments").is_some()));
        (typed || shaped) && self.call_fields(map)
    }

    fn call_fields(&mut self, map: &mut Map<'a>) -> bool {
        let mut own_id = take_text(map, &["call_id", "toolCallId", "toolUseId", "ref"]);
        let mut item_id = take_text(map, &["id"]);
        // The items of OpenAI's Responses have ids of their own beside the calls'.
        if own_id.is_none() && !item_id.as_ref().is_some_and(|id| id.starts_with("fc_")) {
            own_id = item_id.take();
        }
        if let Some(Value::Map(mut function)) = map.remove("function") {
            return self.push_call(own_id, item_id, &mut function);
        }
        self.push_call(own_id, item_id, map)
    }

    fn push_call(
        &mut self,
        id: Option<Cow<'a, str>>,
        item_id: Option<Cow<'a, str>>,
        map: &mut Map<'a>,
    ) -> bool {
        let Some(name) = take_text(map, &["name", "toolName"]) else { return false };
        let arguments = ["arguments", "args", "input", "parameters"]
            .into_iter()
            .find_map(|key| map.remove(key))
            .map_or(Decoded::Value(Value::Null), message_arguments);
        let answered = self.results.len();
        if self.calls.last().is_some() && answered != self.answered {
            self.turn += 1;
        }
        self.answered = answered;
        self.calls.push(MessageCall { id, item_id, name, arguments, turn: self.turn });
        true
    }

    /// A result of any shape but a whole message.
    fn result(&mut self, map: &mut Map<'a>) -> bool {
        for key in ["toolResult", "toolResponse", "functionResponse", "function_response"] {
            if let Some(Value::Map(mut inner)) = map.remove(key) {
                return self.result_fields(&mut inner);
            }
        }
        is_result(map) && self.result_fields(map)
    }

    fn result_fields(&mut self, map: &mut Map<'a>) -> bool {
        let ids =
            ["call_id", "tool_use_id", "toolUseId", "toolCallId", "tool_call_id", "ref", "id"];
        let is_error = is_error(map);
        let (id, name) = (take_text(map, &ids), take_text(map, &NAMES));
        let value = ["response", "result", "output", "content"]
            .into_iter()
            .find_map(|key| map.remove(key))
            .unwrap_or_default();
        self.push_result(id, name, value, is_error);
        true
    }

    /// The call that a result belongs to: that of its id, else the first without a result, of its
    /// tool where it names one.
    fn call_of(&self, id: Option<&str>, name: Option<&str>) -> Option<u32> {
        let waits = |at: &usize| !self.answered_calls.contains(&(*at as u32));
        let mut places = 0..self.calls.len();
        if let Some(id) = id {
            let has_id = |at: &usize| self.calls[*at].id.as_deref() == Some(id);
            let same = places.clone().filter(waits).find(has_id);
            if let Some(at) = same.or_else(|| places.clone().rev().find(has_id)) {
                return Some(at as u32);
            }
            // An id that no call has belongs to a call of that tool that has another one.
            name?;
        }
        let of_tool = |at: &usize| name.is_none_or(|name| self.calls[*at].name == name);
        places.find(|at| waits(at) && of_tool(at)).map(|at| at as u32)
    }

    fn push_result(
        &mut self,
        id: Option<Cow<'a, str>>,
        name: Option<Cow<'a, str>>,
        value: Value<'a>,
        is_error: bool,
    ) {
        let mut call = self.call_of(id.as_deref(), name.as_deref());
        if call.is_none() && id.is_none() {
            call = self.call_of(None, None);
        }
        let of_call = call.and_then(|at| self.calls.get(at as usize)?.id.clone());
        let Some(id) = of_call.or(id).or(call.map(|_| Cow::Borrowed(""))) else { return };
        self.answered_calls.extend(call);
        let (value, is_error) = match value {
            // The Vercel AI SDK tells the kind of the output beside it.
            Value::Map(mut map) if map.get("type").is_some() && map.get("value").is_some() => {
                let failed = kind(&map).is_some_and(|kind| kind.starts_with("error"));
                (map.remove("value").unwrap_or_default(), is_error || failed)
            }
            value => (value, is_error),
        };
        self.results.push(MessageResult { id, call, value: message_result(value), is_error });
    }

    /// A message of the role `tool` that names its call.
    fn tool_message(&mut self, map: &mut Map<'a>) -> bool {
        for inner in ["data", "kwargs"] {
            if let Some(Value::Map(fields)) = map.get(inner)
                && fields.get("tool_call_id").is_some()
                && let Some(Value::Map(mut fields)) = map.remove(inner)
            {
                return self.tool_message(&mut fields);
            }
        }
        let is_error = is_error(map);
        // A log event of a tool message carries the call's id as `id`.
        let id = take_text(map, &["tool_call_id", "id"]);
        let is_content = |key: &&str| {
            map.get(key).is_some_and(|content| id.is_some() || !holds_results(content))
        };
        let Some(key) = ["content", "contents", "output"].into_iter().find(is_content) else {
            return false;
        };
        let name = take_text(map, &NAMES);
        let value = map.remove(key).unwrap_or_default();
        self.push_result(id, name, unwrap_contents(value), is_error);
        true
    }
}

/// Keys of the tool that a result is of.
const NAMES: [&str; 3] = ["name", "tool_name", "toolName"];

/// Whether the content of a tool's message is a list of results that name their calls themselves.
fn holds_results(content: &Value<'_>) -> bool {
    let Some(items) = content.as_list() else { return false };
    items.iter().filter_map(Value::as_map).any(|map| {
        is_result(map)
            || ["toolResult", "functionResponse", "function_response", "tool_call_result"]
                .iter()
                .any(|key| map.get(key).is_some())
    })
}

/// Keys under which messages, or parts of them, stand.
const ENVELOPES: [&str; 20] = [
    "messages",
    "message",
    "message_content",
    "choices",
    "generations",
    "data",
    "kwargs",
    "response",
    "output",
    "input",
    "blocks",
    "contents",
    "content",
    "parts",
    "text",
    "tool_calls",
    "toolCalls",
    "function_call",
    "update",
    "result",
];

fn kind<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("type").and_then(Value::as_str)
}

fn is_result(map: &Map<'_>) -> bool {
    match kind(map) {
        Some(
            "tool_call_response"
            | "function_call_output"
            | "tool_result"
            | "tool-result"
            | "mcp_call_output",
        ) => true,
        Some(_) => false,
        None => map.get("toolCallId").is_some() && map.get("result").is_some(),
    }
}

fn is_error(map: &Map<'_>) -> bool {
    let flag = ["is_error", "isError"].iter().any(|key| map.get(key) == Some(&Value::Bool(true)));
    flag || map.get("status").and_then(Value::as_str) == Some("error")
}

/// Whether a message has content, be it empty.
fn has_content(map: &Map<'_>) -> bool {
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

/// Who wrote a message, if the object is one.
fn author(map: &Map<'_>) -> Option<Author> {
    let role = map.get("role").and_then(Value::as_str).or_else(|| match kind(map) {
        Some(kind @ ("human" | "ai" | "system" | "tool")) => Some(kind),
        _ => lang_chain_class(map),
    })?;
    Some(match role {
        "user" | "human" | "HumanMessage" => Author::User,
        "assistant" | "model" | "ai" | "AIMessage" => Author::Assistant,
        "tool" | "function" | "ToolMessage" | "tool-response" => Author::Tool,
        _ => Author::Other,
    })
}

/// The class of a message in LangChain's own serialisation: the last item of `id`.
fn lang_chain_class<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    map.get("lc")?;
    map.get("id")?.as_list()?.last()?.as_str()
}

/// The text of a part that is nothing but text.
fn part_text<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    if map.get("role").is_some() {
        return None;
    }
    match kind(map).or_else(|| map.get("block_type").and_then(Value::as_str)) {
        Some("text" | "input_text" | "output_text") => {
            map.get("text").or_else(|| map.get("content")).and_then(Value::as_str)
        }
        _ => None,
    }
}

/// OpenInference wraps each block once more.
fn unwrap_contents(value: Value<'_>) -> Value<'_> {
    match value {
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

fn take_text<'a>(map: &mut Map<'a>, keys: &[&str]) -> Option<Cow<'a, str>> {
    keys.iter().find_map(|key| match map.get(key)? {
        Value::String(text) if !text.is_empty() => match map.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    })
}
