//! JSON record of an evaluation, one object.
//!
//! It is the output of `score --format jsonl`, of the `file` exporter and of the console's `jsonl`
//! format. Every key is always present, `null` if it does not apply; keys are never renamed.
//! Terminal control characters are escaped ([`visible::json`]), since files are shown on terminals
//! too.

use std::fmt::Write;

use spanscore_base::model::{Evaluation, EvaluationId, JudgeUse, Outcome};
use spanscore_base::value::{Value, json};
use spanscore_base::visible;

/// Appends the record of one evaluation to `out`, without a line break. Without `content`,
/// `details` are `null`, and `explanation` and `error` have only parts that cannot quote an
/// argument or result.
pub fn write(evaluation: &Evaluation, content: bool, out: &mut String) {
    let start = out.len();
    // Writing to a `String` cannot fail.
    let _ = try_write(evaluation, content, out);
    // JSON always escapes the control characters below DEL.
    if out.as_bytes()[start..].iter().any(|byte| *byte >= 0x7f) {
        let record = out.split_off(start);
        let _ = write!(out, "{}", visible::json(record));
    }
}

/// Appends the record and a line break.
pub fn write_line(evaluation: &Evaluation, content: bool, out: &mut String) {
    write(evaluation, content, out);
    out.push('\n');
}

/// Returns a text that each record of this evaluator contains. Other records may contain it in
/// their texts.
pub fn evaluator_mark(name: &str) -> String {
    let mut mark = String::new();
    // Writing to a `String` cannot fail.
    let _ = string(&mut mark, "evaluator", Some(name));
    visible::json(mark).to_string()
}

fn try_write(evaluation: &Evaluation, content: bool, out: &mut String) -> std::fmt::Result {
    let Evaluation { id, evaluator, target, span_id, outcome, .. } = evaluation;
    write!(out, r#"{{"evaluation_id":"{id}","trace_id":"{}""#, target.trace_id)?;
    if span_id.is_none() {
        out.push_str(r#","span_id":null"#);
    } else {
        write!(out, r#","span_id":"{}""#, span_id)?;
    }
    if !target.sender.group.is_everybody() {
        string(out, "client_group", Some(&target.sender.group.to_hex()))?;
    }
    string(out, "session_id", target.session_id.as_deref())?;
    string(out, "evaluator", Some(&evaluator.name))?;
    string(out, "kind", Some(evaluator.kind))?;
    string(out, "level", Some(evaluator.level.as_str()))?;
    string(out, "case", evaluator.case.as_deref())?;
    string(out, "outcome", Some(outcome.as_str()))?;
    number(out, "score", outcome.score().map(|score| score.value))?;
    string(out, "label", evaluation.label().map(|label| label.as_str()))?;
    number(out, "threshold", Some(evaluator.threshold))?;
    write_answer(evaluation, content, out)?;
    string(out, "completion", Some(target.completion.as_str()))?;
    write!(out, r#","partial":{}"#, target.is_partial)?;
    write!(out, r#","revision":{}"#, evaluation.revision)?;
    string(out, "evaluator_version", Some(&evaluator.version()))?;
    if let Some(version) = &evaluator.own_version {
        string(out, "evaluator_own_version", Some(version))?;
    }
    let revises = evaluation.revises.as_ref().map(EvaluationId::to_string);
    string(out, "revises", revises.as_deref())?;
    let service = target.resource.service_name.as_str();
    string(out, "service_name", Some(service).filter(|name| !name.is_empty()))?;
    string(out, "agent_name", target.agent_name.as_deref())?;
    write_judge(evaluation.judge.as_deref(), out)?;
    string(out, "time", Some(&timestamp(target.time_ns)))?;
    write!(out, r#","time_unix_nano":{}}}"#, target.time_ns)
}

fn write_judge(judge: Option<&JudgeUse>, out: &mut String) -> std::fmt::Result {
    let Some(judge) = judge else { return out.write_str(r#","judge":null"#) };
    out.push_str(r#","judge":{"model":"#);
    json::write_string(&judge.model, out)?;
    write!(out, r#","prompt_version":{}"#, judge.prompt_version)?;
    write!(out, r#","samples":{}"#, judge.samples)?;
    number(out, "agreement", Some(judge.agreement))?;
    write!(out, r#","escalated":{},"fallback":{}"#, judge.escalated, judge.fallback)?;
    number(out, "cost_usd", Some(judge.cost_usd))?;
    write!(out, r#","injection_suspected":{}"#, judge.injection_suspected)?;
    write!(out, r#","cut_bytes":{}}}"#, judge.cut_bytes)
}

fn write_answer(evaluation: &Evaluation, content: bool, out: &mut String) -> std::fmt::Result {
    let plain = if content { None } else { Some(plain_explanation(evaluation)) };
    let (explanation, details, reason, error) = match &evaluation.outcome {
        Outcome::Scored(score) => (score.explanation.as_str(), &score.details, None, None),
        Outcome::NotEvaluable { reason, explanation } => {
            (explanation.as_str(), &Value::Null, Some(reason.as_str()), None)
        }
        Outcome::Failed { error_type, error } => {
            ("", &Value::Null, None, Some(if content { error } else { *error_type }))
        }
    };
    let explanation = plain.as_deref().unwrap_or(explanation);
    string(out, "explanation", Some(explanation).filter(|text| !text.is_empty()))?;
    out.push_str(r#","details":"#);
    json::write(if content { details } else { &Value::Null }, out)?;
    string(out, "reason", reason)?;
    string(out, "error", error)?;
    let error_type = match evaluation.outcome {
        Outcome::Failed { error_type, .. } => Some(error_type),
        _ => None,
    };
    string(out, "error_type", error_type)
}

fn string(out: &mut String, key: &str, text: Option<&str>) -> std::fmt::Result {
    write!(out, r#","{key}":"#)?;
    match text {
        Some(text) => json::write_string(text, out),
        None => out.write_str("null"),
    }
}

/// Appends a number; infinity and NaN, which JSON lacks, become `null`.
fn number(out: &mut String, key: &str, value: Option<f64>) -> std::fmt::Result {
    match value.filter(|value| value.is_finite()) {
        Some(value) => write!(out, r#","{key}":{value:?}"#),
        None => write!(out, r#","{key}":null"#),
    }
}

fn timestamp(time_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or_default().to_string()
}

/// Returns an explanation without quoted arguments and results: only the parts that the evaluator
/// marked as plain.
pub fn plain_explanation(evaluation: &Evaluation) -> String {
    let threshold = evaluation.evaluator.threshold;
    match &evaluation.outcome {
        Outcome::Scored(score) => {
            let words = score.explanation.without_content();
            if !words.trim().is_empty() {
                return words.into_owned();
            }
            let value = score.value;
            match (evaluation.label().map(|label| label.as_str()), value >= threshold) {
                (Some("fail"), true) => format!("score {value}, failed by a critical rule"),
                (_, true) => format!("score {value}, at or above the threshold {threshold}"),
                (_, false) => format!("score {value}, below the threshold {threshold}"),
            }
        }
        Outcome::NotEvaluable { reason, .. } => {
            format!("not evaluable: {}", reason.as_str().replace('_', " "))
        }
        Outcome::Failed { error_type, .. } => {
            format!("the evaluator failed: {}", error_type.replace('_', " "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use spanscore_base::model::ClientGroup;

    fn check(evaluation: &Evaluation, content: bool, expected: &str) {
        let mut out = String::new();
        write(evaluation, content, &mut out);
        assert_eq!(out, expected.replace("\n        ", ""));
        assert!(json::parse(&out).is_ok(), "{out}");
    }

    #[test]
    fn scored_records_hold_every_key_in_order() {
        check(
            &sample::scored(0.5),
            true,
            r#"{"evaluation_id":"e1000000000000000000000000000000",
        "trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331",
        "session_id":"s-1","evaluator":"tool_call_args/refund","kind":"tool_call_args",
        "level":"trace","case":null,"outcome":"scored","score":0.5,"label":"fail","threshold":1.0,
        "explanation":"1 of 2 calls as expected (order \"A-17\")",
        "details":{"matched":1,"expected":2},"reason":null,"error":null,"error_type":null,
        "completion":"root_ended","partial":false,"revision":1,
        "evaluator_version":"07070707070707070707070707070707",
        "revises":"ee000000000000000000000000000000","service_name":"shop",
        "agent_name":"refunds","judge":null,"time":"2025-01-01T00:00:00.5Z",
        "time_unix_nano":1735689600500000000}"#,
        );
    }

    #[test]
    fn records_of_a_group_of_clients_tell_it() {
        let mut evaluation = sample::scored(1.0);
        let group = ClientGroup::named("a");
        std::sync::Arc::make_mut(&mut evaluation.target).sender.group = group;
        let mut out = String::new();
        write(&evaluation, false, &mut out);
        let told = format!(r#""client_group":"{}","session_id""#, group.to_hex());
        assert!(out.contains(&told) && json::parse(&out).is_ok(), "{out}");
    }

    #[test]
    fn judged_records_say_how_the_judge_came_to_them() {
        let used =
            JudgeUse { model: "m\"".into(), samples: 3, agreement: 0.5, ..Default::default() };
        let mut out = String::new();
        write(&Evaluation { judge: Some(used.into()), ..sample::scored(1.0) }, false, &mut out);
        let judge = r#""judge":{"model":"m\"","prompt_version":0,"samples":3,"agreement":0.5,"#;
        assert!(out.contains(judge) && json::parse(&out).is_ok(), "{out}");
    }

    #[test]
    fn content_stays_inside_unless_asked_for() {
        for evaluation in [sample::scored(0.5), sample::not_evaluable(), sample::failed()] {
            let mut out = String::new();
            write(&evaluation, false, &mut out);
            assert!(!out.contains("A-17") && out.contains(r#""details":null"#), "{out}");
        }
    }

    #[test]
    fn what_cannot_be_judged_has_a_reason_and_what_broke_an_error() {
        let mut out = String::new();
        write(&sample::not_evaluable(), true, &mut out);
        let reason = r#""reason":"arguments_not_recorded","error":null,"error_type":null"#;
        assert!(out.contains(reason) && out.contains(r#""score":null,"label":null"#), "{out}");
        out.clear();
        write(&sample::failed(), true, &mut out);
        let error = r#""reason":null,"error":"no criteria for order A-17","error_type":"criteria""#;
        assert!(out.contains(error) && out.contains(r#""score":null,"label":null"#), "{out}");
    }
}
