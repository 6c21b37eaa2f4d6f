//! Dialects: the places in spans and logs where an instrumentation writes tool calls and other
//! facts of a run.
//!
//! A dialect is data. The built-in ones are in `dialects/*.yaml`; users write the same form under
//! `dialects:` in the config, where an entry with a built-in's name replaces it. Rust is needed
//! only for a new [`Decode`](super::decode::Decode) word.
//!
//! # How a dialect is read
//! - [`Dialect::detect`] marks the spans that are tool calls. Of several dialects that match one
//!   span the lowest [`Dialect::priority`] wins and the others fill what it leaves open.
//! - [`Dialect::exclude`] marks spans that are no tool call, whatever other dialects say.
//! - The sources of [`ToolCallSources`] are read on those spans only.
//! - All other sources (from [`Dialect::sources`], with their [`Role`]) are read on every span
//!   and log event on which their [`FactSource::on`] holds; they do not depend on `detect`.
//! - Of several sources for one fact the first that yields counts; across dialects the order is
//!   that of the priorities.

mod source;

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Deserialize;
use smart_default::SmartDefault;

pub use source::{Condition, FactSource, From, OnlyIf, Scalar, SpanKindSaid};

use spanscore_base::settings::yaml;

/// Rules by which tool calls and other facts are read from the spans of one instrumentation.
#[derive(Clone, Debug, SmartDefault, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dialect {
    /// Name of the dialect; an entry with the name of a built-in dialect replaces that one.
    pub name: String,
    /// Framework and instrumentation that it reads.
    pub title: String,
    /// Rank among dialects that match one span: the lowest number is read first, the others fill
    /// what it leaves open. Built-in dialects use 1 to 60. Default 50.
    #[default = 50]
    pub priority: u16,
    /// Spans that are tool calls; without it the dialect finds no calls on spans.
    pub detect: Option<Condition>,
    /// True if no marker tells the spans of tools from others: a span is a tool call only if a
    /// model asked for a tool of its name.
    pub only_if_asked: bool,
    /// Spans that are no tool call, whatever this or another dialect finds on them.
    pub exclude: Vec<Condition>,
    /// Spans of `detect` on which only the names of keys tell of a call. Guards, approvals and
    /// caches write the same keys, and say what they are by the names of their spans
    /// (`tool.approval`): such a span is no call.
    pub doubtful: Option<Condition>,
    /// Spans of `detect` that only name a tool: calls if their own names end in a word for calling
    /// (`session.tool_call`), or hold the tool's name (`tool.find`).
    pub only_if_named: Option<Condition>,
    /// Places of the parts of a tool call on its span.
    pub tool_call: ToolCallSources,
    /// Spans that hand the conversation to another agent: no tool calls. In a trace with such a
    /// span a model's calls named `transfer_to_*` are none either.
    pub handoff: Option<Condition>,
    /// Tools by which the framework returns its answer, whose arguments are the final output:
    /// names, or prefixes of names with `*` at the end. They hold for calls of any dialect, since a
    /// framework's calls may stand in messages that another dialect reads.
    pub output_tools: Vec<String>,
    /// Spans exported when they start, to be exported again when they end.
    pub pending: Option<Condition>,
    /// Spans that say that their run waits: for a person who approves, for another agent.
    pub waiting: Option<Condition>,
    /// Spans that say that their run is over.
    pub finished: Option<Condition>,
    /// Spans of an agent or of a model call: a trace that holds one is an agent's run even
    /// without tool calls.
    pub agent_span: Option<Condition>,
    /// Spans of a model call. Where no message says which calls were made together, the calls
    /// between two model calls of one agent were.
    pub model_span: Option<Condition>,
    /// Spans of an evaluation, which judges the run: what is within them is no part of the run.
    pub evaluator_span: Option<Condition>,
    /// Session (conversation) that a span belongs to.
    pub session_id: Vec<FactSource>,
    /// Agent that a span belongs to; a call takes it from the nearest enclosing span, its own span
    /// included.
    pub agent_name: Vec<FactSource>,
    /// Request of the user: the first span in start order that yields.
    pub user_input: Vec<FactSource>,
    /// Answer of the agent: the last span in start order that yields.
    pub final_output: Vec<FactSource>,
    /// Messages of model calls.
    pub messages: MessageSources,
    /// Definitions of the tools that the model was offered, as a list in any of the known shapes.
    pub tool_definitions: Vec<FactSource>,
    /// Name of the model.
    pub model: Vec<FactSource>,
    /// Token counts of a model call.
    pub usage: UsageSources,
    /// Cost of a model call in US dollars.
    pub cost: Vec<FactSource>,
    /// Reason for which a model stopped (`tool_calls`, `tool_use`): a trace in which one asked for
    /// tools and that holds no call does not record its calls.
    pub finish_reason: Vec<FactSource>,
}

/// Places of the parts of a tool call; each list is tried in order.
#[derive(Clone, Debug, SmartDefault, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolCallSources {
    /// The tool's name.
    pub name: Vec<FactSource>,
    /// The id that the model gave the call.
    pub id: Vec<FactSource>,
    /// Arguments of the call.
    pub arguments: Vec<FactSource>,
    /// Return value of the tool.
    pub result: Vec<FactSource>,
    /// Marks of a failed call; the default reads exception events, the status and `error.type`.
    #[default(standard_error())]
    pub error: Vec<FactSource>,
    /// The tool's description.
    pub description: Vec<FactSource>,
    /// JSON Schema of the tool's arguments.
    pub schema: Vec<FactSource>,
}

/// Returns the sources of errors in OpenTelemetry's conventions, which most instrumentations
/// follow.
fn standard_error() -> Vec<FactSource> {
    let exception = |key: &str| FactSource {
        from: From::SpanEvent,
        event: "exception".into(),
        key: key.into(),
        ..FactSource::default()
    };
    vec![
        exception("exception.message"),
        FactSource { from: From::Status, ..FactSource::default() },
        FactSource { key: "error.type".into(), flag: true, ..FactSource::default() },
        FactSource { flag: true, ..exception("exception.type") },
    ]
}

/// Places of the messages of model calls. Their shape (OpenTelemetry parts, OpenAI, Anthropic,
/// Gemini, Bedrock, LangChain, ...) is recognised by itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessageSources {
    /// Messages that the model wrote: their tool calls are calls made.
    pub output: Vec<FactSource>,
    /// Messages that the model was given: their tool results belong to earlier calls, their calls
    /// are history.
    pub input: Vec<FactSource>,
}

/// Places of the token counts of a model call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UsageSources {
    /// Tokens of the prompt.
    pub input: Vec<FactSource>,
    /// Tokens of the reply.
    pub output: Vec<FactSource>,
    /// Tokens of the prompt that came from a cache.
    pub cache_read: Vec<FactSource>,
    /// Tokens of the prompt that were written to a cache.
    pub cache_write: Vec<FactSource>,
    /// Tokens of the reply that were spent on reasoning.
    pub reasoning: Vec<FactSource>,
    /// True if the count of the prompt leaves the cached tokens out: they are added.
    pub input_excludes_cache: bool,
}

/// Meaning of a condition for matching spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// [`Dialect::detect`]
    Tool,
    /// [`Dialect::exclude`]
    Exclude,
    /// [`Dialect::doubtful`]
    Doubtful,
    /// [`Dialect::only_if_named`]
    OnlyIfNamed,
    /// [`Dialect::handoff`]
    Handoff,
    /// [`Dialect::model_span`]
    Model,
    /// [`Dialect::pending`]
    Pending,
    /// [`Dialect::waiting`]
    Waiting,
    /// [`Dialect::finished`]
    Finished,
    /// [`Dialect::agent_span`]
    Agent,
    /// [`Dialect::evaluator_span`]
    Evaluator,
}

/// Fact given by a source.
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
    /// [`MessageSources::output`]: always needed, since calls may be only there.
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
    /// [`Dialect::finish_reason`]
    FinishReason,
}

impl Role {
    /// Returns true for a part of a tool call, read only on spans marked by `detect`.
    pub fn is_call(self) -> bool {
        self.call_place().is_some()
    }

    /// Returns its index in [`CALL`](Self::CALL).
    pub fn call_place(self) -> Option<usize> {
        Self::CALL.iter().position(|known| *known == self)
    }

    /// Parts of a tool call, numbered by index.
    pub const CALL: [Self; 7] = [
        Self::Name,
        Self::Id,
        Self::Arguments,
        Self::Result,
        Self::Error,
        Self::Description,
        Self::Schema,
    ];
}

/// Families of the built-in dialects, each a YAML list of [`Dialect`].
const FAMILIES: [(&str, &str); 5] = [
    ("semconv", include_str!("dialects/semconv.yaml")),
    ("openinference", include_str!("dialects/openinference.yaml")),
    ("traceloop", include_str!("dialects/traceloop.yaml")),
    ("vendors", include_str!("dialects/vendors.yaml")),
    ("frameworks", include_str!("dialects/frameworks.yaml")),
];

impl Dialect {
    /// Returns the built-in dialects, replaced by those of `own` with the same name and followed by
    /// the others.
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

    /// Returns the built-in dialects. A test checks that all are valid.
    pub fn builtin() -> &'static [Dialect] {
        static BUILTIN: OnceLock<Vec<Dialect>> = OnceLock::new();
        BUILTIN.get_or_init(|| {
            let read = |(_, text): &(&str, &str)| -> Vec<Dialect> {
                yaml::read(text).and_then(|node| node.read()).unwrap_or_default()
            };
            FAMILIES.iter().flat_map(read).collect()
        })
    }

    /// Returns the conditions with their marks.
    pub fn marks(&self) -> impl Iterator<Item = (Mark, &Condition)> {
        [
            (Mark::Tool, self.detect.as_slice()),
            (Mark::Exclude, &self.exclude),
            (Mark::Doubtful, self.doubtful.as_slice()),
            (Mark::OnlyIfNamed, self.only_if_named.as_slice()),
            (Mark::Handoff, self.handoff.as_slice()),
            (Mark::Model, self.model_span.as_slice()),
            (Mark::Pending, self.pending.as_slice()),
            (Mark::Waiting, self.waiting.as_slice()),
            (Mark::Finished, self.finished.as_slice()),
            (Mark::Agent, self.agent_span.as_slice()),
            (Mark::Evaluator, self.evaluator_span.as_slice()),
        ]
        .into_iter()
        .flat_map(|(mark, conditions)| conditions.iter().map(move |condition| (mark, condition)))
    }

    /// Returns all sources with their facts, in order of precedence.
    pub fn sources(&self) -> impl Iterator<Item = (Role, &FactSource)> {
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
            (Role::FinishReason, &self.finish_reason),
        ]
        .into_iter()
        .flat_map(|(role, sources)| sources.iter().map(move |source| (role, source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanscore_base::settings::Node;
    use spanscore_base::value::json;

    #[test]
    fn built_in_dialects_can_be_read() {
        for (family, text) in FAMILIES {
            let read = yaml::read(text).and_then(|node| node.read::<Vec<Dialect>>());
            assert!(read.is_ok_and(|dialects| !dialects.is_empty()), "{family}");
        }
        let mut names: Vec<_> = Dialect::builtin().iter().map(|dialect| &dialect.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn mistakes_name_their_place_and_the_nearest_word() {
        let check = |text: &str, expected: &str| {
            let node = Node::from_value(&json::parse(text).unwrap());
            let error = node.read::<Dialect>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        };
        check(r#"{"detekt": {}}"#, "unknown setting `detekt` (did you mean `detect`?)");
        check(r#"{"detect": {"atr": "x"}}"#, "unknown setting `atr` (did you mean `attr`?)");
        check(
            r#"{"tool_call": {"name": [{"key": "x", "decode": "jsn"}]}}"#,
            "unknown decoder `jsn` (did you mean `json`?)",
        );
        check(r#"{"cost": [{"from": "span_event"}]}"#, "`key` is missing in this source");
        check(r#"{"cost": [{"from": "atr"}]}"#, "unknown value `atr` (did you mean `attr`?)");
    }
}
