//! Session files of Claude Code: one event per line, one run per prompt.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::super::span::{ForeignAttributes, ForeignSpan, text};
use super::messages::Transcript;
use super::{first_text, time_of};

/// Keys of which every event has one.
const EVENT_KEYS: [&str; 4] = ["sessionId", "uuid", "leafUuid", "messageId"];
/// Agent and service of the runs.
const AGENT: &str = "claude-code";

/// Returns true if an object is an event.
pub(super) fn is_event(value: &Json) -> bool {
    let is_of_session = EVENT_KEYS.iter().any(|key| value.get(key).is_some_and(Json::is_string));
    is_of_session && value.get("type").is_some_and(Json::is_string) && value.get("id").is_none()
}

/// Returns true if a list has the lines of a session.
pub(super) fn is_session(items: &[Json]) -> bool {
    items.first().is_some_and(is_event)
        && items.iter().any(|item| is_event(item) && message_of(item).is_some())
}

/// Returns the message of an event, if any.
fn message_of(event: &Json) -> Option<&Json> {
    let kind = event.get("type").and_then(Json::as_str)?;
    let is_meta = event.get("isMeta").and_then(Json::as_bool) == Some(true);
    let message = event.get("message").filter(|message| message.get("content").is_some());
    message.filter(|_| matches!(kind, "user" | "assistant") && !is_meta)
}

/// Returns the spans of all prompts.
pub(super) fn spans(events: &[Json], origin: &str) -> Vec<ForeignSpan> {
    let events: Vec<&Json> = events.iter().filter(|event| message_of(event).is_some()).collect();
    // A sub-agent's file holds nothing else.
    let is_whole = events.iter().all(|event| is_sub_agent(event));
    let begins = |event: &&Json| is_prompt(event) && (is_whole || !is_sub_agent(event));
    let mut spans = Vec::new();
    let mut rest = events.as_slice();
    while let Some((first, others)) = rest.split_first() {
        let len = 1 + others.iter().position(begins).unwrap_or(others.len());
        let (run, more) = rest.split_at(len);
        rest = more;
        spans.extend(spans_of_run(first, run, !is_whole, origin));
    }
    spans
}

/// Returns true for an event of a sub-agent.
fn is_sub_agent(event: &Json) -> bool {
    event.get("isSidechain").and_then(Json::as_bool) == Some(true)
}

/// Returns true if it has the user's words, not tool results or a summary for the model.
fn is_prompt(event: &Json) -> bool {
    let is_summary = event.get("isCompactSummary").and_then(Json::as_bool) == Some(true);
    let content = event.get("message").and_then(|message| message.get("content"));
    let is_result = |block: &Json| block.get("type").is_some_and(|kind| kind == "tool_result");
    let has_results = content.and_then(Json::as_array).is_some_and(|it| it.iter().any(is_result));
    text(event, "type").is_some_and(|kind| kind == "user") && !is_summary && !has_results
}

fn spans_of_run(
    first: &Json,
    events: &[&Json],
    tells_agents: bool,
    origin: &str,
) -> Vec<ForeignSpan> {
    let messages: Vec<Json> =
        events.iter().filter_map(|event| message_of(event)).cloned().collect();
    let agent_of = |event: &&Json| {
        let name = || first_text(event, &["agentId"]).unwrap_or_else(|| "subagent".to_owned());
        (tells_agents && is_sub_agent(event)).then(name)
    };
    let word = |key: &str, value: String| (key.to_owned(), Json::from(value));
    let version = text(first, "version").map(|version| word("service.version", version));
    let folder = text(first, "cwd").map(|folder| word("claude_code.cwd", folder));
    let origin = format!("{origin} {}", text(first, "uuid").unwrap_or_default());
    let resource = [word("service.name", AGENT.to_owned())].into_iter().chain(version);
    Transcript {
        messages: &messages,
        times: events.iter().map(|event| time_of(event, "timestamp")).collect(),
        of_turns: of_turns(events),
        agents: events.iter().map(agent_of).collect(),
        origin: &origin,
        attributes: folder.into_iter().collect(),
        resource: resource.collect(),
        agent: Some(AGENT.to_owned()),
        session: text(first, "sessionId"),
        ..Transcript::default()
    }
    .spans()
}

/// Token counts whose sum is a prompt's tokens, cached ones included.
const INPUT_TOKENS: [&str; 3] =
    ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

/// Returns model and tokens of each event that ends a message. A message spans several lines, each
/// with the tokens known at that time, so the last one counts.
fn of_turns(events: &[&Json]) -> Vec<ForeignAttributes> {
    let id_of = |event: &Json| text(event.get("message")?, "id");
    let mut ended: BTreeSet<String> = BTreeSet::new();
    let last_first = events.iter().rev().map(|event| match id_of(event) {
        Some(id) if !ended.insert(id.clone()) => Vec::new(),
        _ => event.get("message").map(usage).unwrap_or_default(),
    });
    let mut attributes: Vec<_> = last_first.collect();
    attributes.reverse();
    attributes
}

/// Returns model and tokens of a message under the conventions' names.
fn usage(message: &Json) -> ForeignAttributes {
    let Some(usage) = message.get("usage").filter(|usage| usage.is_object()) else {
        return Vec::new();
    };
    let tokens = |key: &&str| usage.get(*key).and_then(Json::as_u64);
    let input = INPUT_TOKENS.iter().filter_map(tokens).reduce(u64::saturating_add);
    let model = text(message, "model").map(|model| ("gen_ai.response.model", model.into()));
    let input = input.map(|input| ("gen_ai.usage.input_tokens", input.into()));
    let output = tokens(&"output_tokens").map(|it| ("gen_ai.usage.output_tokens", it.into()));
    let all = [model, input, output].into_iter().flatten();
    all.map(|(key, value): (&str, Json)| (key.to_owned(), value)).collect()
}
