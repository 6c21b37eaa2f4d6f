//! Parsers of external evaluators' answers: from messages and process output to outcomes.
//!
//! A score out of range, an unknown word or a missing answer never becomes a low score: it is
//! `failed`, with the evaluator's words.

use hashbrown::HashMap;

use super::message::from_struct;
use super::proto::{EvaluateResponse, EvaluationMessage, OutcomeMessage, ScoreMessage};
use spanscore_base::model::{Explanation, Label, Outcome, Reason, Score, SpanId, Want};
use spanscore_base::value::{Map, Value, json};

/// Limit on an evaluator's text, bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Limit on the quoted characters of an invalid output.
const OUTPUT_CHARS_SHOWN: usize = 80;
/// Limit on the bytes of a process' details in the explanation.
const DETAILS_SHOWN_MAX: usize = 400;
/// Limit on the values in an evaluator's details; larger ones are dropped.
const DETAILS_MAX: usize = 2_000;

/// Verdict of an evaluator on one target, or on one of its calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalVerdict {
    /// Span of the call; `None` for the target itself.
    pub span_id: Option<SpanId>,
    /// Outcome of the target or call.
    pub outcome: Outcome,
    /// True if the evaluator requests a retry.
    pub is_retryable: bool,
}

/// Ignored entries of a response, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredAnswers {
    /// Answers for tasks that were not sent.
    pub unknown_task: u64,
    /// Repeated answers for one task and span.
    pub repeated: u64,
}

/// Groups the answers of a response by the index of their task in `ids`.
pub fn by_task(
    response: EvaluateResponse,
    ids: &[String],
    wants: &[Want],
) -> (Vec<Vec<ExternalVerdict>>, IgnoredAnswers) {
    let places: HashMap<&str, usize> =
        ids.iter().enumerate().map(|(place, id)| (id.as_str(), place)).collect();
    let mut verdicts: Vec<Vec<ExternalVerdict>> = vec![Vec::new(); ids.len()];
    let mut ignored = IgnoredAnswers::default();
    for evaluation in response.evaluations {
        let Some(place) = places.get(evaluation.task_id.as_str()).copied() else {
            ignored.unknown_task += 1;
            continue;
        };
        let verdict = verdict(evaluation, wants[place]);
        let known = &mut verdicts[place];
        if known.iter().any(|other| other.span_id == verdict.span_id) {
            ignored.repeated += 1;
        } else {
            known.push(verdict);
        }
    }
    (verdicts, ignored)
}

fn verdict(evaluation: EvaluationMessage, want: Want) -> ExternalVerdict {
    let span_id = SpanId::from_hex(&evaluation.span_id);
    let (outcome, is_retryable) = match &evaluation.outcome {
        Some(OutcomeMessage::Scored(score)) => (scored(score, &evaluation, want), false),
        Some(OutcomeMessage::NotEvaluable(why)) => (not_evaluable(why), false),
        Some(OutcomeMessage::Failed(failure)) => {
            let error = format!("{}: {}", failure.r#type, failure.message);
            let error = shown(error.trim_start_matches(": ").trim_end_matches(": "));
            (Outcome::Failed { error_type: "external_failed", error }, failure.retryable)
        }
        // An outcome kind of a later minor version.
        None => (failed("external_output_invalid", "the answer holds no outcome"), false),
    };
    ExternalVerdict { span_id, outcome, is_retryable }
}

fn not_evaluable(why: &str) -> Outcome {
    let words = if why.is_empty() { "the evaluator cannot judge it" } else { why };
    Outcome::NotEvaluable { reason: Reason::ExternalNotEvaluable, explanation: shown(words) }
}

fn scored(score: &ScoreMessage, evaluation: &EvaluationMessage, want: Want) -> Outcome {
    let mut details: Map<'static> = Map::new();
    let word = score.label.as_deref().unwrap_or_default();
    let label = match word {
        "pass" => Some(Label::Pass),
        "fail" => Some(Label::Fail),
        _ => None,
    };
    if want.details {
        if let Some(given) = &evaluation.details {
            details.insert("details", from_struct(given));
        }
        if label.is_none() && !word.is_empty() {
            details.insert("label", shown(word));
        }
        if !evaluation.name.is_empty() {
            details.insert("name", shown(&evaluation.name));
        }
        if !evaluation.usage.is_empty() {
            let usage = evaluation.usage.iter().map(|(key, count)| (key.clone(), *count));
            details.insert("usage", Value::Map(usage.collect::<Map<'static>>()));
        }
        if evaluation.cost_usd.is_finite() && evaluation.cost_usd > 0.0 {
            details.insert("cost_usd", evaluation.cost_usd);
        }
    }
    score_of(score.value, label, (&evaluation.explanation, details), want)
}

/// Returns a score, or a failure for an invalid number.
fn score_of(
    value: f64,
    label: Option<Label>,
    (words, details): (&str, Map<'static>),
    want: Want,
) -> Outcome {
    if !(0.0..=1.0).contains(&value) {
        let error = format!("the evaluator gave {value}, which is not between 0 and 1");
        return Outcome::Failed { error_type: "score_out_of_range", error };
    }
    let mut explanation = Explanation::default();
    if want.explanation {
        explanation = Explanation::plain(format!("the evaluator gives {value:.2}"));
        if !words.is_empty() {
            explanation.hide(&format!(": {}", shown(words)), "");
        }
    }
    let details = Value::Map(details);
    let is_kept = want.details && details.node_count() <= DETAILS_MAX;
    let details = if is_kept { details } else { Value::Null };
    // Removes the sign of a negative zero.
    let value = value + 0.0;
    Outcome::Scored(Score { value, explanation, details, label })
}

/// Parses the output of a process with agentevals' protocol.
pub fn of_output(output: &[u8], stderr: &str, want: Want) -> Outcome {
    let invalid = |why: &str| {
        let mut error = format!("its output {why}");
        let begins = beginning(output);
        if !begins.is_empty() {
            error.push_str(&format!("; it begins with `{begins}`"));
        }
        if !stderr.is_empty() {
            error.push_str(&format!("; the end of its stderr: {stderr}"));
        }
        failed("external_output_invalid", &error)
    };
    let Ok(text) = std::str::from_utf8(output) else { return invalid("is not UTF-8") };
    let text = text.trim();
    if text.is_empty() {
        return invalid("is empty");
    }
    let result = match json::parse(text) {
        Ok(result @ Value::Map(_)) => result,
        _ => return invalid("is not one JSON object"),
    };
    let status = match result.get("status") {
        None | Some(Value::Null) => None,
        Some(Value::String(word)) => Some(&**word),
        Some(_) => return invalid("has a `status` that is no text"),
    };
    let label = match status {
        None => None,
        Some("PASSED") => Some(Label::Pass),
        Some("FAILED") => Some(Label::Fail),
        Some("NOT_EVALUATED") => return not_evaluated(&result),
        Some(other) => return invalid(&format!("has the status `{}`", shown(other))),
    };
    let Some(value) = result.get("score").and_then(Value::as_number) else {
        return invalid("has no number under `score`");
    };
    let mut details: Map<'static> = Map::new();
    if want.details {
        for key in ["per_invocation_scores", "details"] {
            if let Some(given) = result.get(key).filter(|given| !given.is_null()) {
                details.insert(key, given.clone().into_owned());
            }
        }
    }
    let words = result.get("details").filter(|given| !given.is_null());
    let words = words.map(ToString::to_string).unwrap_or_default();
    let words = &words[..words.floor_char_boundary(DETAILS_SHOWN_MAX)];
    score_of(value.as_f64(), label, (words, details), want)
}

/// Returns the first characters of an output in one line.
fn beginning(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(&output[..output.len().min(OUTPUT_CHARS_SHOWN * 8)]);
    shown(&text.trim_start().chars().take(OUTPUT_CHARS_SHOWN).collect::<String>())
}

fn not_evaluated(result: &Value<'_>) -> Outcome {
    let details = result.get("details");
    let reason = details.and_then(|given| given.get("reason")).and_then(Value::as_str);
    not_evaluable(reason.unwrap_or_default())
}

/// Returns the outcome of a failed evaluator.
pub fn failed(error_type: &'static str, error: &str) -> Outcome {
    Outcome::Failed { error_type, error: shown(error) }
}

/// Sanitizes an untrusted text: truncated, on one line, without terminal control characters.
pub fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    let one_line = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    spanscore_base::visible::line(one_line).to_string()
}
