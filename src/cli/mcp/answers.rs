//! Answers of tools and resources: bounded JSON, or an error for the assistant.

use serde_json::{Value, json};

use super::store::{RunStore, StoredEvaluation, StoredTrace, StoredVerdict};
use super::tools::{
    CALLS, EVALUATIONS, ListEvaluatorsArgs, OutcomeWord, QueryArgs, TEXT_BYTES, TrajectoryArgs,
    start_of,
};
use super::trim::{ANSWER_BYTES_MAX, RESOURCE_BYTES_MAX, fitted, page};
use spanscore_base::model::TraceId;
use spanscore_evaluate::KINDS;

/// Limit of evaluations beside a trajectory.
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
        let kinds = KINDS.iter().filter(|kind| is_meant(kind.name));
        let kinds = kinds.map(|kind| {
            json!({
                "kind": kind.name,
                "about": kind.about,
                "threshold": kind.threshold,
                "needs_criteria": kind.needs_criteria,
                "example": kind.example,
            })
        });
        answer["kinds"] = kinds.collect();
    }
    Ok(fitted(&answer, TEXT_BYTES.0, ANSWER_BYTES_MAX))
}

/// Answers `query_evaluations`.
pub(super) fn query(store: &RunStore, args: &QueryArgs) -> McpAnswer {
    let trace_id = args.trace_id.as_deref().map(known_id).transpose()?;
    let start = start_of(args.cursor.as_deref())?;
    let mut found: Vec<&StoredEvaluation> =
        store.evaluations.iter().filter(|it| is_asked_for(it, args, trace_id)).collect();
    if args.lowest_first {
        let score = |it: &StoredEvaluation| it.score.unwrap_or(f64::INFINITY);
        found.sort_by(|a, b| score(a).total_cmp(&score(b)));
    }
    let text_bytes = text_bytes(args.text_bytes);
    let limit = args.limit.unwrap_or(EVALUATIONS.0).clamp(1, EVALUATIONS.1);
    let mut fault = None;
    let shown = page(found.iter(), start, (limit, ANSWER_BYTES_MAX / 2), |evaluation| {
        let record = store.record(evaluation).unwrap_or_else(|error| {
            fault = Some(unread(&error));
            Value::Null
        });
        fitted(&record, text_bytes, ANSWER_BYTES_MAX / 2)
    });
    match fault {
        Some(fault) => Err(fault),
        None => Ok(json!({
            "found": found.len(),
            "evaluations": shown.items,
            "next_cursor": shown.next.map(|next| next.to_string()),
        })),
    }
}

fn is_asked_for(it: &StoredEvaluation, args: &QueryArgs, trace_id: Option<TraceId>) -> bool {
    let same = |asked: &Option<String>, found: Option<&str>| {
        asked.as_deref().is_none_or(|asked| found == Some(asked))
    };
    let target = &it.target;
    let is_named = args
        .evaluator
        .as_deref()
        .is_none_or(|asked| asked == it.evaluator.name || asked == it.evaluator.kind);
    is_named
        && trace_id.is_none_or(|id| id == target.trace_id)
        && same(&args.session_id, target.session_id.as_deref())
        && same(&args.agent_name, target.agent_name.as_deref())
        && same(&args.service_name, Some(&target.resource.service_name))
        && same(&args.reason, it.reason)
        && args.outcome.is_none_or(|word| verdict_of(word) == it.verdict)
        && args.score_below.is_none_or(|bound| it.score.is_some_and(|score| score < bound))
}

fn verdict_of(word: OutcomeWord) -> StoredVerdict {
    match word {
        OutcomeWord::Pass => StoredVerdict::Pass,
        OutcomeWord::Fail => StoredVerdict::Fail,
        OutcomeWord::NotEvaluable => StoredVerdict::NotEvaluable,
        OutcomeWord::Failed => StoredVerdict::Failed,
        OutcomeWord::NotAsked => StoredVerdict::NotAsked,
    }
}

/// Answers `get_trajectory`.
pub(super) fn trajectory(store: &RunStore, args: &TrajectoryArgs) -> McpAnswer {
    let start = start_of(args.cursor.as_deref())?;
    let trace = trace_of(store, &args.trace_id)?;
    let text_bytes = text_bytes(args.text_bytes);
    let mut head = store.trajectory(trace).map_err(|error| unread(&error))?;
    let calls = head.as_object_mut().and_then(|map| map.shift_remove("tool_calls"));
    let calls = calls.as_ref().and_then(Value::as_array).map_or(&[][..], |calls| calls);
    let limit = args.limit.unwrap_or(CALLS.0).clamp(1, CALLS.1);
    let shown = page(calls.iter(), start, (limit, ANSWER_BYTES_MAX / 2), |call| {
        fitted(call, text_bytes, ANSWER_BYTES_MAX / 4)
    });
    let mut answer = fitted(&head, text_bytes, ANSWER_BYTES_MAX / 4);
    answer["tool_calls"] = Value::Array(shown.items);
    answer["tool_calls_total"] = Value::from(calls.len());
    answer["evaluations"] = beside(store, trace.trace_id);
    answer["next_cursor"] = shown.next.map(|next| next.to_string()).into();
    Ok(answer)
}

/// Summarises the evaluations of a trace.
fn beside(store: &RunStore, trace_id: TraceId) -> Value {
    let of_trace = store.evaluations.iter().filter(|it| it.target.trace_id == trace_id);
    let row = |it: &StoredEvaluation| {
        json!({
            "evaluator": it.evaluator.name,
            "level": it.evaluator.level.as_str(),
            "span_id": it.span_id.to_string(),
            "outcome": it.verdict.as_str(),
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
    let id = known_id(id)?;
    store
        .trace(id)
        .ok_or_else(|| format!("no trace {id} with an agent, a model or a tool is in the files"))
}

/// Parses the id of a trace, which must be known.
///
/// # Errors
/// Text for the assistant.
pub(super) fn known_id(text: &str) -> Result<TraceId, String> {
    TraceId::from_hex(text)
        .ok_or_else(|| format!("{text:?} is no trace id: that has 32 hexadecimal digits"))
}

fn text_bytes(asked: Option<usize>) -> usize {
    let (usual, least, most) = TEXT_BYTES;
    asked.unwrap_or(usual).clamp(least, most)
}

fn unread(error: &anyhow::Error) -> String {
    format!("failed to read what was kept of it in a temporary file: {error:#}")
}
