//! Attributes of an evaluation.

use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

use crate::record::plain_explanation;
use spanscore_base::model::{Evaluation, JudgeUse, Outcome};

/// List of attributes under construction.
#[derive(Default)]
pub(super) struct Attributes(pub(super) Vec<KeyValue>);

impl Attributes {
    pub(super) fn text(&mut self, key: &str, value: impl Into<String>) {
        self.push(key, ProtoValue::StringValue(value.into()));
    }

    pub(super) fn double(&mut self, key: &str, value: f64) {
        self.push(key, ProtoValue::DoubleValue(value));
    }

    pub(super) fn int(&mut self, key: &str, value: i64) {
        self.push(key, ProtoValue::IntValue(value));
    }

    pub(super) fn bool(&mut self, key: &str, value: bool) {
        self.push(key, ProtoValue::BoolValue(value));
    }

    fn push(&mut self, key: &str, value: ProtoValue) {
        let value = Some(AnyValue { value: Some(value) });
        self.0.push(KeyValue { key: key.to_owned(), value, ..KeyValue::default() });
    }
}

/// Returns the attributes shared by event and span.
pub(super) fn shared(evaluation: &Evaluation, content: bool) -> Attributes {
    let Evaluation { evaluator, target, outcome, .. } = evaluation;
    let mut attributes = Attributes(Vec::with_capacity(20));
    attributes.text("gen_ai.evaluation.name", evaluator.name.as_str());
    if let Outcome::Scored(score) = outcome {
        attributes.double("gen_ai.evaluation.score.value", score.value);
    }
    if let Some(label) = evaluation.label() {
        attributes.text("gen_ai.evaluation.score.label", label.as_str());
    }
    attributes.text("gen_ai.evaluation.explanation", explanation(evaluation, content));
    if let Outcome::Failed { error_type, .. } = outcome {
        attributes.text("error.type", *error_type);
    }
    if let Some(session) = &target.session_id {
        attributes.text("gen_ai.conversation.id", &**session);
        attributes.text("session.id", &**session);
    }
    if let Some(agent) = &target.agent_name {
        attributes.text("gen_ai.agent.name", &**agent);
    }
    own(&mut attributes, evaluation, content);
    attributes
}

fn own(attributes: &mut Attributes, evaluation: &Evaluation, content: bool) {
    let Evaluation { evaluator, target, outcome, .. } = evaluation;
    attributes.text("spanscore.evaluation.id", evaluation.id.to_string());
    attributes.text("spanscore.evaluation.outcome", outcome.as_str());
    if let Outcome::NotEvaluable { reason, .. } = outcome {
        attributes.text("spanscore.evaluation.reason", reason.as_str());
    }
    attributes.text("spanscore.evaluation.level", evaluator.level.as_str());
    attributes.double("spanscore.evaluation.threshold", evaluator.threshold);
    attributes.text("spanscore.evaluation.completion", target.completion.as_str());
    attributes.bool("spanscore.evaluation.partial", target.is_partial);
    attributes.int("spanscore.evaluation.revision", i64::from(evaluation.revision));
    if let Some(revised) = evaluation.revises {
        attributes.text("spanscore.evaluation.revises", revised.to_string());
    }
    attributes.text("spanscore.evaluator.kind", evaluator.kind);
    attributes.text("spanscore.evaluator.version", evaluator.version());
    if let Some(version) = &evaluator.own_version {
        attributes.text("spanscore.evaluator.own_version", version.to_string());
    }
    if let Some(judge) = &evaluation.judge {
        of_judge(attributes, judge);
    }
    let details = outcome.score().filter(|score| content && !score.details.is_null());
    if let Some(score) = details {
        attributes.text("spanscore.evaluation.details", score.details.to_string());
    }
}

/// Adds the attributes of a judge's usage; none of the content shown to the judge.
fn of_judge(attributes: &mut Attributes, judge: &JudgeUse) {
    let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    attributes.text("spanscore.judge.model", judge.model.as_str());
    attributes.int("spanscore.judge.prompt_version", i64::from(judge.prompt_version));
    attributes.int("spanscore.judge.samples", i64::from(judge.samples));
    attributes.double("spanscore.judge.agreement", judge.agreement);
    attributes.bool("spanscore.judge.escalated", judge.escalated);
    attributes.bool("spanscore.judge.fallback", judge.fallback);
    attributes.double("spanscore.judge.cost_usd", judge.cost_usd);
    attributes.bool("spanscore.judge.injection_suspected", judge.injection_suspected);
    attributes.int("spanscore.evidence.cut_bytes", int(judge.cut_bytes));
}

/// Adds the OpenInference form of the evaluation.
pub(super) fn open_inference(attributes: &mut Attributes, evaluation: &Evaluation, content: bool) {
    attributes.text("evaluations.0.evaluation.name", evaluation.evaluator.name.as_str());
    if let Outcome::Scored(score) = &evaluation.outcome {
        attributes.double("evaluations.0.evaluation.score", score.value);
    }
    if let Some(label) = evaluation.label() {
        attributes.text("evaluations.0.evaluation.label", label.as_str());
    }
    attributes.text("evaluations.0.evaluation.explanation", explanation(evaluation, content));
    let kind = if evaluation.judge.is_some() { "LLM" } else { "CODE" };
    attributes.text("evaluations.0.evaluation.annotator_kind", kind);
    attributes.text("evaluations.0.evaluation.identifier", evaluation.evaluator.version());
}

fn explanation(evaluation: &Evaluation, content: bool) -> String {
    let written = evaluation.outcome.words();
    if content && !written.is_empty() { written.to_owned() } else { plain_explanation(evaluation) }
}
