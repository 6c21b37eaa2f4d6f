//! Reply forms: the prompt text for each, and its parser.

use super::dokimos;
use super::prompt;
use super::question::{QuestionItem, ReplyForm};
use super::reply::{self, unreadable};
use crate::inquiry::{AnsweredItem, JudgeAnswer, JudgeAnswers, UnreadableReply};
use spanscore_base::value::Value;

/// JSON Schema of a reply with a score.
const SCORE_SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"reason":{"type":"string"},"score":{"type":"integer"},"#,
    r#""injection_suspected":{"type":"boolean"}},"#,
    r#""required":["reason","score","injection_suspected"],"additionalProperties":false}"#,
);

/// JSON Schema of a reply of UiPath's judges.
const UIPATH_SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"justification":{"type":"string"},"#,
    r#""score":{"type":"number"},"injection_suspected":{"type":"boolean"}},"#,
    r#""required":["justification","score","injection_suspected"],"additionalProperties":false}"#,
);

/// Tokens of the answer to one statement: a reason of 40 words, cites, and JSON syntax.
const STATEMENT_TOKENS: u32 = 80;
/// Tokens of an answer without those of its statements.
const AROUND_TOKENS: u32 = 100;

/// Estimates the maximal tokens of an answer to `statements`; 0 if its length is independent of
/// them.
pub(super) fn answer_tokens(form: ReplyForm, statements: usize) -> u32 {
    let count = u32::try_from(statements).unwrap_or(u32::MAX);
    match form {
        ReplyForm::Items => count.saturating_mul(STATEMENT_TOKENS).saturating_add(AROUND_TOKENS),
        ReplyForm::Score { .. } | ReplyForm::UiPath | ReplyForm::Dokimos(_) => 0,
    }
}

/// Returns the number of statements answerable in `tokens`, at least one.
pub(super) fn statements_in(form: ReplyForm, tokens: u32) -> usize {
    match form {
        ReplyForm::Items => {
            (tokens.saturating_sub(AROUND_TOKENS) / STATEMENT_TOKENS).max(1) as usize
        }
        ReplyForm::Score { .. } | ReplyForm::UiPath | ReplyForm::Dokimos(_) => usize::MAX,
    }
}

/// Prompt parts that request a form.
pub(super) struct FormWords {
    /// System prompt, with the placeholder `{mark}`.
    pub(super) system: String,
    /// Last line of the prompt.
    pub(super) closing: String,
    /// JSON Schema of the reply.
    pub(super) schema: Option<&'static str>,
}

/// Returns the prompt parts for a form and a number of statements.
pub(super) fn words(form: ReplyForm, statements: usize) -> FormWords {
    match form {
        ReplyForm::Items => FormWords {
            system: prompt::SYSTEM.to_owned(),
            closing: format!("Reply with one entry for each of the {statements} statements."),
            schema: Some(reply::SCHEMA),
        },
        ReplyForm::Score { low, high } => {
            let closing = format!(
                "Go through the steps in order, then give one `score`: a whole number from {low} \
                 (worst) to {high} (best), with a `reason` of at most 40 words before it."
            );
            let schema = Some(SCORE_SCHEMA);
            FormWords { system: prompt::for_scores(), closing, schema }
        }
        ReplyForm::UiPath => FormWords {
            system: prompt::for_scores(),
            closing: "Reply with `justification`, then `score`: a number from 0 (not at all) to \
                      100 (wholly)."
                .to_owned(),
            schema: Some(UIPATH_SCHEMA),
        },
        ReplyForm::Dokimos(wanted) => FormWords {
            system: prompt::for_scores(),
            closing: wanted.closing().to_owned(),
            schema: None,
        },
    }
}

/// Parses a reply of any form except one entry per statement.
pub(super) fn read(
    form: ReplyForm,
    reply: &str,
    asked: &[&QuestionItem],
) -> Result<JudgeAnswers, UnreadableReply> {
    match form {
        ReplyForm::Items => reply::read(reply, asked.len()),
        ReplyForm::Score { low, high } => {
            let value = reply::object(reply, "score")?;
            let score = number(&value, Some(high))?;
            if score.fract() != 0.0 || score < low as f64 || score > high as f64 {
                return Err(unreadable(format!("`score` is no whole number from {low} to {high}")));
            }
            let score = (score - low as f64) / (high - low) as f64;
            Ok(given(&value, "reason", score, true)?)
        }
        ReplyForm::UiPath => {
            let value = reply::object(reply, "score")?;
            if value.get("justification").and_then(Value::as_str).is_none() {
                return Err(unreadable("`justification` is not a text"));
            }
            given(&value, "justification", hundredths(number(&value, None)?), false)
        }
        ReplyForm::Dokimos(wanted) => Ok(dokimos::read(wanted, reply, asked)),
    }
}

/// Parses the score; with `highest` also from a text, alone or as a fraction of the highest.
fn number(value: &Value<'_>, highest: Option<i64>) -> Result<f64, UnreadableReply> {
    let score = match (value.get("score"), highest) {
        (Some(Value::String(text)), Some(highest)) => {
            let text = text.trim();
            let of_highest = text.strip_suffix(&highest.to_string());
            let own = of_highest.and_then(|rest| rest.trim_end().strip_suffix('/'));
            own.unwrap_or(text).trim_end().parse().ok()
        }
        (score, _) => score.and_then(Value::as_number).map(|score| score.as_f64()),
    };
    score
        .filter(|score: &f64| score.is_finite())
        .ok_or_else(|| unreadable("`score` is not a number"))
}

/// Rounds a percentage like UiPath's package: to two places, ties to even, within 0 and 1.
fn hundredths(percent: f64) -> f64 {
    let shown = format!("{:.2}", percent / 100.0);
    shown.parse::<f64>().unwrap_or(0.0).clamp(0.0, 1.0) + 0.0
}

fn given(
    value: &Value<'_>,
    key: &str,
    score: f64,
    asks_suspicion: bool,
) -> Result<JudgeAnswers, UnreadableReply> {
    let suspected = reply::suspicion(value)?;
    let reason = value.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_unsure = asks_suspicion && suspected.is_none();
    Ok(JudgeAnswers { is_unsure, ..scored(score, suspected.unwrap_or(false), reason) })
}

/// Returns a score with its reason as answers.
pub(super) fn scored(score: f64, injection_suspected: bool, reason: &str) -> JudgeAnswers {
    let reason = reason[..reason.floor_char_boundary(reply::REASON_BYTES_MAX)].to_owned();
    let answer = JudgeAnswer::Yes;
    let cites = Vec::new();
    let item = AnsweredItem { answer, cites, reason, overturned: None };
    JudgeAnswers { items: vec![item], injection_suspected, is_unsure: false, score: Some(score) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: ReplyForm, reply: &str, expected: Result<f64, &str>) {
        let found = read(form, reply, &[]).map(|answers| answers.score.unwrap());
        assert_eq!(found, expected.map_err(|error| UnreadableReply(error.to_owned())), "{reply}");
    }

    #[test]
    fn scores_are_read_and_never_guessed() {
        let form = ReplyForm::Score { low: 1, high: 5 };
        let reply = |score: &str| {
            format!(r#"{{"reason":"r","score":{score},"injection_suspected":false}}"#)
        };
        check(form, &reply("5"), Ok(1.0));
        check(form, &reply("2"), Ok(0.25));
        check(form, &reply("6"), Err("`score` is no whole number from 1 to 5"));
        check(form, &reply("2.5"), Err("`score` is no whole number from 1 to 5"));
        check(form, &reply("null"), Err("`score` is not a number"));
    }

    #[test]
    fn percentages_are_rounded_as_python_does() {
        let cases = [("87.5", 0.88), ("12.5", 0.12), ("99.5", 0.99), ("150", 1.0), ("-3", 0.0)];
        for (percent, score) in cases {
            let reply = format!(r#"{{"justification":"j","score":{percent}}}"#);
            check(ReplyForm::UiPath, &reply, Ok(score));
        }
        assert_eq!(hundredths(-0.001).to_string(), "0", "without a sign");
        check(ReplyForm::UiPath, r#"{"score":5}"#, Err("`justification` is not a text"));
    }
}
