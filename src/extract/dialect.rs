//! Dialects: how one instrumentation writes tool calls, and the other facts of a run, into spans.
//!
//! A dialect is data. The built-in ones stand in `dialects/*.yaml`; a user writes the same form
//! under `dialects:` in the config, and an entry of a built-in's name replaces it. Rust is needed
//! only for a new [`Decode`] word.
//!
//! # How a dialect is read
//! - [`Dialect::detect`] marks the spans that are tool calls. Of several dialects that match one
//!   span the lowest [`Dialect::priority`] wins and the others fill what it leaves open.
//! - [`Dialect::exclude`] marks spans that are no tool call, whatever other dialects say.
//! - The sources of [`ToolCallSources`] are read on those spans only.
//! - All other sources ([`Dialect::sources`] gives them with their [`Role`]) are read on every span
//!   and log event on which their [`Source::on`] holds; they do not depend on `detect`.
//! - Of several sources for one fact the first that yields counts; across dialects the order is
//!   that of the priorities.

use std::fmt;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::decode::Decode;

/// How one instrumentation writes tool calls and other facts into spans.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dialect {
    /// Its name; an entry with the name of a built-in dialect replaces that one.
    pub name: String,
    /// Which framework and instrumentation it reads.
    pub title: String,
    /// Where several dialects match one span, the one with the lowest number is read first; the
    /// others fill what it leaves open. Built-in dialects use 1 to 60.
    #[serde(default = "default_priority")]
    pub priority: u16,
    /// Which spans are tool calls; without it the dialect finds no calls on spans.
    pub detect: Option<Condition>,
    /// Spans that are no tool call, whatever this or another dialect finds on them.
    pub exclude: Vec<Condition>,
    /// Where the parts of a tool call stand on its span.
    pub tool_call: ToolCallSources,
    /// Spans that hand the conversation to another agent: no tool calls. In a trace with such a
    /// span a model's calls named `transfer_to_*` are none either.
    pub handoff: Option<Condition>,
    /// Spans exported when they start, to be exported again when they end.
    pub pending: Option<Condition>,
    /// Spans of an agent or of a model call: a trace that holds one is an agent's run even
    /// without tool calls.
    pub agent_span: Option<Condition>,
    /// The session (conversation) that a span belongs to.
    pub session_id: Vec<Source>,
    /// The agent that a span belongs to; a call takes it from the nearest enclosing span, its own
    /// included.
    pub agent_name: Vec<Source>,
    /// What the user asked: the first span in start order that yields.
    pub user_input: Vec<Source>,
    /// What the agent answered: the last span in start order that yields.
    pub final_output: Vec<Source>,
    /// The messages of model calls.
    pub messages: MessageSources,
    /// Definitions of the tools that the model was offered, as a list in any of the known shapes.
    pub tool_definitions: Vec<Source>,
    /// The model's name.
    pub model: Vec<Source>,
    /// Token counts of a model call.
    pub usage: UsageSources,
    /// Cost of a model call in US dollars.
    pub cost: Vec<Source>,
}

fn default_priority() -> u16 {
    50
}

/// Where the parts of a tool call stand; each list is tried in order.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolCallSources {
    /// The tool's name.
    pub name: Vec<Source>,
    /// The id that the model gave the call.
    pub id: Vec<Source>,
    /// The arguments.
    pub arguments: Vec<Source>,
    /// What the tool returned.
    pub result: Vec<Source>,
    /// What shows that the call failed; the default reads exception events, the status and
    /// `error.type`.
    pub error: Vec<Source>,
    /// The tool's description.
    pub description: Vec<Source>,
    /// JSON Schema of the tool's arguments.
    pub schema: Vec<Source>,
}

impl Default for ToolCallSources {
    fn default() -> Self {
        Self {
            name: Vec::new(),
            id: Vec::new(),
            arguments: Vec::new(),
            result: Vec::new(),
            error: standard_error(),
            description: Vec::new(),
            schema: Vec::new(),
        }
    }
}

/// Where most instrumentations leave an error: the conventions of OpenTelemetry.
fn standard_error() -> Vec<Source> {
    let exception = |key: &str| Source {
        from: From::SpanEvent,
        event: "exception".into(),
        key: key.into(),
        ..Source::default()
    };
    vec![
        exception("exception.message"),
        Source { from: From::Status, ..Source::default() },
        Source { key: "error.type".into(), flag: true, ..Source::default() },
        Source { flag: true, ..exception("exception.type") },
    ]
}

/// Where the messages of model calls stand. Their shape (OpenTelemetry parts, OpenAI, Anthropic,
/// Gemini, Bedrock, LangChain, ...) is recognised by itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessageSources {
    /// What the model wrote: its tool calls are calls made.
    pub output: Vec<Source>,
    /// What the model was given: its tool results belong to earlier calls, its calls are history.
    pub input: Vec<Source>,
}

/// Where token counts stand.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UsageSources {
    /// Tokens of the prompt.
    pub input: Vec<Source>,
    /// Tokens of the reply.
    pub output: Vec<Source>,
    /// Tokens of the prompt that came from a cache.
    pub cache_read: Vec<Source>,
    /// Tokens of the prompt that were written to a cache.
    pub cache_write: Vec<Source>,
    /// Tokens of the reply that were spent on reasoning.
    pub reasoning: Vec<Source>,
    /// The count of the prompt leaves the cached tokens out: they are added.
    pub input_excludes_cache: bool,
}

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
    /// An object made of the attributes `keys`.
    AttrsObject,
    /// The attribute `key` of the span events named `event`.
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
pub struct Source {
    /// What is read.
    pub from: From,
    /// The attribute's key, or the prefix of keys.
    pub key: String,
    /// The attributes of an `attrs_object`.
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

/// A source as written out; a bare text stands for its `key`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SourceFields")]
struct SourceForm {
    /// What is read.
    from: From,
    /// The attribute's key, or the prefix of keys.
    key: String,
    /// The attributes of an `attrs_object`.
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

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Source;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an attribute's key, or a map such as `{from: attr, key: tool.name}`")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<Source, E> {
                Ok(Source { key: key.to_owned(), ..Source::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
                let form = SourceForm::deserialize(de::value::MapAccessDeserializer::new(map))?;
                form.checked()
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl SourceForm {
    fn checked<E: de::Error>(self) -> Result<Source, E> {
        let missing = |what: &str| Err(E::custom(format!("`{what}` is missing in this source")));
        match self.from {
            From::Attr | From::AttrsPrefix if self.key.is_empty() => return missing("key"),
            From::AttrsObject if self.keys.is_empty() => return missing("keys"),
            From::SpanEvent if self.key.is_empty() => return missing("key"),
            From::SpanEvent | From::Log if self.event.is_empty() => return missing("event"),
            _ => {}
        }
        Ok(Source {
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

impl JsonSchema for Source {
    fn schema_name() -> std::borrow::Cow<'static, str> {
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
        struct Any;
        impl Visitor<'_> for Any {
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
        deserializer.deserialize_any(Any)
    }
}

/// Which fact a source feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// [`ToolCallSources::name`]
    Name,
    /// [`ToolCallSources::id`]
    Id,
    /// [`ToolCallSources::arguments`]
    Arguments,
    /// [`ToolCallSources::result`]
    Result,
    /// [`ToolCallSources::error`]
    Error,
    /// [`ToolCallSources::description`]
    Description,
    /// [`ToolCallSources::schema`]
    Schema,
    /// [`Dialect::session_id`]
    SessionId,
    /// [`Dialect::agent_name`]
    AgentName,
    /// [`Dialect::user_input`]
    UserInput,
    /// [`Dialect::final_output`]
    FinalOutput,
    /// [`MessageSources::output`]: needed whatever is evaluated, since calls may stand only there.
    OutputMessages,
    /// [`MessageSources::input`]: needed for results, and for the user's input.
    InputMessages,
    /// [`Dialect::tool_definitions`]
    ToolDefinitions,
    /// [`Dialect::model`]
    Model,
    /// [`UsageSources::input`]
    UsageInput,
    /// [`UsageSources::output`]
    UsageOutput,
    /// [`UsageSources::cache_read`]
    UsageCacheRead,
    /// [`UsageSources::cache_write`]
    UsageCacheWrite,
    /// [`UsageSources::reasoning`]
    UsageReasoning,
    /// [`Dialect::cost`]
    Cost,
}

impl Role {
    /// Whether it is a part of a tool call, read only on spans that `detect` marks.
    pub fn is_call(self) -> bool {
        use Role::{Arguments, Description, Error, Id, Name, Result, Schema};
        matches!(self, Name | Id | Arguments | Result | Error | Description | Schema)
    }
}

/// The families of the built-in dialects, each a YAML list of [`Dialect`].
const FAMILIES: [(&str, &str); 4] = [
    ("semconv", include_str!("dialects/semconv.yaml")),
    ("openinference", include_str!("dialects/openinference.yaml")),
    ("traceloop", include_str!("dialects/traceloop.yaml")),
    ("vendors", include_str!("dialects/vendors.yaml")),
];

impl Dialect {
    /// The built-in dialects, with those of `own` in place of built-in ones of the same name and
    /// the others behind them.
    pub fn with_builtin(own: Vec<Dialect>) -> Vec<Dialect> {
        let mut dialects = Self::builtin().to_vec();
        for dialect in own {
            match dialects.iter_mut().find(|known| known.name == dialect.name) {
                Some(known) => *known = dialect,
                None => dialects.push(dialect),
            }
        }
        dialects
    }

    /// The built-in dialects. A test holds that all of them can be read.
    pub fn builtin() -> &'static [Dialect] {
        static BUILTIN: OnceLock<Vec<Dialect>> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            let read = |(_, text): &(&str, &str)| {
                serde_saphyr::from_str::<Vec<Dialect>>(text).unwrap_or_default()
            };
            FAMILIES.iter().flat_map(read).collect()
        })
    }

    /// All sources with the fact that each feeds, in the order in which they are tried.
    pub fn sources(&self) -> impl Iterator<Item = (Role, &Source)> {
        let call = &self.tool_call;
        let usage = &self.usage;
        [
            (Role::Name, &call.name),
            (Role::Id, &call.id),
            (Role::Arguments, &call.arguments),
            (Role::Result, &call.result),
            (Role::Error, &call.error),
            (Role::Description, &call.description),
            (Role::Schema, &call.schema),
            (Role::SessionId, &self.session_id),
            (Role::AgentName, &self.agent_name),
            (Role::UserInput, &self.user_input),
            (Role::FinalOutput, &self.final_output),
            (Role::OutputMessages, &self.messages.output),
            (Role::InputMessages, &self.messages.input),
            (Role::ToolDefinitions, &self.tool_definitions),
            (Role::Model, &self.model),
            (Role::UsageInput, &usage.input),
            (Role::UsageOutput, &usage.output),
            (Role::UsageCacheRead, &usage.cache_read),
            (Role::UsageCacheWrite, &usage.cache_write),
            (Role::UsageReasoning, &usage.reasoning),
            (Role::Cost, &self.cost),
        ]
        .into_iter()
        .flat_map(|(role, sources)| sources.iter().map(move |source| (role, source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_dialects_can_be_read() {
        for (family, text) in FAMILIES {
            let read = serde_saphyr::from_str::<Vec<Dialect>>(text);
            assert!(read.is_ok(), "{family}: {}", read.unwrap_err());
        }
        let names: Vec<_> = Dialect::builtin().iter().map(|dialect| &dialect.name).collect();
        assert_eq!(names.len(), 42, "{names:?}");
    }
}
