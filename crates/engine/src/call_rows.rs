//! JSON form of a trajectory for `inspect`.

use std::borrow::Cow;

use spanscore_base::model::tool_call::groups;
use spanscore_base::model::{Content, ToolCall, Trajectory, Usage};
use spanscore_base::otlp::AnyValue;
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::{FailureJudge, FailureSettings};
use spanscore_extract::raw_text;

/// Converts a trajectory to an object; the built-in table judges failures.
pub fn row<'a>(trajectory: &'a Trajectory<'_>) -> Value<'a> {
    let failures = FailureJudge::new(&FailureSettings::default());
    judged_row(trajectory, failures.as_ref().ok())
}

/// Converts a trajectory to an object. Unrecorded fields are `null`; unparsed values are raw under
/// `_raw`.
pub fn judged_row<'a>(
    trajectory: &'a Trajectory<'_>,
    failures: Option<&FailureJudge>,
) -> Value<'a> {
    let calls = groups(&trajectory.tool_calls)
        .flat_map(|group| group.iter().map(|c| call(c, group, failures)));
    let calls: Vec<Value<'a>> = calls.collect();
    let definitions = trajectory.tool_definitions.iter().map(|definition| {
        object([
            ("name", Value::from(&*definition.name)),
            ("description", Value::from(&*definition.description)),
            ("input_schema", definition.input_schema.clone()),
        ])
    });
    let resource =
        spanscore_base::otlp::any_value::key_values(&trajectory.resource.encoded).flatten();
    object([
        ("trace_id", Value::from(trajectory.trace_id.to_string())),
        ("span_id", Value::from(trajectory.span_id.to_string())),
        ("session_id", text(trajectory.session_id.as_deref())),
        ("agent_name", text(trajectory.agent_name.as_deref())),
        ("service_name", text(Some(trajectory.service_name()).filter(|name| !name.is_empty()))),
        ("span_name", Value::from(&*trajectory.span_name)),
        ("start_time_unix_nano", Value::from(trajectory.start_ns)),
        ("end_time_unix_nano", Value::from(trajectory.end_ns)),
        ("user_input", content(&trajectory.user_input)),
        ("final_output", content(&trajectory.final_output)),
        ("not_recorded", not_recorded(trajectory)),
        ("tool_calls", Value::List(calls)),
        ("tool_definitions", Value::List(definitions.collect())),
        ("model", text(trajectory.models.last().map(|it| &**it))),
        ("usage", usage(&trajectory.usage)),
        ("cost_usd", Value::from(trajectory.cost)),
        ("resource", attributes(resource)),
        ("attributes", attributes(trajectory.attributes.iter().copied())),
    ])
}

/// Lists the unrecorded fields, to distinguish them from a recorded `null`.
fn not_recorded<'a>(trajectory: &Trajectory<'_>) -> Value<'a> {
    missing([
        ("session_id", trajectory.session_id.is_none()),
        ("agent_name", trajectory.agent_name.is_none()),
        ("user_input", trajectory.user_input.is_absent()),
        ("final_output", trajectory.final_output.is_absent()),
        ("tool_calls", trajectory.calls_missing),
    ])
}

fn missing<'a, const N: usize>(fields: [(&'static str, bool); N]) -> Value<'a> {
    let missing = fields.into_iter().filter(|(_, is_missing)| *is_missing);
    Value::List(missing.map(|(name, _)| Value::from(name)).collect())
}

/// Converts a call, with its group number if it is one of several parallel calls.
fn call<'a>(
    call: &'a ToolCall<'_>,
    group: &[ToolCall<'_>],
    failures: Option<&FailureJudge>,
) -> Value<'a> {
    let (failed, reason) = failures.map_or((None, None), |failures| failures.judge(call));
    let time = |ns: u64| if ns == 0 { Value::Null } else { Value::from(ns) };
    let object = object([
        ("name", Value::from(&*call.name)),
        ("id", text(call.id.as_deref())),
        ("arguments", content(&call.arguments)),
        ("result", content(&call.result)),
        ("status", Value::from(call.status.as_str())),
        ("error", text(call.error.as_deref())),
        ("failed", Value::from(failed)),
        ("failed_reason", Value::from(reason.map(str::to_owned))),
        (
            "not_recorded",
            missing([
                ("id", call.id.is_none()),
                ("arguments", call.arguments.is_absent()),
                ("result", call.result.is_absent()),
            ]),
        ),
        ("agent", text(call.agent.as_deref())),
        ("origin", Value::from(call.origin.as_str())),
        ("span_id", Value::from(call.span_id.to_string())),
        ("dialect", Value::from(call.dialect)),
        ("start_time_unix_nano", time(call.start_ns)),
        ("end_time_unix_nano", time(call.end_ns)),
    ]);
    let Value::Map(mut map) = object else { return object };
    if group.len() > 1 {
        map.insert("group", u64::from(call.group));
    }
    if call.is_output {
        map.insert("is_output", true);
    }
    Value::Map(map)
}

/// Converts content; `null` if it is not recorded.
fn content<'a>(content: &'a Content<'_>) -> Value<'a> {
    match content {
        Content::NotRecorded | Content::Redacted => Value::Null,
        Content::Unreadable(text) => raw_text(Cow::Borrowed(text)),
        Content::Recorded(lazy) => lazy.get().clone(),
    }
}

fn usage<'a>(usage: &Usage) -> Value<'a> {
    object([
        ("input_tokens", Value::from(usage.input_tokens)),
        ("output_tokens", Value::from(usage.output_tokens)),
        ("cache_read_tokens", Value::from(usage.cache_read_tokens)),
        ("cache_write_tokens", Value::from(usage.cache_write_tokens)),
        ("reasoning_tokens", Value::from(usage.reasoning_tokens)),
    ])
}

fn attributes<'a>(entries: impl Iterator<Item = (&'a str, AnyValue<'a>)>) -> Value<'a> {
    let read = |value: AnyValue<'a>| {
        let unreadable = |_| raw_text(Cow::Owned(value.legible().to_string()));
        value.to_value().unwrap_or_else(unreadable)
    };
    Value::Map(entries.map(|(key, value)| (key, read(value))).collect())
}

fn text(text: Option<&str>) -> Value<'_> {
    Value::from(text)
}

fn object<'a, const N: usize>(entries: [(&'static str, Value<'a>); N]) -> Value<'a> {
    Value::Map(entries.into_iter().collect::<Map<'a>>())
}
