//! The messages of `proto/spanscore/evaluator/v1/evaluator.proto`, where they are described.
//!
//! Written by hand, so that a build needs no compiler of protobuf; `tests/it/external/proto.rs`
//! holds them against the file.

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};
use prost_types::{Struct, Timestamp};

/// Minor version that is spoken.
pub const MINOR: u32 = 0;

/// `DescribeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct DescribeRequest {
    /// Minor version that the collector speaks.
    #[prost(uint32, tag = "1")]
    pub minor: u32,
    /// Version of the collector.
    #[prost(string, tag = "2")]
    pub collector_version: String,
}

/// `DescribeResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct DescribeResponse {
    /// Minor version that the server speaks.
    #[prost(uint32, tag = "1")]
    pub minor: u32,
    /// What it evaluates.
    #[prost(message, repeated, tag = "2")]
    pub kinds: Vec<ServedKind>,
}

/// `Kind`: one thing that a server evaluates.
#[derive(Clone, PartialEq, Message)]
pub struct ServedKind {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version, a part of every evaluation's identity.
    #[prost(string, tag = "2")]
    pub version: String,
    /// JSON Schema of its settings; empty takes all.
    #[prost(string, tag = "3")]
    pub settings_schema: String,
    /// [`TaskLevel`]s that it evaluates; empty means all.
    #[prost(enumeration = "TaskLevel", repeated, tag = "4")]
    pub levels: Vec<i32>,
    /// [`NeededPart`]s that it needs to see.
    #[prost(enumeration = "NeededPart", repeated, tag = "5")]
    pub needs: Vec<i32>,
    /// Most tasks of one request; 0 says nothing.
    #[prost(uint32, tag = "6")]
    pub batch_max: u32,
}

/// `EvaluateRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct EvaluateRequest {
    /// [`ServedKind::name`].
    #[prost(string, tag = "1")]
    pub kind: String,
    /// The settings as a JSON object.
    #[prost(string, tag = "2")]
    pub settings_json: String,
    /// What is to be evaluated.
    #[prost(message, repeated, tag = "3")]
    pub tasks: Vec<TaskMessage>,
}

/// `Task`: one target.
#[derive(Clone, PartialEq, Message)]
pub struct TaskMessage {
    /// The id of the evaluation.
    #[prost(string, tag = "1")]
    pub id: String,
    /// What is judged.
    #[prost(enumeration = "TaskLevel", tag = "2")]
    pub level: i32,
    /// The span that the evaluation is attached to.
    #[prost(string, tag = "3")]
    pub span_id: String,
    /// The criteria as JSON; empty without any.
    #[prost(string, tag = "4")]
    pub criteria_json: String,
    /// One, or the turns of a session.
    #[prost(message, repeated, tag = "5")]
    pub trajectories: Vec<TrajectoryMessage>,
}

/// `Trajectory`.
#[derive(Clone, PartialEq, Message)]
pub struct TrajectoryMessage {
    /// 32 hexadecimal digits.
    #[prost(string, tag = "1")]
    pub trace_id: String,
    /// 16 hexadecimal digits.
    #[prost(string, tag = "2")]
    pub root_span_id: String,
    /// Empty where the spans name none.
    #[prost(string, tag = "3")]
    pub session_id: String,
    /// `service.name`.
    #[prost(string, tag = "4")]
    pub service_name: String,
    /// Empty where it is not known.
    #[prost(string, tag = "5")]
    pub agent_name: String,
    /// Why the trace was complete.
    #[prost(string, tag = "6")]
    pub completion: String,
    /// How often it was evaluated before.
    #[prost(uint32, tag = "7")]
    pub revision: u32,
    /// What the user asked.
    #[prost(message, optional, tag = "8")]
    pub user_input: Option<ContentMessage>,
    /// What the agent answered.
    #[prost(message, optional, tag = "9")]
    pub final_output: Option<ContentMessage>,
    /// In the order of the run.
    #[prost(message, repeated, tag = "10")]
    pub tool_calls: Vec<CallMessage>,
    /// What the agent was offered.
    #[prost(message, repeated, tag = "11")]
    pub tool_definitions: Vec<DefinitionMessage>,
    /// What was said.
    #[prost(message, repeated, tag = "12")]
    pub messages: Vec<SaidMessage>,
    /// Tokens and calls of models.
    #[prost(btree_map = "string, uint64", tag = "13")]
    pub usage: BTreeMap<String, u64>,
    /// Of the root span.
    #[prost(message, optional, tag = "14")]
    pub attributes: Option<Struct>,
}

/// `ToolCall`.
#[derive(Clone, PartialEq, Message)]
pub struct CallMessage {
    /// 16 hexadecimal digits.
    #[prost(string, tag = "1")]
    pub span_id: String,
    /// The id that the model gave it.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The tool.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The agent that made it.
    #[prost(string, tag = "4")]
    pub agent_name: String,
    /// Arguments.
    #[prost(message, optional, tag = "5")]
    pub arguments: Option<ContentMessage>,
    /// What the tool returned.
    #[prost(message, optional, tag = "6")]
    pub result: Option<ContentMessage>,
    /// The error's text.
    #[prost(message, optional, tag = "7")]
    pub error: Option<ContentMessage>,
    /// How it ended.
    #[prost(enumeration = "CallEnd", tag = "8")]
    pub status: i32,
    /// When it began.
    #[prost(message, optional, tag = "9")]
    pub start_time: Option<Timestamp>,
    /// When it ended, if that is known.
    #[prost(message, optional, tag = "10")]
    pub end_time: Option<Timestamp>,
}

/// `ToolDefinition`.
#[derive(Clone, PartialEq, Message)]
pub struct DefinitionMessage {
    /// The tool.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Words for the model.
    #[prost(string, tag = "2")]
    pub description: String,
    /// JSON Schema of the arguments; empty without one.
    #[prost(string, tag = "3")]
    pub input_schema_json: String,
}

/// `Message`: what somebody said.
#[derive(Clone, PartialEq, Message)]
pub struct SaidMessage {
    /// `system`, `user` or `assistant`.
    #[prost(string, tag = "1")]
    pub role: String,
    /// What was said.
    #[prost(message, optional, tag = "2")]
    pub content: Option<ContentMessage>,
}

/// `Content`.
#[derive(Clone, PartialEq, Message)]
pub struct ContentMessage {
    /// Text or JSON.
    #[prost(string, tag = "1")]
    pub value: String,
    /// Which of the two.
    #[prost(bool, tag = "2")]
    pub json: bool,
    /// How much of it there is.
    #[prost(enumeration = "ContentState", tag = "3")]
    pub state: i32,
    /// Bytes of all of it, where `value` is a part and that is known.
    #[prost(uint64, tag = "4")]
    pub bytes_full: u64,
}

/// `EvaluateResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct EvaluateResponse {
    /// The answers.
    #[prost(message, repeated, tag = "1")]
    pub evaluations: Vec<EvaluationMessage>,
}

/// `Evaluation`.
#[derive(Clone, PartialEq, Message)]
pub struct EvaluationMessage {
    /// [`TaskMessage::id`].
    #[prost(string, tag = "1")]
    pub task_id: String,
    /// What the evaluator calls it.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The span of a call; empty for the target itself.
    #[prost(string, tag = "3")]
    pub span_id: String,
    /// What came of it.
    #[prost(oneof = "OutcomeMessage", tags = "4, 5, 6")]
    pub outcome: Option<OutcomeMessage>,
    /// For a person.
    #[prost(string, tag = "7")]
    pub explanation: String,
    /// Anything else.
    #[prost(message, optional, tag = "8")]
    pub details: Option<Struct>,
    /// Tokens that it took.
    #[prost(btree_map = "string, uint64", tag = "9")]
    pub usage: BTreeMap<String, u64>,
    /// What it cost, US dollars.
    #[prost(double, tag = "10")]
    pub cost_usd: f64,
}

/// `Evaluation.outcome`.
#[derive(Clone, PartialEq, Oneof)]
pub enum OutcomeMessage {
    /// A score.
    #[prost(message, tag = "4")]
    Scored(ScoreMessage),
    /// Why there is none.
    #[prost(string, tag = "5")]
    NotEvaluable(String),
    /// What broke.
    #[prost(message, tag = "6")]
    Failed(FailureMessage),
}

/// `Score`.
#[derive(Clone, PartialEq, Message)]
pub struct ScoreMessage {
    /// 0 to 1.
    #[prost(double, tag = "1")]
    pub value: f64,
    /// `pass` or `fail`.
    #[prost(string, optional, tag = "2")]
    pub label: Option<String>,
}

/// `Failure`.
#[derive(Clone, PartialEq, Message)]
pub struct FailureMessage {
    /// Lower snake case.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// For a person.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Whether another try may help.
    #[prost(bool, tag = "3")]
    pub retryable: bool,
}

/// `Level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub enum TaskLevel {
    /// Not said.
    Unspecified = 0,
    /// One tool call.
    Call = 1,
    /// One trace.
    Trace = 2,
    /// One session.
    Session = 3,
}

/// `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub enum CallEnd {
    /// The telemetry does not say.
    Unspecified = 0,
    /// It returned.
    Ok = 1,
    /// It failed.
    Error = 2,
}

/// `State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub enum ContentState {
    /// Not said.
    Unspecified = 0,
    /// All of it.
    Full = 1,
    /// A part of it.
    Truncated = 2,
    /// A placeholder stood in its place.
    Redacted = 3,
}

/// `Fact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub enum NeededPart {
    /// Not said.
    Unspecified = 0,
    /// What the user asked.
    UserInput = 1,
    /// What the agent answered.
    FinalOutput = 2,
    /// The calls, without their contents.
    ToolCalls = 3,
    /// Their arguments.
    Arguments = 4,
    /// Their results and errors.
    Results = 5,
    /// What the agent was offered.
    ToolDefinitions = 6,
    /// What was said.
    Messages = 7,
    /// Tokens and calls of models.
    Usage = 8,
    /// Attributes of the root span.
    Attributes = 9,
}
