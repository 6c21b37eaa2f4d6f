//! Tool calls: what an agent asked a tool for, and what came back.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::SpanId;
use crate::value::Value;

/// Content that a span holds, or the fact that it holds none.
///
/// "Not recorded" (absent, redacted, cut off, a placeholder) is never the same as empty.
#[derive(Default)]
pub enum Content<'a> {
    /// The telemetry does not say.
    #[default]
    NotRecorded,
    /// A placeholder or a redaction stands where the content would be.
    Redacted,
    /// Content that could not be read whole: cut off by a length limit, or not of the form its
    /// instrumentation writes. The text is what there is.
    Unreadable(Cow<'a, str>),
    /// The content, decoded when first asked for.
    Recorded(Lazy<'a>),
}

/// A value that is decoded once, when first asked for.
pub struct Lazy<'a>(LazyValue<'a>);

enum LazyValue<'a> {
    Own(OnceCell<Value<'a>>, Option<Decoding<'a>>),
    Shared(Arc<Value<'a>>),
}

type Decoding<'a> = Box<dyn Fn() -> Value<'a> + Send + 'a>;

impl<'a> Lazy<'a> {
    /// A value that is at hand.
    pub fn ready(value: Value<'a>) -> Self {
        Self(LazyValue::Own(OnceCell::from(value), None))
    }

    /// A value that others have, too.
    pub fn shared(value: Arc<Value<'a>>) -> Self {
        Self(LazyValue::Shared(value))
    }

    /// A value that `decode` yields when it is first asked for.
    pub fn new(decode: impl Fn() -> Value<'a> + Send + 'a) -> Self {
        Self(LazyValue::Own(OnceCell::new(), Some(Box::new(decode))))
    }

    /// Whether the value is at hand without decoding.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            LazyValue::Own(value, _) => value.get().is_some(),
            LazyValue::Shared(_) => true,
        }
    }

    /// The decoded value.
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
    /// Content that is at hand.
    pub fn ready(value: Value<'a>) -> Self {
        Self::Recorded(Lazy::ready(value))
    }

    /// Content that other calls have, too: however many take it, it is held once.
    pub fn shared(value: Arc<Value<'a>>) -> Self {
        Self::Recorded(Lazy::shared(value))
    }

    /// The value, if recorded and readable.
    pub fn value(&self) -> Option<&Value<'a>> {
        match self {
            Self::Recorded(lazy) => Some(lazy.get()),
            _ => None,
        }
    }

    /// Whether there is a readable value.
    pub fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }
}

/// How a tool call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallStatus {
    /// It returned.
    Ok,
    /// It failed.
    Error,
    /// The telemetry does not say (a call that is only known from a model's message).
    #[default]
    Unknown,
}

impl CallStatus {
    /// The word for it in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a tool call was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// On a span of its own.
    #[default]
    Span,
    /// Only in the messages of a language model's span.
    Llm,
}

impl Origin {
    /// The word for it in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Llm => "llm",
        }
    }
}

/// One call of a tool.
#[derive(Default)]
pub struct ToolCall<'a> {
    /// The tool's name as recorded.
    pub name: Cow<'a, str>,
    /// The id that the model gave the call.
    pub id: Option<Cow<'a, str>>,
    /// The arguments; an object wherever the instrumentation records them so.
    pub arguments: Content<'a>,
    /// What the tool returned.
    pub result: Content<'a>,
    /// The error's text; `None` when the call did not fail or no text is recorded.
    pub error: Option<Cow<'a, str>>,
    /// How the call ended.
    pub status: CallStatus,
    /// The agent that made the call: the nearest enclosing one.
    pub agent: Option<Cow<'a, str>>,
    /// Where the call was found.
    pub origin: Origin,
    /// It is a framework's own way to return the answer: its arguments are the final output, and
    /// no evaluator sees it unless its settings or criteria name it.
    pub is_output: bool,
    /// Only the history of a model's request tells of it, so that another trace of the session may
    /// have asked for it.
    pub is_repeated: bool,
    /// The span the call stands on.
    pub span_id: SpanId,
    /// The dialect that read it.
    pub dialect: &'a str,
    /// Number of the group of calls that were made together, counted from 1 through the trajectory;
    /// 0 for a call by itself. Calls of one group stand next to each other.
    pub group: u32,
    /// Place among the calls that the messages of models list, in their order; `None` where no
    /// message lists the call.
    pub message_place: Option<u32>,
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// End, Unix nanoseconds; 0 when unknown.
    pub end_ns: u64,
}

impl<'a> ToolCall<'a> {
    /// Whether both calls were made together: neither is before the other, and none knows the
    /// other's result.
    pub fn is_with(&self, other: &Self) -> bool {
        self.group != 0 && self.group == other.group
    }

    /// Marks the call as failed, with the text that a message gives as its result.
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

/// The groups of some calls, in order: those that were made together, each of the others alone.
pub fn groups<'c, 'a>(
    calls: &'c [ToolCall<'a>],
) -> impl DoubleEndedIterator<Item = &'c [ToolCall<'a>]> {
    calls.chunk_by(ToolCall::is_with)
}

/// A tool as the agent was told of it.
pub struct ToolDefinition<'a> {
    /// The tool's name.
    pub name: Cow<'a, str>,
    /// The words that describe it to the model; empty when there are none.
    pub description: Cow<'a, str>,
    /// JSON Schema of its arguments; `Null` when there is none.
    pub input_schema: Value<'a>,
}
