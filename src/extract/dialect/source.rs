//! Sources and conditions: where a fact may stand, and on which spans.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::extract::decode::Decode;

/// What a source reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// The attribute `key` of the span, or of the log event named `event` where one is given.
    #[default]
    Attr,
    /// All attributes whose key begins with `key`, put together along the dots (and numbers) of the
    /// rest of their keys.
    AttrsPrefix,
    /// Each attribute that no other source names and whose key is one of the words in `key` or ends
    /// with one (`|` between several): where an instrumentation that nobody knows may record the
    /// body of a request or response.
    AttrsEnding,
    /// The messages that stand field by field behind one of the words in `key` (`|` between
    /// several) and a number, whatever stands before it: `acme.messages.0.role`.
    AttrsIndexed,
    /// The attribute whose key ends with one of the words in `key` (`|` between several), whatever
    /// stands before it; or an object of those that have more behind the word and a dot. For spans
    /// that say under a key of any instrumentation what they are.
    AttrsWorded,
    /// An object made of the attributes `keys`, of the log event named `event` where one is given.
    AttrsObject,
    /// The attribute `key` of the span events named `event`, or of each an object made of its
    /// attributes `keys`.
    SpanEvent,
    /// The span's name.
    SpanName,
    /// The span's status: fails the call where its code is `ERROR`, with its message as text.
    Status,
    /// The log event named `event` (`|` between several) of the span: its body, or the attribute
    /// `key` where one is given.
    Log,
}

/// What a value has to be to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum OnlyIf {
    /// The value is no JSON Schema.
    #[serde(rename = "not a JSON schema")]
    NotAJsonSchema,
}

/// One place where a fact may stand. A bare text is the attribute of that key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactSource {
    /// What is read.
    pub from: From,
    /// The attribute's key, or the prefix of keys.
    pub key: String,
    /// The attributes of an `attrs_object`, or of a `span_event` that is read whole.
    pub keys: Vec<String>,
    /// The name of the span event or log event; several are divided by `|`.
    pub event: String,
    /// How the value is read.
    pub decode: Decode,
    /// Taken off the front of the text; a text without it does not count.
    pub strip_prefix: String,
    /// Taken off the end of the text; a text without it stays as it is.
    pub strip_suffix: String,
    /// For errors: the call failed if the value equals this, and the value is no error text.
    pub equals_error: Option<Scalar>,
    /// For errors: the value says that the call failed, but is no error text.
    pub flag: bool,
    /// What the value has to be to count.
    pub only_if: Option<OnlyIf>,
    /// Which spans (or log events) it is read on; without it, on all. For the sources of a tool
    /// call, `detect` must hold too.
    pub on: Option<Condition>,
    /// Counts only where no other source yields.
    pub fallback: bool,
}

impl FactSource {
    /// Whether a text is taken as it stands.
    pub fn is_plain(&self) -> bool {
        self.decode.is_plain() && self.strip_prefix.is_empty() && self.strip_suffix.is_empty()
    }
}

/// A source as written out; a bare text stands for its `key`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SourceFields")]
struct SourceForm {
    /// What is read.
    from: From,
    /// The attribute's key, or the prefix of keys.
    key: String,
    /// The attributes of an `attrs_object`, or of a `span_event` that is read whole.
    keys: Vec<String>,
    /// The name of the span event or log event; several are divided by `|`.
    event: String,
    /// How the value is read.
    decode: Decode,
    /// Taken off the front of the text; a text without it does not count.
    strip_prefix: String,
    /// Taken off the end of the text; a text without it stays as it is.
    strip_suffix: String,
    /// For errors: the call failed if the value equals this, and the value is no error text.
    equals_error: Option<Scalar>,
    /// For errors: the value says that the call failed, but is no error text.
    flag: bool,
    /// What the value has to be to count.
    only_if: Option<OnlyIf>,
    /// Which spans (or log events) it is read on; without it, on all.
    on: Option<Condition>,
    /// Counts only where no other source yields.
    fallback: bool,
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
                let form = SourceForm::deserialize(de::value::MapAccessDeserializer::new(map))?;
                form.checked()
            }
        }
        deserializer.deserialize_any(SourceVisitor)
    }
}

impl SourceForm {
    fn checked<E: de::Error>(self) -> Result<FactSource, E> {
        let missing = |what: &str| Err(E::custom(format!("`{what}` is missing in this source")));
        match self.from {
            From::Attr
            | From::AttrsPrefix
            | From::AttrsEnding
            | From::AttrsIndexed
            | From::AttrsWorded
                if self.key.is_empty() =>
            {
                return missing("key");
            }
            From::AttrsObject if self.keys.is_empty() => return missing("keys"),
            From::SpanEvent if self.key.is_empty() && self.keys.is_empty() => {
                return missing("key");
            }
            From::SpanEvent | From::Log if self.event.is_empty() => return missing("event"),
            _ => {}
        }
        Ok(FactSource {
            from: self.from,
            key: self.key,
            keys: self.keys,
            event: self.event,
            decode: self.decode,
            strip_prefix: self.strip_prefix,
            strip_suffix: self.strip_suffix,
            equals_error: self.equals_error,
            flag: self.flag,
            only_if: self.only_if,
            on: self.on,
            fallback: self.fallback,
        })
    }
}

impl JsonSchema for FactSource {
    fn schema_name() -> Cow<'static, str> {
        "Source".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let form = generator.subschema_for::<SourceForm>();
        schemars::json_schema!({
            "description": "One place where a fact may stand. A bare text is the attribute of \
                            that key.",
            "anyOf": [{ "type": "string" }, form]
        })
    }
}

/// What must hold of a span (or log event). Several entries in one map must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// At least one of these holds.
    pub any: Vec<Condition>,
    /// All of these hold.
    pub all: Vec<Condition>,
    /// The attribute that `equals`, `in` and `prefix` speak of.
    pub attr: String,
    /// Its value.
    pub equals: Option<Scalar>,
    /// Its value is one of these.
    #[serde(rename = "in")]
    pub one_of: Vec<Scalar>,
    /// Its value is a text that begins so.
    pub prefix: Option<String>,
    /// All these attributes are there.
    pub attr_present: Vec<String>,
    /// None of these attributes is there.
    pub attr_absent: Vec<String>,
    /// Name of the instrumentation scope.
    pub scope: Option<String>,
    /// The name of the instrumentation scope begins so.
    pub scope_prefix: Option<String>,
    /// Name of the span.
    pub span_name: Option<String>,
    /// The span's name begins so.
    pub span_name_prefix: Option<String>,
    /// The name of the log event begins so; never true of a span.
    pub log_event_name_prefix: Option<String>,
    /// Whether the span has no parent.
    pub root: Option<bool>,
    /// What the span says that it is, under a key that speaks of kinds of spans (`acme.span.kind`,
    /// `acme_event_type`), by a value that no dialect states; or that it holds a call's id.
    pub says: Option<SpanKindSaid>,
}

impl Condition {
    /// Whether it may hold of a span by nothing but its name.
    pub fn may_ask_only_names(&self) -> bool {
        let Self { span_name, span_name_prefix, any, .. } = self;
        let bare = Self {
            span_name: span_name.clone(),
            span_name_prefix: span_name_prefix.clone(),
            ..Self::default()
        };
        *self == bare && bare != Self::default() || any.iter().any(Self::may_ask_only_names)
    }

    /// Whether it holds of any instrumentation's spans that say what they are.
    pub fn asks_only_what_is_said(&self) -> bool {
        self.says.is_some()
            || !self.any.is_empty() && self.any.iter().all(Self::asks_only_what_is_said)
    }
}

/// What a span may say that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanKindSaid {
    /// A tool's call.
    Tool,
    /// An agent's run.
    Agent,
    /// A model's call.
    Model,
    /// Something around those: a workflow, a chain, a turn.
    Run,
    /// Nothing, but it holds the id of a tool's call (`acme.tool.call_id`).
    ToolCallId,
}

/// A value to compare an attribute with. Kinds never equal each other: `true` is not `"true"`.
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
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, an integer, true or false")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::String(text.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Int(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
                i64::try_from(value).map(Scalar::Int).map_err(|_| E::custom("integer too large"))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}
