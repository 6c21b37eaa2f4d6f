//! Pieces of a streamed call, exported as received: the first one names the tool, the others have
//! the rest of its arguments.

use std::borrow::Cow;

use super::super::shapes::message_arguments;
use super::super::{Decoded, json_or_text};
use super::Messages;
use spanscore_base::value::{Map, Value, json};

/// Call with a received first piece.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StreamedCall {
    /// Index in [`Messages::calls`].
    call: usize,
    /// Number of the call in the stream.
    index: i64,
    /// Arguments so far.
    text: String,
    /// Parser state, so that the text is not parsed again with each piece.
    brackets: OpenBrackets,
}

/// Open brackets at the end of a JSON text so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OpenBrackets {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// True once the first bracket is closed.
    is_whole: bool,
}

impl OpenBrackets {
    fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                _ if self.is_in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_whole |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

/// Limit on concurrent calls of a stream.
const UNDER_WAY_MAX: usize = 16;

impl<'a> Messages<'a> {
    /// Adds a piece to its call; returns false if the object is none.
    pub(super) fn piece(&mut self, map: &Map<'a>) -> bool {
        let Some((index, function)) = streamed(map) else { return false };
        let is_silent = |map: &Map<'_>, key: &str, known: Option<&str>| {
            let said = map.get(key).and_then(Value::as_str).filter(|said| !said.is_empty());
            said.is_none() || said == known
        };
        let mut under_way = self.streamed.iter_mut().rev().take(UNDER_WAY_MAX);
        let Some(known) = under_way.find(|known| known.index == index) else { return false };
        let Some(call) = self.calls.get_mut(known.call) else { return false };
        let is_its = is_silent(map, "id", call.id.as_deref())
            && is_silent(function, "name", Some(&call.name))
            && !known.brackets.is_whole;
        let Some(text) = function.get("arguments").and_then(Value::as_str) else { return is_its };
        if is_its {
            known.text.push_str(text);
            known.brackets.read(text);
            let read = known
                .brackets
                .is_whole
                .then(|| json_or_text(Value::from(&*known.text)).into_owned());
            call.arguments = match read {
                Some(Value::String(_)) | None => Decoded::Unreadable(Cow::Borrowed("")),
                Some(value) => message_arguments(value),
            };
        }
        is_its
    }

    /// Registers the last call if its object was the first piece of a stream.
    pub(super) fn begin_pieces(&mut self, first: Option<(i64, String)>) {
        if let (Some((index, text)), Some(call)) = (first, self.calls.len().checked_sub(1)) {
            let mut brackets = OpenBrackets::default();
            brackets.read(&text);
            self.streamed.push(StreamedCall { call, index, text, brackets });
        }
    }

    /// Assigns the available text to the calls without complete arguments.
    pub(super) fn end_pieces(&mut self) {
        for streamed in self.streamed.drain(..) {
            if let Some(call) = self.calls.get_mut(streamed.call)
                && matches!(&call.arguments, Decoded::Unreadable(text) if text.is_empty())
            {
                call.arguments = Decoded::Unreadable(Cow::Owned(streamed.text));
            }
        }
    }
}

/// Returns the number of a call in a stream, and its function.
fn streamed<'m, 'a>(map: &'m Map<'a>) -> Option<(i64, &'m Map<'a>)> {
    let Some(Value::Number(index)) = map.get("index") else { return None };
    Some((index.as_i64()?, map.get("function")?.as_map()?))
}

/// Returns the number and the arguments of a call that may be the first piece of a stream: complete
/// arguments are no piece.
pub(super) fn first_piece(map: &Map<'_>) -> Option<(i64, String)> {
    let (index, function) = streamed(map)?;
    let text = function.get("arguments").and_then(Value::as_str).unwrap_or_default();
    json::parse(text).is_err().then(|| (index, text.to_owned()))
}
