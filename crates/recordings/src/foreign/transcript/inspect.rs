//! Logs of Inspect (`inspect log convert --to json`): one run per sample and epoch.

use serde_json::{Map, Value as Json, json};

use super::super::span::{ForeignSpan, items};
use super::messages::Transcript;
use super::{first_text, time_of};

/// Returns true if an object is a log.
pub(super) fn is_log(map: &Map<String, Json>) -> bool {
    map.get("eval").is_some_and(Json::is_object)
        && (map.contains_key("samples") || map.contains_key("status"))
}

/// Returns the spans of all samples.
pub(super) fn spans(map: &Map<String, Json>, origin: &str) -> Result<Vec<ForeignSpan>, String> {
    let samples = map.get("samples").and_then(Json::as_array);
    let samples = samples.filter(|samples| !samples.is_empty()).ok_or(
        "a log of Inspect without samples: it was written with `--no-log-samples`, or only its \
         header was converted",
    )?;
    let eval = &map["eval"];
    Ok(samples.iter().flat_map(|sample| spans_of_sample(sample, eval, origin)).collect())
}

fn spans_of_sample(sample: &Json, eval: &Json, origin: &str) -> Vec<ForeignSpan> {
    let messages: Vec<Json> = items(sample, "messages").iter().map(message).collect();
    let id = match sample.get("id") {
        Some(Json::String(id)) => id.clone(),
        Some(id) => id.to_string(),
        None => String::new(),
    };
    let epoch = sample.get("epoch").cloned().unwrap_or_default();
    let mut attributes = vec![
        ("case".to_owned(), Json::from(id.as_str())),
        ("inspect.sample.epoch".to_owned(), epoch.clone()),
    ];
    let task = first_text(eval, &["task_display_name", "task"]);
    attributes.extend(task.clone().map(|task| ("inspect.task".to_owned(), task.into())));
    let model = first_text(eval, &["model"]);
    attributes.extend(model.map(|model| ("gen_ai.request.model".to_owned(), model.into())));
    let metadata = sample.get("metadata").and_then(Json::as_object);
    attributes.extend(
        metadata.into_iter().flatten().map(|(key, it)| (format!("metadata.{key}"), it.clone())),
    );
    let origin = format!("{origin} {id} {epoch}");
    let count = messages.len();
    let times = match [time_of(sample, "started_at"), time_of(sample, "completed_at")] {
        [0, _] | [_, 0] => Vec::new(),
        [start, end] => spread(start, end, count),
    };
    let transcript = Transcript {
        messages: &messages,
        times,
        origin: &origin,
        attributes,
        resource: task.map(|task| ("service.name".to_owned(), task.into())).into_iter().collect(),
        ..Transcript::default()
    };
    if count == 0 { Vec::new() } else { transcript.spans() }
}

/// Spreads messages evenly over the time of their sample, since they have no times.
fn spread(start: u64, end: u64, count: usize) -> Vec<u64> {
    let last = count.saturating_sub(1).max(1) as u64;
    (0..count as u64).map(|at| start + end.saturating_sub(start) / last * at).collect()
}

/// Converts a message to the form of OpenAI's API: Inspect names a call's tool `function`, and
/// keeps an error beside the content.
fn message(message: &Json) -> Json {
    let mut message = message.clone();
    let calls = message.get_mut("tool_calls").and_then(Json::as_array_mut);
    for call in calls.into_iter().flatten() {
        if let Some(name) = call.get("function").and_then(Json::as_str) {
            let arguments = call.get("arguments").cloned().unwrap_or_default();
            *call = json!({
                "id": call.get("id"),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            });
        }
    }
    if let Some(error) = message.get("error").filter(|error| error.is_object()) {
        let content = json!({
            "type": "tool_result",
            "tool_use_id": message.get("tool_call_id"),
            "content": error.get("message"),
            "is_error": true,
        });
        return json!({"role": "user", "content": [content]});
    }
    message
}
