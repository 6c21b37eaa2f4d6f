//! Answers of tools and resources: bounded JSON, or an error for the assistant.

use serde_json::{Value, json};

use super::matching::matching;
use super::store::{RunStore, StoredEvaluation, StoredTrace};
use super::tools::{
    CALLS, EVALUATIONS, ListEvaluatorsArgs, QueryArgs, TEXT_BYTES, TrajectoryArgs, start_of,
};
use super::trim::{ANSWER_BYTES_MAX, RESOURCE_BYTES_MAX, fitted, page};
use spanscore_base::model::TraceId;
use spanscore_evaluate::KINDS;

/// Limit on evaluations in an answer about a trajectory.
const BESIDE_MAX: usize = 50;

/// Answer, or an error for the assistant.
pub(super) type McpAnswer = Result<Value, String>;

/// Answers `list_evaluators`.
pub(super) fn evaluators(store: &RunStore, args: &ListEvaluatorsArgs) -> McpAnswer {
    let is_meant = |name: &str| args.kind.as_deref().is_none_or(|kind| kind == name);
    let configured = store.evaluators.iter();
    let configured: Vec<&Value> =
        configured.filter(|it| is_meant(it["kind"].as_str().unwrap_or_default())).collect();
    let mut answer = json!({"evaluators": configured});
    if args.kinds || args.kind.is_some() {
        answer["kinds"] = kinds(args.kind.as_deref());
    }
    Ok(fitted(&answer, TEXT_BYTES.0, ANSWER_BYTES_MAX))
}

/// Returns the kinds for a config, or one of them, each with an example.
pub(super) fn kinds(name: Option<&str>) -> Value {
    let kinds = KINDS.iter().filter(|kind| name.is_none_or(|name| name == kind.name));
    let rows = kinds.map(|kind| {
        json!({
            "kind": kind.name,
            "about": kind.about,
            "threshold": kind.threshold,
            "needs_criteria": kind.needs_criteria,
            "example": kind.example,
        })
    });
    rows.collect()
}

/// Answers `query_evaluations`.
pub(super) fn query(store: &RunStore, args: &QueryArgs) -> McpAnswer {
    let start = start_of(args.cursor.as_deref())?;
    let mut found = matching(store, args)?;
    if args.lowest_first {
        let score = |it: &StoredEvaluation| it.score.unwrap_or(f64::INFINITY);
        found.sort_by(|a, b| score(a).total_cmp(&score(b)));
    }
    let text_bytes = text_bytes(args.text_bytes);
    let limit = args.limit.unwrap_or(EVALUATIONS.0).clamp(1, EVALUATIONS.1);
    let shown = page(found.iter(), start, (limit, ANSWER_BYTES_MAX / 2), |evaluation| {
        let record = store.record(evaluation).map_err(|error| unread(&error))?;
        Ok(fitted(&record, text_bytes, ANSWER_BYTES_MAX / 2))
    })?;
    Ok(json!({
        "found": found.len(),
        "evaluations": shown.items,
        "next_cursor": shown.next.map(|next| next.to_string()),
    }))
}

/// Answers `get_trajectory`.
pub(super) fn trajectory(store: &RunStore, args: &TrajectoryArgs) -> McpAnswer {
    start_of(args.cursor.as_deref())?;
    let trace = trace_of(store, &args.trace_id)?;
    let text_bytes = text_bytes(args.text_bytes);
    let mut head = store.trajectory(trace).map_err(|error| unread(&error))?;
    let calls = head.as_object_mut().and_then(|map| map.shift_remove("tool_calls"));
    let mut answer = fitted(&head, text_bytes, ANSWER_BYTES_MAX / 4);
    answer["evaluations"] = beside(store, trace.trace_id);
    add_calls(&mut answer, calls, args)?;
    Ok(answer)
}

/// Adds a page of a run's calls to the answer about it.
pub(super) fn add_calls(
    answer: &mut Value,
    calls: Option<Value>,
    args: &TrajectoryArgs,
) -> Result<(), String> {
    let start = start_of(args.cursor.as_deref())?;
    let calls = calls.as_ref().and_then(Value::as_array).map_or(&[][..], |calls| calls);
    let limit = args.limit.unwrap_or(CALLS.0).clamp(1, CALLS.1);
    let text_bytes = text_bytes(args.text_bytes);
    let shown = page(calls.iter(), start, (limit, ANSWER_BYTES_MAX / 2), |call| {
        Ok(fitted(call, text_bytes, ANSWER_BYTES_MAX / 4))
    })?;
    answer["tool_calls"] = Value::Array(shown.items);
    answer["tool_calls_total"] = Value::from(calls.len());
    answer["next_cursor"] = shown.next.map(|next| next.to_string()).into();
    Ok(())
}

/// Summarises the evaluations of a trace.
fn beside(store: &RunStore, trace_id: TraceId) -> Value {
    let of_trace = store.evaluations.iter().filter(|it| it.target.trace_id == trace_id);
    let row = |it: &StoredEvaluation| {
        json!({
            "evaluator": it.evaluator.name,
            "level": it.evaluator.level.as_str(),
            "span_id": it.span_id.to_string(),
            "outcome": it.outcome(),
            "score": it.score,
            "reason": it.reason,
        })
    };
    let rows: Value = of_trace.take(BESIDE_MAX).map(row).collect();
    fitted(&rows, TEXT_BYTES.1, ANSWER_BYTES_MAX / 4)
}

/// Returns the text of a trace's resource.
pub(super) fn trace_resource(store: &RunStore, trace_id: &str) -> Result<String, String> {
    let trace = trace_of(store, trace_id)?;
    let whole = store.trajectory(trace).map_err(|error| unread(&error))?;
    Ok(fitted(&whole, RESOURCE_BYTES_MAX, RESOURCE_BYTES_MAX).to_string())
}

/// Returns the text of the evaluators' resource.
pub(super) fn evaluators_resource(store: &RunStore) -> String {
    let all = json!({"evaluators": store.evaluators});
    fitted(&all, RESOURCE_BYTES_MAX, RESOURCE_BYTES_MAX).to_string()
}

fn trace_of<'s>(store: &'s RunStore, id: &str) -> Result<&'s StoredTrace, String> {
    let id = store.known_id(id)?;
    store
        .trace(id)
        .ok_or_else(|| format!("no trace {id} with an agent, a model or a tool is in the files"))
}

pub(super) fn text_bytes(requested: Option<usize>) -> usize {
    let (usual, least, most) = TEXT_BYTES;
    requested.unwrap_or(usual).clamp(least, most)
}

pub(super) fn unread(error: &anyhow::Error) -> String {
    format!("failed to read what was kept of it in a temporary file: {error:#}")
}
