//! Contents of a trajectory in the form for external evaluators.

use super::proto::{ContentMessage, ContentState};
use spanscore_base::model::Content;
use spanscore_base::value::Value;

/// Limit on the bytes sent of one content; longer ones are visibly truncated.
const CONTENT_BYTES_MAX: usize = 256 << 10;

/// Converts a content to a message, whole at any length; `None` if unrecorded.
pub(crate) fn message(content: &Content<'_>) -> Option<ContentMessage> {
    match content {
        Content::NotRecorded => None,
        Content::Redacted => Some(ContentMessage {
            state: ContentState::Redacted as i32,
            ..ContentMessage::default()
        }),
        Content::Unreadable(text) => {
            let mut message = text_message(text);
            message.state = ContentState::Truncated as i32;
            Some(message)
        }
        Content::Recorded(lazy) => Some(match lazy.get() {
            Value::String(text) => text_message(text),
            other => ContentMessage { json: true, ..text_message(&other.to_string()) },
        }),
    }
}

/// Converts a text to a message.
pub(crate) fn text_message(text: &str) -> ContentMessage {
    ContentMessage {
        value: text.to_owned(),
        json: false,
        state: ContentState::Full as i32,
        bytes_full: text.len() as u64,
    }
}

/// Truncates a long content, and marks it.
pub(super) fn cut(message: &mut ContentMessage) {
    if message.value.len() > CONTENT_BYTES_MAX {
        message.value.truncate(message.value.floor_char_boundary(CONTENT_BYTES_MAX));
        // A part of a JSON text is invalid.
        (message.json, message.state) = (false, ContentState::Truncated as i32);
    }
}

/// Returns a content as a value; null if unreadable.
pub(super) fn value(content: &Content<'_>) -> Value<'static> {
    match content {
        Content::NotRecorded | Content::Redacted => Value::Null,
        Content::Unreadable(text) => Value::from(text.to_string()),
        Content::Recorded(lazy) => match lazy.get() {
            // Distinct from an unrecorded content.
            Value::Null => Value::from("null"),
            value => value.clone().into_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::value::json;

    fn check(content: Content<'_>, value: &str, is_json: bool, state: ContentState) {
        let message = message(&content).expect("something is there");
        assert_eq!((message.value.as_str(), message.json), (value, is_json));
        assert_eq!(message.state, state as i32);
    }

    #[test]
    fn contents_say_what_they_are_and_how_much_of_it_there_is() {
        assert_eq!(message(&Content::NotRecorded), None);
        check(Content::Redacted, "", false, ContentState::Redacted);
        check(Content::Unreadable("[1".into()), "[1", false, ContentState::Truncated);
        check(Content::ready("[1]".into()), "[1]", false, ContentState::Full);
        let list = Content::ready(json::parse("[1, 2]").expect("a list"));
        check(list, "[1,2]", true, ContentState::Full);
    }

    #[test]
    fn a_long_content_is_cut_at_a_letter_and_says_so() {
        let long = "ä".repeat(CONTENT_BYTES_MAX);
        let message = message(&Content::ready(Value::from(vec![Value::from(long)])));
        let mut message = message.expect("it is there");
        cut(&mut message);
        assert!(message.value.len() <= CONTENT_BYTES_MAX);
        assert_eq!((message.json, message.state), (false, ContentState::Truncated as i32));
        assert_eq!(message.bytes_full, 2 * CONTENT_BYTES_MAX as u64 + 4);
    }
}
