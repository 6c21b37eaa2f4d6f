//! Sources and conditions of dialects: the places of facts, and the spans on which they are read.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::decode::Decode;
use spanscore_base::value::{Number, Value, read_scalar};

/// Kind of place that a source reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// Attribute `key` of the span, or of the log event named `event` if that is set.
    #[default]
    Attr,
    /// All attributes whose key begins with `key`, nested along the dots (and numbers) of the rest
    /// of their keys.
    AttrsPrefix,
    /// Each attribute that no other source names and whose key is one of the words in `key` or ends
    /// with one (`|` between several): bodies of requests and responses, as an unknown
    /// instrumentation may record them.
    AttrsEnding,
    /// Messages that stand field by field behind one of the words in `key` (`|` between several)
    /// and a number, with any prefix: `acme.messages.0.role`.
    AttrsIndexed,
    /// Attribute whose key ends with one of the words in `key` (`|` between several), with any
    /// prefix; or an object of those that have more behind the word and a dot. For spans that say
    /// what they are under a key of an unknown instrumentation.
    AttrsWorded,
    /// Object made of the attributes `keys`, of the log event named `event` if that is set.
    AttrsObject,
    /// Attribute `key` of the span events named `event`, or of each an object made of its
    /// attributes `keys`.
    SpanEvent,
    /// Name of the span.
    SpanName,
    /// Status of the span: fails the call if its code is `ERROR`, with its message as text.
    Status,
    /// Log event named `event` (`|` between several) of the span: its body, or the attribute `key`
    /// if that is set.
    Log,
}

/// Requirement that a value must meet to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OnlyIf {
    /// The value is no JSON Schema.
    #[serde(rename = "not a JSON schema")]
    NotAJsonSchema,
}

/// One place at which a fact may stand. A bare text is the attribute of that key.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
#[schemars(rename = "Source", transform = or_bare_key)]
pub struct FactSource {
    /// Kind of place.
    pub from: From,
    /// Key of the attribute, or the prefix of keys.
    pub key: String,
    /// Attributes of an `attrs_object`, or of a `span_event` that is read whole.
    pub keys: Vec<String>,
    /// Name of the span event or log event; several are divided by `|`.
    pub event: String,
    /// Decoder of the value.
    pub decode: Decode,
    /// Prefix removed from the text, with the blanks after it; a text without it does not count.
    pub strip_prefix: String,
    /// Suffix removed from the text; a text without it stays as it is.
    pub strip_suffix: String,
    /// For errors: the call failed if the value equals this, and the value is no error text.
    pub equals_error: Option<Scalar>,
    /// For errors: the value says that the call failed, but is no error text.
    pub flag: bool,
    /// Requirement that the value must meet to count.
    pub only_if: Option<OnlyIf>,
    /// Condition on the span (or log event); without it the source is read on all. For the sources
    /// of a tool call, `detect` must hold too.
    pub on: Option<Condition>,
    /// True if the source counts only where no other source yields.
    pub fallback: bool,
}

impl FactSource {
    /// Returns true if a text is used unchanged.
    pub fn is_plain(&self) -> bool {
        self.decode.is_plain() && self.strip_prefix.is_empty() && self.strip_suffix.is_empty()
    }

    /// Returns a missing key required for its kind of place.
    fn missing(&self) -> Option<&'static str> {
        match self.from {
            From::Attr
            | From::AttrsPrefix
            | From::AttrsEnding
            | From::AttrsIndexed
            | From::AttrsWorded => self.key.is_empty().then_some("key"),
            From::AttrsObject => self.keys.is_empty().then_some("keys"),
            From::SpanEvent if self.key.is_empty() && self.keys.is_empty() => Some("key"),
            From::SpanEvent | From::Log => self.event.is_empty().then_some("event"),
            From::SpanName | From::Status => None,
        }
    }
}

impl<'de> Deserialize<'de> for FactSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SourceVisitor;
        impl<'de> Visitor<'de> for SourceVisitor {
            type Value = FactSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an attribute's key, or a map such as `{from: attr, key: tool.name}`")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<FactSource, E> {
                Ok(FactSource { key: key.to_owned(), ..FactSource::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FactSource, A::Error> {
                // The derived function, which only reads a map.
                let source = FactSource::deserialize(de::value::MapAccessDeserializer::new(map))?;
                match source.missing() {
                    Some(key) => {
                        Err(de::Error::custom(format!("`{key}` is missing in this source")))
                    }
                    None => Ok(source),
                }
            }
        }
        deserializer.deserialize_any(SourceVisitor)
    }
}

/// Adds the plain text to the schema of a source's map.
fn or_bare_key(schema: &mut schemars::Schema) {
    let mut fields = std::mem::take(schema);
    fields.insert("additionalProperties".into(), false.into());
    *schema = schemars::json_schema!({
        "description": fields.remove("description"),
        "anyOf": [{ "type": "string" }, fields]
    });
}

/// Condition on a span (or log event). Several entries in one map must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// At least one of these holds.
    pub any: Vec<Condition>,
    /// All of these hold.
    pub all: Vec<Condition>,
    /// Attribute that `equals`, `in` and `prefix` compare.
    pub attr: String,
    /// Value that the attribute must have.
    pub equals: Option<Scalar>,
    /// Values of which the attribute must have one.
    #[serde(rename = "in")]
    pub one_of: Vec<Scalar>,
    /// Prefix of the attribute's value, which must be a text.
    pub prefix: Option<String>,
    /// Attributes that must all be present.
    pub attr_present: Vec<String>,
    /// Attributes that must all be absent.
    pub attr_absent: Vec<String>,
    /// Name of the instrumentation scope.
    pub scope: Option<String>,
    /// Prefix of the name of the instrumentation scope.
    pub scope_prefix: Option<String>,
    /// Name of the span.
    pub span_name: Option<String>,
    /// Prefix of the span's name.
    pub span_name_prefix: Option<String>,
    /// Prefix of the log event's name; never true of a span.
    pub log_event_name_prefix: Option<String>,
    /// True for a span without a parent, false for one with a parent.
    pub root: Option<bool>,
    /// Kind that the span states under a key for kinds of spans (`acme.span.kind`,
    /// `acme_event_type`), by a value that no dialect names; or that it holds a call's id, a tool's
    /// name, or what a tool was given or gave back.
    pub says: Option<SpanKindSaid>,
    /// Kinds of which the span states none.
    pub says_none_of: Vec<SpanKindSaid>,
}

impl Condition {
    /// Returns true if a span's name may suffice for it.
    pub fn may_ask_only_names(&self) -> bool {
        let Self { span_name, span_name_prefix, any, .. } = self;
        let bare = Self {
            span_name: span_name.clone(),
            span_name_prefix: span_name_prefix.clone(),
            ..Self::default()
        };
        *self == bare && bare != Self::default() || any.iter().any(Self::may_ask_only_names)
    }

    /// Returns true if it only applies to spans with a stated kind, of any instrumentation.
    pub fn asks_only_what_is_said(&self) -> bool {
        self.says.is_some()
            || !self.any.is_empty() && self.any.iter().all(Self::asks_only_what_is_said)
    }
}

/// Kind that a span states of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanKindSaid {
    /// A tool's call.
    Tool,
    /// An agent's run.
    Agent,
    /// A model's call.
    Model,
    /// A frame around those: a workflow, a chain, a turn.
    Run,
    /// Another, under a key for nothing but kinds: a guardrail, a retriever.
    Other,
    /// No kind, but the id of a tool's call (`acme.tool.call_id`).
    ToolCallId,
    /// No kind, but the name of a tool (`acme.tool_name`).
    ToolName,
    /// No kind, but what a tool was given or gave back (`acme.tool_args`).
    ToolContent,
}

/// Value to compare an attribute with. Kinds never equal each other: `true` is not `"true"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(untagged)]
pub enum Scalar {
    /// A text.
    String(String),
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_scalar(deserializer, "a text, an integer, true or false", |value| match value {
            Value::String(text) => Some(Ok(Self::String(text.to_string()))),
            Value::Bool(value) => Some(Ok(Self::Bool(*value))),
            Value::Number(Number::Int(value)) => Some(Ok(Self::Int(*value))),
            _ => None,
        })
    }
}
