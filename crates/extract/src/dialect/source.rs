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
    /// Attribute `key` of the span, or of the log event `event` if that is set.
    #[default]
    Attr,
    /// Object of all attributes whose key begins with `key`. The dots and numbers in the rest of a
    /// key nest it.
    AttrsPrefix,
    /// Attribute whose key is a word of `key` or ends with one (`|` separates words), except
    /// attributes that other sources name. For bodies of requests and responses of unknown
    /// instrumentations.
    AttrsEnding,
    /// Messages whose fields stand behind a word of `key` (`|` separates words) and a number, with
    /// any prefix, such as `acme.messages.0.role`.
    AttrsIndexed,
    /// Attribute whose key ends with a word of `key` (`|` separates words), with any prefix. Keys
    /// that continue after the word and a dot form an object. For spans of unknown instrumentations
    /// that state their kind.
    AttrsWorded,
    /// Object of the attributes `keys` of the span, or of the log event `event` if that is set.
    AttrsObject,
    /// Attribute `key` of the span events `event`, or an object of the attributes `keys` of each
    /// event.
    SpanEvent,
    /// Name of the span.
    SpanName,
    /// Status of the span. The code `ERROR` marks a failed call, and the message is the error text.
    Status,
    /// Log event `event` of the span (`|` separates several): its body, or its attribute `key` if
    /// that is set.
    Log,
}

/// Requirement for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OnlyIf {
    /// The value is no JSON Schema.
    #[serde(rename = "not a JSON schema")]
    NotAJsonSchema,
}

/// Place of a fact. A text alone is the key of a span attribute.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields, default)]
#[schemars(rename = "Source", transform = or_bare_key)]
pub struct FactSource {
    /// Kind of place. Default `attr`.
    pub from: From,
    /// Key of the attribute, or prefix of the keys.
    pub key: String,
    /// Keys of the attributes, for `attrs_object` and for a `span_event` that is read as a whole.
    pub keys: Vec<String>,
    /// Name of the span event or log event. `|` separates several.
    pub event: String,
    /// Decoder of the value.
    pub decode: Decode,
    /// Prefix that is removed from a text, with the blanks after it. A text without the prefix is
    /// ignored.
    pub strip_prefix: String,
    /// Suffix that is removed from a text. A text without the suffix is unchanged.
    pub strip_suffix: String,
    /// Only `error`: value that marks a failed call. The value is not the error text.
    pub equals_error: Option<Scalar>,
    /// Only `error`: a value marks a failed call unless it is empty, `false`, 0 or a word such as
    /// `none`. It becomes the error text only if no other text is recorded.
    pub flag: bool,
    /// Requirement for the value. A value that does not meet it is ignored.
    pub only_if: Option<OnlyIf>,
    /// Condition for the span or log event. Default: the source is read on all of them. Sources of
    /// a tool call also require `detect`.
    pub on: Option<Condition>,
    /// Uses the source only if no other source has a value. Default `false`.
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

/// Condition for a span or a log event. All entries of a map must be true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// Conditions of which at least one must be true.
    pub any: Vec<Condition>,
    /// Conditions that must all be true.
    pub all: Vec<Condition>,
    /// Key of the attribute that `equals`, `in` and `prefix` compare.
    pub attr: String,
    /// Value of the attribute.
    pub equals: Option<Scalar>,
    /// Accepted values of the attribute.
    #[serde(rename = "in")]
    pub one_of: Vec<Scalar>,
    /// Prefix of the attribute's value, a text.
    pub prefix: Option<String>,
    /// Keys of attributes that must be present.
    pub attr_present: Vec<String>,
    /// Keys of attributes that must be absent.
    pub attr_absent: Vec<String>,
    /// Name of the instrumentation scope.
    pub scope: Option<String>,
    /// Prefix of the instrumentation scope's name.
    pub scope_prefix: Option<String>,
    /// Name of the span.
    pub span_name: Option<String>,
    /// Prefix of the span's name.
    pub span_name_prefix: Option<String>,
    /// Prefix of the log event's name. It is false for spans.
    pub log_event_name_prefix: Option<String>,
    /// `true` for spans without a parent, `false` for spans with one.
    pub root: Option<bool>,
    /// Kind of the span according to a key of an unknown instrumentation, such as `acme.span.kind`
    /// or `acme_event_type`. Spans with the id of a call, the name of a tool, or the input or
    /// output of a tool count, too.
    pub says: Option<SpanKindSaid>,
    /// Kinds that the span must not have, as in `says`.
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

/// Kind of a span according to its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanKindSaid {
    /// Tool call.
    Tool,
    /// Agent run.
    Agent,
    /// Model call.
    Model,
    /// Frame around others: a workflow, a chain or a turn.
    Run,
    /// Another kind, such as a guardrail or a retriever, under a key for kinds.
    Other,
    /// No kind, but the id of a tool call (`acme.tool.call_id`).
    ToolCallId,
    /// No kind, but the name of a tool (`acme.tool_name`).
    ToolName,
    /// No kind, but the input or output of a tool (`acme.tool_args`).
    ToolContent,
}

/// Value to compare an attribute with. Types differ: `true` is not `"true"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(untagged)]
pub enum Scalar {
    /// Text.
    String(String),
    /// Boolean.
    Bool(bool),
    /// Integer.
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
