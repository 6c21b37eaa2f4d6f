//! Tool calls of an agent: name, arguments and result.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;
use strum::IntoStaticStr;

use super::SpanId;
use crate::value::Value;

/// Content of a span, or the reason that there is none.
///
/// "Not recorded" (absent, redacted, cut off, a placeholder) is never the same as empty.
#[derive(Default)]
pub enum Content<'a> {
    /// Absent from the telemetry.
    #[default]
    NotRecorded,
    /// A placeholder or a redaction replaces the content.
    Redacted,
    /// Content that is cut off by a length limit, or not in its instrumentation's format. Holds the
    /// available text.
    Unreadable(Cow<'a, str>),
    /// Content, decoded on first use.
    Recorded(Lazy<'a>),
}

/// Value decoded once, on first use.
pub struct Lazy<'a>(LazyValue<'a>);

enum LazyValue<'a> {
    Own(OnceCell<Value<'a>>, Option<Decoding<'a>>),
    Shared(Arc<Value<'a>>),
}

type Decoding<'a> = Box<dyn Fn() -> Value<'a> + Send + 'a>;

impl<'a> Lazy<'a> {
    /// Returns a decoded value.
    pub fn ready(value: Value<'a>) -> Self {
        Self(LazyValue::Own(OnceCell::from(value), None))
    }

    /// Returns a shared decoded value.
    pub fn shared(value: Arc<Value<'a>>) -> Self {
        Self(LazyValue::Shared(value))
    }

    /// Returns a value that `decode` yields on first use.
    pub fn new(decode: impl Fn() -> Value<'a> + Send + 'a) -> Self {
        Self(LazyValue::Own(OnceCell::new(), Some(Box::new(decode))))
    }

    /// Returns true if the value is decoded.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            LazyValue::Own(value, _) => value.get().is_some(),
            LazyValue::Shared(_) => true,
        }
    }

    /// Returns the decoded value.
    pub fn get(&self) -> &Value<'a> {
        match &self.0 {
            LazyValue::Own(value, decode) => {
                value.get_or_init(|| decode.as_ref().map_or(Value::Null, |decode| decode()))
            }
            LazyValue::Shared(value) => value,
        }
    }
}

impl<'a> Content<'a> {
    /// Returns decoded content.
    pub fn ready(value: Value<'a>) -> Self {
        Self::Recorded(Lazy::ready(value))
    }

    /// Returns decoded content that calls share: it is stored once.
    pub fn shared(value: Arc<Value<'a>>) -> Self {
        Self::Recorded(Lazy::shared(value))
    }

    /// Returns the value, if recorded and readable.
    pub fn value(&self) -> Option<&Value<'a>> {
        match self {
            Self::Recorded(lazy) => Some(lazy.get()),
            _ => None,
        }
    }

    /// Returns the value as [text](Value::to_text), empty if there is none.
    pub fn to_text(&self) -> Cow<'_, str> {
        self.value().map(Value::to_text).unwrap_or_default()
    }

    /// Returns true if none of it is known.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::NotRecorded | Self::Redacted)
    }

    /// Returns true if there is a readable value.
    pub fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }
}

/// Status of a tool call after its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CallStatus {
    /// The call returned.
    Ok,
    /// The call failed.
    Error,
    /// Absent from the telemetry, as for a call that only a model's message records.
    #[default]
    Unknown,
}

impl CallStatus {
    /// Returns its name in records.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Part of the telemetry that records a tool call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Origin {
    /// On a span of its own.
    #[default]
    Span,
    /// Only in the messages of a language model's span.
    Llm,
}

impl Origin {
    /// Returns its name in records.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One call of a tool.
#[derive(Default)]
pub struct ToolCall<'a> {
    /// The tool's name as recorded.
    pub name: Cow<'a, str>,
    /// The id that the model gave the call.
    pub id: Option<Cow<'a, str>>,
    /// The arguments; an object if the instrumentation records one.
    pub arguments: Content<'a>,
    /// The returned value.
    pub result: Content<'a>,
    /// The error's text; `None` when the call did not fail or no text is recorded.
    pub error: Option<Cow<'a, str>>,
    /// Status of the call.
    pub status: CallStatus,
    /// The agent that made the call: the nearest enclosing one.
    pub agent: Option<Cow<'a, str>>,
    /// Part of the telemetry that records it.
    pub origin: Origin,
    /// True if a framework returns the answer by this call. Its arguments are the final output, and
    /// evaluators skip it unless their settings or criteria name it.
    pub is_output: bool,
    /// True if only the history of a model's request records it; another trace of the session may
    /// have made it.
    pub is_repeated: bool,
    /// The span of the call.
    pub span_id: SpanId,
    /// The dialect that read it.
    pub dialect: &'a str,
    /// Group number of parallel calls, from 1 within the trajectory; 0 for a single call. Calls of
    /// one group are adjacent.
    pub group: u32,
    /// Index among the calls listed in models' messages; `None` if no message lists the call.
    pub message_place: Option<u32>,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds; 0 when unknown.
    pub end_ns: u64,
}

impl<'a> ToolCall<'a> {
    /// Returns true if both calls are parallel: neither precedes the other or knows its result.
    pub fn is_with(&self, other: &Self) -> bool {
        self.group != 0 && self.group == other.group
    }

    /// Marks the call as failed, with the error text from a message's result.
    pub fn fail(&mut self, result: &Value<'a>) {
        self.status = CallStatus::Error;
        if self.error.is_none() {
            self.error = match result {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(Cow::Owned(other.to_string())),
            };
        }
    }
}

/// Returns the groups of parallel calls, in order; a single call is a group of one.
pub fn groups<'c, 'a>(
    calls: &'c [ToolCall<'a>],
) -> impl DoubleEndedIterator<Item = &'c [ToolCall<'a>]> {
    calls.chunk_by(ToolCall::is_with)
}

/// Definition of a tool as the agent saw it.
pub struct ToolDefinition<'a> {
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// Its description for the model; may be empty.
    pub description: Cow<'a, str>,
    /// JSON Schema of its arguments; `Null` when there is none.
    pub input_schema: Value<'a>,
    /// The agent that was offered it, if another agent's tool of this name has another definition.
    pub agent: Option<Cow<'a, str>>,
}
