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

/// Rules that read tool calls and other facts from the spans of one instrumentation.
#[derive(Clone, Debug, SmartDefault, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dialect {
    /// Name of the dialect. A dialect with the name of a built-in one replaces it.
    pub name: String,
    /// Framework and instrumentation of the spans, for display.
    pub title: String,
    /// Rank among the dialects that match a span. The lowest rank is read first; the others fill
    /// the fields that are still empty. Built-in dialects use 1 to 60. Default 50.
    #[default = 50]
    pub priority: u16,
    /// Condition for spans that are tool calls. Without it, the dialect reads no calls from spans.
    pub detect: Option<Condition>,
    /// Accepts a span as a tool call only if a model requested a tool of its name. For
    /// instrumentations without a mark for tool spans. Default `false`.
    pub only_if_asked: bool,
    /// Conditions for spans that are no tool calls, for any dialect.
    pub exclude: Vec<Condition>,
    /// Spans of `detect` on which only the names of keys tell of a call. Guards, approvals and
    /// caches write the same keys, and say what they are by the names of their spans
    /// (`tool.approval`): such a span is no call.
    pub doubtful: Option<Condition>,
    /// Spans of `detect` that only name a tool: calls if their own names end in a word for calling
    /// a tool (`session.tool_call`), or hold the tool's name (`tool.find`) from a key that ends in
    /// `tool_name`.
    pub only_if_named: Option<Condition>,
    /// Places of the parts of a tool call on its span.
    pub tool_call: ToolCallSources,
    /// Condition for spans that hand the conversation to another agent. They are no tool calls. In
    /// a trace with such a span, calls named `transfer_to_*` are no tool calls either.
    pub handoff: Option<Condition>,
    /// Tools that carry the final answer of the framework: names, or prefixes with `*` at the end.
    /// Their arguments are the final output. The names apply to calls of any dialect, since another
    /// dialect may read the messages of the framework.
    pub output_tools: Vec<String>,
    /// Condition for spans that are exported at their start and again at their end.
    pub pending: Option<Condition>,
    /// Condition for spans that mark a waiting run: for the approval of a person, or for another
    /// agent.
    pub waiting: Option<Condition>,
    /// Condition for spans that mark the end of a run.
    pub finished: Option<Condition>,
    /// Condition for spans of an agent or a model call. A trace with such a span is an agent's run,
    /// even without tool calls.
    pub agent_span: Option<Condition>,
    /// Condition for spans of a model call. If no message shows which calls are parallel, the calls
    /// of an agent between two of its model calls are.
    pub model_span: Option<Condition>,
    /// Condition for spans of an evaluation. Spans below them are no part of the run.
    pub evaluator_span: Option<Condition>,
    /// Sources of the session (conversation) of a span.
    pub session_id: Vec<FactSource>,
    /// Sources of the user that the run serves.
    pub user_id: Vec<FactSource>,
    /// Sources of the agent of a span. A call takes the agent of its own span, or of the nearest
    /// enclosing span with one.
    pub agent_name: Vec<FactSource>,
    /// Sources of the user's request. The first span in start order with a value counts.
    pub user_input: Vec<FactSource>,
    /// Sources of the agent's answer. The last span in start order with a value counts.
    pub final_output: Vec<FactSource>,
    /// Sources of the messages of model calls.
    pub messages: MessageSources,
    /// Sources of the tool definitions that the model received, as a list in any known format.
    pub tool_definitions: Vec<FactSource>,
    /// Sources of the name of the model. The first one of a span counts.
    pub model: Vec<FactSource>,
    /// Sources of the token counts of a model call.
    pub usage: UsageSources,
    /// Sources of the cost of a model call, in US dollars.
    pub cost: Vec<FactSource>,
    /// Sources of the reason for which a model stopped, such as `tool_calls` or `tool_use`. They
    /// show that a trace without calls does not record its calls.
    pub finish_reason: Vec<FactSource>,
}

/// Sources of the parts of a tool call. Each list is tried in order.
#[derive(Clone, Debug, SmartDefault, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolCallSources {
    /// Sources of the tool's name.
    pub name: Vec<FactSource>,
    /// Sources of the id that the model gave the call.
    pub id: Vec<FactSource>,
    /// Sources of the arguments.
    pub arguments: Vec<FactSource>,
    /// Sources of the result.
    pub result: Vec<FactSource>,
    /// Sources that mark a failed call. Default: exception events, the status and `error.type`.
    #[default(standard_error())]
    pub error: Vec<FactSource>,
    /// Sources of the tool's description.
    pub description: Vec<FactSource>,
    /// Sources of the JSON Schema of the tool's arguments.
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

/// Sources of the messages of model calls. The format is detected: OpenTelemetry parts, OpenAI,
/// Anthropic, Gemini, Bedrock, LangChain and others.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessageSources {
    /// Sources of messages that the model wrote. Their tool calls are calls of the run.
    pub output: Vec<FactSource>,
    /// Sources of messages that the model received. Their tool results belong to earlier calls;
    /// their tool calls are history.
    pub input: Vec<FactSource>,
}

/// Sources of the token counts of a model call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UsageSources {
    /// Sources of the count of input tokens.
    pub input: Vec<FactSource>,
    /// Sources of the count of output tokens.
    pub output: Vec<FactSource>,
    /// Sources of the count of input tokens from a cache.
    pub cache_read: Vec<FactSource>,
    /// Sources of the count of input tokens written to a cache.
    pub cache_write: Vec<FactSource>,
    /// Sources of the count of output tokens spent on reasoning.
    pub reasoning: Vec<FactSource>,
    /// Adds the cached tokens to the input tokens, for instrumentations whose input count excludes
    /// them. Default `false`.
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
    /// [`Dialect::user_id`]
    UserId,
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
            (Role::UserId, &self.user_id),
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
