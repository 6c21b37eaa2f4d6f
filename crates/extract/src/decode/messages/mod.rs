//! Reader of model calls' messages in all their shapes.
//!
//! The shapes of [`api`] identify calls and results; this reader handles the nesting of messages
//! and their authors, in the envelopes of OpenAI, Anthropic, Gemini, LangChain, OpenInference and
//! others, and in Python's printed form.

mod author;
mod keys;
mod pieces;
mod tool;

use std::borrow::Cow;

use self::author::{Author, author, has_content, is_unsaid, is_users, part_text};
use self::keys::Members;
use self::pieces::{StreamedCall, first_piece};
use self::tool::{is_error, names_call, rounds_before};
use super::shapes::{block_text, joined_text, message_arguments, message_result};
use super::waiting::WaitingCalls;
use super::{Decoded, api, is_bracketed, json_or_text, repr};
use spanscore_base::value::{Map, Value};

/// Deepest searched nesting; deeper messages are not found.
const DEPTH_MAX: usize = 24;

/// Tool call in a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageCall<'a> {
    /// Id given by the model.
    pub id: Option<Cow<'a, str>>,
    /// Second id of the same call, in model APIs with two.
    pub item_id: Option<Cow<'a, str>>,
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// Arguments of the call.
    pub arguments: Decoded<'a>,
    /// Number of earlier places with a result between two calls: the calls of one turn are
    /// parallel.
    pub turn: u32,
}

impl MessageCall<'_> {
    /// Returns true if only the id of the model's output item is known.
    pub(super) fn is_item(&self) -> bool {
        self.id.is_none() && self.item_id.is_some()
    }
}

/// Tool result in a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MessageResult<'a> {
    /// Id of the call; empty if neither the result nor its call has one, or the call is unknown.
    pub id: Cow<'a, str>,
    /// Index of its call in [`Messages::calls`], if there.
    pub call: Option<u32>,
    /// Value returned by the tool.
    pub value: Value<'a>,
    /// True if it is marked as an error.
    pub is_error: bool,
}

/// Calls, results and last texts of a list of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Messages<'a> {
    /// Tool calls in order.
    pub calls: Vec<MessageCall<'a>>,
    /// Tool results in order.
    pub results: Vec<MessageResult<'a>>,
    /// Texts of users, and of operators with `false`.
    pub heard: Vec<(bool, Cow<'a, str>)>,
    /// Number of calls before a user's last message.
    pub before_user: usize,
    /// Text of the last model message with text.
    pub assistant: Option<Cow<'a, str>>,
    /// Turn of the last call; `answered` is the number of results before it.
    turn: u32,
    answered: usize,
    /// Number of models' texts.
    spoken: u32,
    waiting: WaitingCalls<'a>,
    /// Calls received in pieces.
    streamed: Vec<StreamedCall>,
    /// True if any message names its author.
    pub has_author: bool,
    /// Number of results before the last model message.
    behind_model: usize,
    /// Number of calls before each model message.
    pub begins: Vec<usize>,
}

impl<'a> Messages<'a> {
    /// Reads a value: a message, a list of them, an envelope, or the text of one of these.
    pub(crate) fn read(value: Value<'a>) -> Self {
        let mut messages = Self::default();
        messages.walk(value, Author::Unknown, 0);
        messages.end_pieces();
        messages
    }

    /// Returns true if a user wrote any text.
    pub(crate) fn has_user(&self) -> bool {
        self.heard.iter().any(|(is_users, _)| *is_users)
    }

    /// Returns the text of a user's last message.
    pub(crate) fn into_user(self) -> Option<Cow<'a, str>> {
        self.heard.into_iter().rev().find(|(is_users, _)| *is_users).map(|(_, text)| text)
    }

    /// Returns true if a value has messages, without reading them; `None` if only reading decides.
    pub(crate) fn are_in(value: &Value<'_>) -> Option<bool> {
        keys::holds_messages(value, 0)
    }

    /// Returns the messages after the user's last one in a state with a whole conversation; `None`
    /// without one.
    pub(crate) fn last_turn(value: Value<'a>) -> Option<Value<'a>> {
        let mut value = json_or_text(value);
        for _ in 0..DEPTH_MAX {
            match value {
                Value::Map(mut map) => {
                    let key = map.iter().find(|(_, inner)| inner.as_list().is_some_and(is_chat));
                    let key = key.map(|(key, _)| key.to_owned());
                    value = match key.and_then(|key| map.remove(&key)) {
                        Some(list) => list,
                        None if map.len() == 1 => map.into_entries().pop()?.1,
                        None => return None,
                    };
                }
                Value::List(mut messages) => {
                    let last = messages.iter().rposition(is_users)?;
                    return Some(Value::List(messages.split_off(last + 1)));
                }
                _ => return None,
            }
        }
        None
    }

    /// Returns the results after the last model message without a call in these messages.
    pub(crate) fn loose_results(&self) -> impl Iterator<Item = &MessageResult<'a>> {
        let behind = self.results.get(self.behind_model..).unwrap_or_default();
        behind.iter().filter(|result| result.call.is_none() && result.id.is_empty())
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
            Value::String(text) => match printed(&text, author) {
                Some(map) => self.map(map, author, depth + 1),
                None => self.text(text, author, depth),
            },
            _ => {}
        }
    }

    fn list(&mut self, items: Vec<Value<'a>>, author: Author, depth: usize) {
        if matches!(author, Author::User | Author::Assistant) {
            let is_text =
                |item: &Value<'_>| block_text(item).is_some_and(|text| !prints_call(text));
            let texts = items.iter().filter(|item| is_text(item)).filter_map(block_text);
            let texts: Vec<&str> = texts.collect();
            if !texts.is_empty() {
                let joined = texts.concat();
                self.text(Cow::Owned(joined), author, depth);
            }
            for item in items.into_iter().filter(|item| !is_text(item)) {
                self.walk(item, author, depth + 1);
            }
            return;
        }
        for item in items {
            self.walk(item, author, depth + 1);
        }
    }

    fn text(&mut self, text: Cow<'a, str>, author: Author, depth: usize) {
        // A list of content blocks may be written as a text.
        let text = if text.starts_with("[{\"") && author != Author::Unknown {
            match json_or_text(Value::from(&*text)).as_list().and_then(joined_text) {
                Some(joined) => Cow::Owned(joined),
                None => text,
            }
        } else {
            text
        };
        let text = match author {
            Author::User => match self.replies(text, depth) {
                Some(text) => text,
                None => return,
            },
            _ => text,
        };
        match author {
            Author::User => {
                self.heard.push((true, text));
                self.before_user = self.calls.len();
            }
            Author::Assistant if !text.is_empty() => {
                self.assistant = Some(text);
                self.spoken += 1;
            }
            Author::Operator => self.heard.push((false, text)),
            _ => {}
        }
    }

    fn map(&mut self, mut map: Map<'a>, outer: Author, depth: usize) {
        let is_marked = api::may_be_marked(&map);
        if depth > DEPTH_MAX || is_marked && (self.call(&mut map) || self.result(&mut map)) {
            return;
        }
        // A bit may outlive its member, which is removed below: the look-up then finds nothing.
        let members = Members::of(&map);
        let own_author = if members.say_author() { author(&map) } else { None };
        let author = own_author.unwrap_or(outer);
        self.has_author |= own_author.is_some();
        if own_author == Some(Author::Assistant) {
            self.behind_model = self.results.len();
            self.begins.push(self.calls.len());
        }
        let is_reply =
            author == Author::Tool || own_author == Some(Author::User) && names_call(&map);
        if is_reply && self.tool_message(&mut map) || members.say_author() && is_unsaid(&map, outer)
        {
            return;
        }
        if members.say_author()
            && let Some(text) = part_text(&map)
        {
            match printed(text, author) {
                Some(map) => self.map(map, author, depth + 1),
                None => self.text(Cow::Owned(text.to_owned()), author, depth),
            }
            return;
        }
        let said_nothing = own_author == Some(Author::Assistant) && has_content(&map);
        let before = (self.calls.len(), self.spoken);
        if members.have_rounds()
            && let Some(rounds) = rounds_before(&mut map)
        {
            self.list(rounds, author, depth + 1);
        }
        for key in members.envelopes() {
            if let Some(inner) = map.remove(key) {
                let is_calls = matches!(key, "tool_calls" | "toolCalls");
                let inner = if is_calls { json_or_text(inner) } else { inner };
                self.walk(inner, author, depth + 1);
            }
        }
        // A model without a tool request and text has given an empty answer.
        if said_nothing && before == (self.calls.len(), self.spoken) {
            self.assistant = Some(Cow::Borrowed(""));
        }
    }

    /// Reads a call of any shape; returns true if the object is one.
    fn call(&mut self, map: &mut Map<'a>) -> bool {
        if api::is_result(map) {
            return false;
        }
        if let Some(key) = api::call_in(map)
            && let Some(Value::Map(mut inner)) = map.remove(key)
        {
            return self.call_fields(&mut inner);
        }
        if self.piece(map) {
            return true;
        }
        if !api::is_call(map) {
            return false;
        }
        if let Some(first) = first_piece(map) {
            let is_call = self.call_fields(map);
            self.begin_pieces(is_call.then_some(first));
            return is_call;
        }
        let Some(failed) = map.remove("success") else { return self.call_fields(map) };
        // The event of a finished call has its result too.
        let is_error = matches!(&failed, Value::Bool(false))
            || failed.as_str().is_some_and(|text| text == "false");
        let id = map.get("tool_use_id").or_else(|| map.get("call_id")).and_then(Value::as_str);
        let id = id.map(|id| Cow::Owned(id.to_owned()));
        let output = map.remove("output");
        let told = if is_error { map.get("error").cloned().or(output) } else { output };
        let is_call = self.call_fields(map);
        if is_call && (is_error || told.is_some()) {
            self.push_result(id, None, told.unwrap_or_default(), is_error);
        }
        is_call
    }

    fn call_fields(&mut self, map: &mut Map<'a>) -> bool {
        let ids =
            ["call_id", "toolCallId", "toolUseId", "tool_use_id", "tool_call_id", "ref", "callId"];
        let mut own_id = take_text(map, &ids);
        let mut item_id = take_text(map, &["id"]);
        // Items of OpenAI's Responses have an id in addition to `call_id`, prefixed `fc_`.
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
        let Some(name) = take_text(map, &NAMES) else { return false };
        let arguments = ["arguments", "args", "input", "parameters", "tool_kwargs"]
            .into_iter()
            .find_map(|key| map.remove(key))
            .map_or_else(|| event_arguments(map), message_arguments);
        let answered = self.results.len();
        if self.calls.last().is_some() && answered != self.answered {
            self.turn += 1;
        }
        self.answered = answered;
        self.calls.push(MessageCall { id, item_id, name, arguments, turn: self.turn });
        true
    }

    /// Reads a result of any shape except a whole message; returns true if the object is one.
    fn result(&mut self, map: &mut Map<'a>) -> bool {
        if let Some(key) = api::result_in(map)
            && let Some(Value::Map(mut inner)) = map.remove(key)
        {
            return self.result_fields(&mut inner);
        }
        api::is_result(map) && self.result_fields(map)
    }

    fn result_fields(&mut self, map: &mut Map<'a>) -> bool {
        let ids =
            ["call_id", "tool_use_id", "toolUseId", "toolCallId", "tool_call_id", "ref", "id"];
        let is_error = is_error(map);
        // Some shapes repeat the call next to its result.
        let mut call = ["origin", "call"].into_iter().find_map(|key| match map.remove(key) {
            Some(Value::Map(call)) => Some(call),
            _ => None,
        });
        let mut take = |keys: &[&str]| {
            take_text(map, keys).or_else(|| call.as_mut().and_then(|call| take_text(call, keys)))
        };
        let id = take(&ids);
        let name = take(&NAMES);
        let value = ["response", "result", "output", "content", "outputs"]
            .into_iter()
            .find_map(|key| map.remove(key))
            .or_else(|| map.remove("server_tool_call_response").map(untyped))
            .unwrap_or_default();
        self.push_result(id, name, value, is_error);
        true
    }

    fn push_result(
        &mut self,
        id: Option<Cow<'a, str>>,
        name: Option<Cow<'a, str>>,
        value: Value<'a>,
        is_error: bool,
    ) {
        let calls = &self.calls;
        let waiting = &mut self.waiting;
        let mut call = waiting.call_of(calls, id.as_deref(), name.as_deref());
        if call.is_none() && id.is_none() {
            call = waiting.call_of(calls, None, None);
        }
        // A call without a known id gets that of its result.
        if let (Some(at), Some(id)) = (call, &id)
            && let Some(call) = self.calls.get_mut(at as usize)
            && call.is_item()
        {
            call.id = Some(id.clone());
            self.waiting.identify(at, id.clone());
        }
        let of_call = call.and_then(|at| self.calls.get(at as usize)?.id.clone());
        let id = of_call.or(id).unwrap_or_default();
        call.into_iter().for_each(|call| self.waiting.answer(call));
        let (value, is_error) = match value {
            // The Vercel AI SDK writes the output's type next to it.
            Value::Map(mut map) if map.get("type").is_some() && map.get("value").is_some() => {
                let failed = api::kind(&map).is_some_and(|kind| kind.starts_with("error"));
                (map.remove("value").unwrap_or_default(), is_error || failed)
            }
            value => (value, is_error),
        };
        self.results.push(MessageResult { id, call, value: message_result(value), is_error });
    }
}

/// Keys of a tool's name.
const NAMES: [&str; 3] = ["name", "tool_name", "toolName"];

/// Reads the arguments in the event of a finished call; such events omit nested values.
fn event_arguments<'a>(map: &mut Map<'a>) -> Decoded<'a> {
    match map.remove("tool_input") {
        Some(Value::String(text)) if text.contains("\"<nested>\"") => Decoded::Unreadable(text),
        Some(input) => message_arguments(input),
        None => match map.remove("server_tool_call") {
            Some(told) => Decoded::Value(untyped(told)),
            None => Decoded::Value(Value::Null),
        },
    }
}

/// Removes the kind of tool (`type`) from a server tool's call or result.
fn untyped(mut told: Value<'_>) -> Value<'_> {
    if let Value::Map(map) = &mut told {
        map.remove("type");
    }
    told
}

/// Returns true if a list has a user's message.
fn is_chat(items: &[Value<'_>]) -> bool {
    items.iter().any(is_users)
}

/// Parses the object printed by a text: a message of any author, or a model's call.
fn printed(text: &str, author: Author) -> Option<Map<'static>> {
    let may = match author {
        Author::Unknown | Author::Tool => repr::may_print_fields(text),
        Author::Assistant => prints_call(text),
        Author::User | Author::Operator | Author::Other => false,
    };
    if !may {
        return None;
    }
    let map = repr::fields(text)?;
    let counts = author != Author::Assistant || api::is_call(&map);
    counts.then_some(map)
}

/// Returns true if a text starts like a call printed by Python: `ResponseFunctionToolCall(...)`.
fn prints_call(text: &str) -> bool {
    let name = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let name = &text[..name.count()];
    name.ends_with("Call") && text[name.len()..].starts_with('(') && text.ends_with(')')
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
