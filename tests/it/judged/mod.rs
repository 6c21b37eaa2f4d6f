//! Judged kinds against labelled runs: what leaves, what comes back, and what it comes to.

mod breakout;
mod captures;
mod docs;
mod injection;
mod labelled;
mod parity;
mod structure;

use std::sync::Arc;

use spanscore_base::model::{Outcome, Trajectory};
use spanscore_base::settings::Node;
use spanscore_base::value::{Map, Value};
use spanscore_evaluate::inquiry::{
    AnsweredItem, Conclusion, Inquired, Inquiry, JudgeAnswer, JudgeAnswers, JudgePrompt, MarkKey,
    PromptRoom,
};
use spanscore_evaluate::{Evaluator, Want, kind};

/// The calibration data that ships with the project.
pub(crate) const CALIBRATION: &str = include_str!("../../fixtures/judges/calibration.jsonl");
/// The injection data that ships with the project.
pub(crate) const INJECTION: &str = include_str!("../../fixtures/judges/injection.jsonl");

/// Room as evaluators have it unless their settings say otherwise.
pub(crate) fn room() -> PromptRoom {
    PromptRoom {
        evidence_tokens: 12_000,
        bytes_per_token: 3.5,
        answer_tokens: 4_096,
        withholds_injections: false,
        withheld: Vec::new(),
        window: 0,
        mark_key: MarkKey([7; 32]),
    }
}

/// An evaluator of a kind that asks a judge, with further settings.
pub(crate) fn evaluator(name: &str, settings: Map<'static>) -> Evaluator {
    let mut settings = settings;
    settings.insert("judge", "small");
    let kind = kind(name).expect("the kind exists");
    match (kind.build)(&Node::from_value(&Value::Map(settings))) {
        Ok(evaluator) => evaluator,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Returns the inquiry of an evaluator, or the outcome that it knows without asking.
pub(crate) fn inquire(
    evaluator: &Evaluator,
    trajectory: &Trajectory<'_>,
    threshold: f64,
) -> Result<Arc<dyn Inquiry>, Box<Conclusion>> {
    let judged = evaluator.as_judged().expect("it asks a judge");
    match judged.inquire(trajectory, threshold, Want::ALL) {
        Inquired::Known(conclusion) => Err(Box::new(conclusion)),
        Inquired::Asked(inquiry) => Ok(inquiry),
    }
}

/// A reply with these answers, as a judge writes it.
pub(crate) fn reply(answers: &[JudgeAnswer], injection_suspected: bool) -> String {
    let item = |(id, answer): (usize, &JudgeAnswer)| {
        let verdict = answer.as_str();
        format!(r#"{{"id":{id},"cites":[],"reason":"because","verdict":"{verdict}"}}"#)
    };
    let items = (1..).zip(answers).map(item).collect::<Vec<_>>().join(",");
    format!(r#"{{"items":[{items}],"injection_suspected":{injection_suspected}}}"#)
}

/// Votes that say nothing, to learn what code says.
pub(crate) fn silent(prompt: &JudgePrompt) -> JudgeAnswers {
    let item = AnsweredItem {
        answer: JudgeAnswer::No,
        cites: Vec::new(),
        reason: String::new(),
        overturned: None,
    };
    JudgeAnswers { items: vec![item; prompt.statements], ..JudgeAnswers::default() }
}

/// The statements of a conclusion: their answers, and whether code gave them.
pub(crate) fn items(conclusion: &Conclusion) -> Vec<(String, bool)> {
    let Outcome::Scored(score) = &conclusion.outcome else { return Vec::new() };
    let items = score.details.get("items").and_then(Value::as_list).unwrap_or_default();
    let text = |item: &Value<'_>, key: &str| {
        item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    items.iter().map(|item| (text(item, "answer"), text(item, "by") == "code")).collect()
}

/// Score, label and reason of an outcome, in the words of a label.
pub(crate) fn verdict(outcome: &Outcome, threshold: f64) -> (Option<f64>, &'static str) {
    match outcome {
        Outcome::Scored(score) => {
            let label = score.label.map(|label| label.as_str());
            let passes = if score.value >= threshold { "pass" } else { "fail" };
            (Some(score.value), label.unwrap_or(passes))
        }
        Outcome::NotEvaluable { .. } => (None, "not_evaluable"),
        Outcome::Failed { .. } => (None, "failed"),
    }
}
