//! Conversion of a list of messages to spans.

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::super::span::{ForeignAttributes, ForeignSpan, as_text};

/// Scope of the spans.
const SCOPE: &str = "spanscore.transcript";
/// Id of the run's span.
const RUN: &str = "run";
/// Roles of messages in model APIs.
const ROLES: [&str; 10] = [
    "system", "developer", "user", "human", "assistant", "model", "ai", "tool", "function",
    "tool_result",
];
/// Roles of the model.
const MODELS: [&str; 3] = ["assistant", "model", "ai"];
/// Keys of a message's parts; one of them distinguishes it from other objects with a role.
const PARTS: [&str; 6] =
    ["content", "parts", "tool_calls", "function_call", "tool_call_id", "text"];
/// Interval between messages without times, nanoseconds.
const STEP_NS: u64 = 1;

/// Messages of one run of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript<'m> {
    pub(super) messages: &'m [Json],
    /// Time of each message, Unix nanoseconds; empty without times.
    pub(super) times: Vec<u64>,
    /// Attributes that a message adds to the span of its turn, such as its tokens; numbers of one
    /// key are summed. Empty if unknown.
    pub(super) of_turns: Vec<ForeignAttributes>,
    /// Sub-agent of each message; empty without any.
    pub(super) agents: Vec<Option<String>>,
    /// Place of the transcript, which distinguishes it from another with the same messages.
    pub(super) origin: &'m str,
    /// Attributes of the run.
    pub(super) attributes: ForeignAttributes,
    /// Resource of the spans.
    pub(super) resource: ForeignAttributes,
    pub(super) agent: Option<String>,
    pub(super) session: Option<String>,
    pub(super) system: Option<&'m Json>,
    pub(super) tools: Option<&'m Json>,
}

/// Returns true if a value is a message of a model API, or an item of one.
pub(super) fn is_message(value: &Json) -> bool {
    let word = |key: &str| value.get(key).and_then(Json::as_str);
    let has = |key: &str| value.get(key).is_some();
    let is_author = |word: &str| ROLES.contains(&word);
    match (word("role"), word("type")) {
        (Some(role), _) => is_author(role) && PARTS.into_iter().any(has),
        (None, Some(kind)) => is_author(kind) && has("content") || is_call(value, kind),
        (None, None) => false,
    }
}

/// Returns true if an item is a call or its result.
fn is_call(value: &Json, kind: &str) -> bool {
    matches!(kind, "function_call" | "function_call_output") && value.get("call_id").is_some()
}

/// Returns true if the model is the author.
fn is_models(message: &Json) -> bool {
    let word = |key: &str| message.get(key).and_then(Json::as_str);
    match (word("role"), word("type")) {
        (Some(role), _) => MODELS.contains(&role),
        (None, Some(kind)) => {
            MODELS.contains(&kind) || kind == "reasoning" || kind.ends_with("_call")
        }
        (None, None) => false,
    }
}

impl Transcript<'_> {
    /// Returns the spans, that of the run first.
    pub(super) fn spans(&self) -> Vec<ForeignSpan> {
        let trace_id = self.id();
        let mut spans = vec![self.run(&trace_id)];
        let mut at = 0;
        while at < self.messages.len() {
            let heard = self.end_of_run(at, |message| !is_models(message));
            let said = self.end_of_run(heard, is_models);
            let agent = self.agent_of(heard);
            let end = (heard..said).find(|at| self.agent_of(*at) != agent).unwrap_or(said);
            spans.push(self.turn(&trace_id, at, heard, end));
            at = end;
        }
        let agents = self.sub_agents(&trace_id);
        spans.extend(agents);
        spans
    }

    /// Returns the first index from `from` at which a test fails.
    fn end_of_run(&self, from: usize, holds: fn(&Json) -> bool) -> usize {
        let mut rest = self.messages[from..].iter();
        rest.position(|message| !holds(message)).map_or(self.messages.len(), |count| from + count)
    }

    fn agent_of(&self, at: usize) -> Option<&str> {
        self.agents.get(at)?.as_deref()
    }

    /// Returns the trace id: the same messages at the same place are the same run.
    fn id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.origin);
        for message in self.messages {
            hash.update([0]);
            hash.update(message.to_string());
        }
        let digest = hash.finalize();
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn time(&self, at: usize) -> u64 {
        let own = self.times.get(at).copied().filter(|time| *time > 0);
        own.unwrap_or((at as u64 + 1) * STEP_NS)
    }

    /// Returns the span of the run, with its first input and the model's last output.
    fn run(&self, trace_id: &str) -> ForeignSpan {
        let own = |at: &usize| self.agent_of(*at).is_none();
        let first = self.end_of_run(0, |message| !is_models(message));
        let last = (0..self.messages.len()).filter(own).rfind(|at| is_models(&self.messages[*at]));
        let mut attributes = self.attributes.clone();
        let mut add = |key: &str, value: Json| attributes.push((key.to_owned(), value));
        add("gen_ai.operation.name", "invoke_agent".into());
        if let Some(agent) = &self.agent {
            add("gen_ai.agent.name", agent.as_str().into());
        }
        if let Some(session) = &self.session {
            add("gen_ai.conversation.id", session.as_str().into());
        }
        add("gen_ai.input.messages", joined(&self.messages[..first]));
        if let Some(last) = last {
            add("gen_ai.output.messages", joined(&self.messages[last..=last]));
        }
        for (key, value) in
            [("gen_ai.tool.definitions", self.tools), ("gen_ai.system_instructions", self.system)]
        {
            if let Some(value) = value {
                add(key, as_text(value));
            }
        }
        let end = self.messages.len().saturating_sub(1);
        self.span(trace_id, RUN, None, ("invoke_agent", 0, end), attributes)
    }

    /// Returns a span from one message to another; ids are of the run.
    fn span(
        &self,
        trace_id: &str,
        id: &str,
        parent: Option<&str>,
        (name, start, end): (&str, usize, usize),
        attributes: ForeignAttributes,
    ) -> ForeignSpan {
        ForeignSpan {
            trace_id: trace_id.to_owned(),
            span_id: id.to_owned() + trace_id,
            parent_id: parent.map(|parent| parent.to_owned() + trace_id),
            name: name.to_owned(),
            start_ns: self.time(start),
            end_ns: self.time(end),
            attributes,
            resource: self.resource.clone(),
            scope: SCOPE.to_owned(),
            ..ForeignSpan::default()
        }
    }

    /// Returns the span of one turn of the model: its new input, then its output.
    fn turn(&self, trace_id: &str, from: usize, heard: usize, end: usize) -> ForeignSpan {
        let mut attributes = vec![("gen_ai.operation.name".to_owned(), Json::from("chat"))];
        for (key, messages) in [
            ("gen_ai.input.messages", &self.messages[from..heard]),
            ("gen_ai.output.messages", &self.messages[heard..end]),
        ] {
            if !messages.is_empty() {
                attributes.push((key.to_owned(), joined(messages)));
            }
        }
        for (key, value) in self.of_turns.get(heard..end).into_iter().flatten().flatten() {
            match attributes.iter_mut().find(|(known, _)| known == key) {
                None => attributes.push((key.clone(), value.clone())),
                Some((_, sum)) => {
                    if let (Some(one), Some(other)) = (sum.as_u64(), value.as_u64()) {
                        *sum = one.saturating_add(other).into();
                    }
                }
            }
        }
        let agent = self.agent_of(heard.min(end.saturating_sub(1)));
        let place = ("chat", heard.saturating_sub(1).max(from), end.saturating_sub(1));
        self.span(trace_id, &from.to_string(), Some(agent.unwrap_or(RUN)), place, attributes)
    }

    /// Returns a span for each sub-agent, around its turns.
    fn sub_agents(&self, trace_id: &str) -> Vec<ForeignSpan> {
        let mut spans: Vec<ForeignSpan> = Vec::new();
        for (at, agent) in self.agents.iter().enumerate() {
            let Some(agent) = agent else { continue };
            let span_id = agent.clone() + trace_id;
            if let Some(span) = spans.iter_mut().find(|span| span.span_id == span_id) {
                span.end_ns = self.time(at);
                continue;
            }
            let word = |key: &str, value: &str| (key.to_owned(), Json::from(value));
            let attributes = vec![
                word("gen_ai.operation.name", "invoke_agent"),
                word("gen_ai.agent.name", agent),
            ];
            let place = ("invoke_agent", at, at);
            spans.push(self.span(trace_id, agent, Some(RUN), place, attributes));
        }
        spans
    }
}

/// Returns messages as JSON text, as instrumentations write them.
fn joined(messages: &[Json]) -> Json {
    as_text(&json!(messages))
}
