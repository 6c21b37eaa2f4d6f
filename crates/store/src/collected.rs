//! Evaluations of other processes, read from their exporters' OTLP events.
//!
//! In: the bytes of a request with log records. Out: an evaluation for every event of our scope,
//! with the parts that a store needs: id, verdict, texts, source.

use std::str::FromStr;
use std::sync::Arc;

use spanscore_base::model::{
    Evaluation, EvaluationId, EvaluatorInfo, Explanation, JudgeUse, Outcome, Resource, Score,
    Sender, SpanId, Target, TraceId,
};
use spanscore_base::otlp::AnyValue;
use spanscore_base::otlp::any_value::{key_value, key_values};
use spanscore_base::otlp::number::log;
use spanscore_base::otlp::request::{RequestStep, walk};
use spanscore_base::otlp::semconv::{EVALUATION_EVENT, OWN_SCOPE, SERVICE_NAME};
use spanscore_base::otlp::wire::{Field, Fields};
use spanscore_base::value::{Value, json};

/// Limit on the attributes read from an event.
const ATTRIBUTES_MAX: usize = 64;
/// Type of every error of another process; its own type precedes the text.
const ERROR_TYPE: &str = "failed_elsewhere";

/// Evaluations of a request.
#[derive(Debug, Default)]
pub struct CollectedEvents {
    /// In the order of arrival.
    pub evaluations: Vec<Evaluation>,
    /// Number of malformed events of our scope.
    pub malformed: usize,
}

/// Reads the evaluations of a sender's encoded `ExportLogsServiceRequest`; `kind` returns the
/// evaluator kind of a name. Other scopes are ignored, and malformed events of ours counted.
pub fn read_events(
    request: &[u8],
    sender: Sender,
    kind: impl Fn(&str) -> Option<&'static str>,
) -> CollectedEvents {
    let mut events = CollectedEvents::default();
    let mut resource = Arc::default();
    let mut is_ours = false;
    // Later readers of the request report broken parts.
    let _ = walk(request, |step| match step {
        RequestStep::Resource(encoded) => resource = Arc::new(resource_of(encoded)),
        RequestStep::Scope(name) => is_ours = name == OWN_SCOPE.as_bytes(),
        RequestStep::Item(_) if !is_ours => {}
        RequestStep::Item(encoded) => {
            let Some(event) = EventView::read(encoded) else {
                events.malformed += 1;
                return;
            };
            if event.name != EVALUATION_EVENT {
                return;
            }
            match event.evaluation(&resource, sender, &kind) {
                Some(evaluation) => events.evaluations.push(evaluation),
                None => events.malformed += 1,
            }
        }
    });
    events
}

fn resource_of(encoded: &[u8]) -> Resource {
    let mut names = key_values(encoded).flatten().filter(|(key, _)| *key == SERVICE_NAME);
    let name = names.next().and_then(|(_, value)| value.as_str());
    Resource { encoded: encoded.to_vec(), service_name: name.unwrap_or_default().to_owned() }
}

/// Event with its attributes.
#[derive(Default)]
struct EventView<'a> {
    name: &'a str,
    trace_id: &'a [u8],
    span_id: &'a [u8],
    time_ns: u64,
    attributes: Vec<(&'a str, AnyValue<'a>)>,
}

impl<'a> EventView<'a> {
    fn read(encoded: &'a [u8]) -> Option<Self> {
        let mut event = Self::default();
        let mut fields = Fields::new(encoded);
        while let Some(field) = fields.next().ok()? {
            match field {
                (log::EVENT_NAME, Field::Bytes(name)) => {
                    event.name = std::str::from_utf8(name).ok()?;
                }
                (log::TRACE_ID, Field::Bytes(id)) => event.trace_id = id,
                (log::SPAN_ID, Field::Bytes(id)) => event.span_id = id,
                (log::TIME, Field::Fixed64(time)) => event.time_ns = time,
                (log::ATTRIBUTES, Field::Bytes(entry)) => {
                    let (key, value) = key_value(entry).ok()?;
                    let key = std::str::from_utf8(key).ok()?;
                    if event.attributes.len() == ATTRIBUTES_MAX {
                        return None;
                    }
                    event.attributes.push((key, AnyValue::read(value).ok()?));
                }
                _ => {}
            }
        }
        Some(event)
    }

    fn get(&self, key: &str) -> Option<AnyValue<'a>> {
        self.attributes.iter().find(|(it, _)| *it == key).map(|(_, value)| *value)
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    fn word<T: FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    fn share(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            AnyValue::Double(number) if (0.0..=1.0).contains(&number) => Some(number),
            _ => None,
        }
    }

    fn int(&self, key: &str) -> u64 {
        match self.get(key) {
            Some(AnyValue::Int(number)) => u64::try_from(number).unwrap_or_default(),
            _ => 0,
        }
    }

    fn is(&self, key: &str) -> bool {
        self.get(key) == Some(AnyValue::Bool(true))
    }

    /// Returns an id of 32 hexadecimal digits.
    fn id(&self, key: &str) -> Option<[u8; 16]> {
        self.text(key).and_then(TraceId::from_hex).map(|id| id.0)
    }

    fn evaluation(
        &self,
        resource: &Arc<Resource>,
        sender: Sender,
        kind: impl Fn(&str) -> Option<&'static str>,
    ) -> Option<Evaluation> {
        let span_id = match self.span_id {
            [] => SpanId::default(),
            id => SpanId::from_wire(id)?,
        };
        let boxed = |key: &str| self.text(key).map(Box::from);
        let target = Target {
            trace_id: TraceId::from_wire(self.trace_id)?,
            sender,
            session_id: boxed("session.id"),
            resource: Arc::clone(resource),
            agent_name: boxed("gen_ai.agent.name"),
            response: None,
            completion: self.word("spanscore.evaluation.completion")?,
            is_partial: self.is("spanscore.evaluation.partial"),
            time_ns: self.time_ns,
            started_ns: self.time_ns,
            ended_ns: self.time_ns,
        };
        let evaluator = EvaluatorInfo {
            kind: kind(self.text("spanscore.evaluator.kind")?)?,
            name: self.text("gen_ai.evaluation.name")?.to_owned(),
            threshold: self.share("spanscore.evaluation.threshold")?,
            level: self.word("spanscore.evaluation.level")?,
            digest: self.id("spanscore.evaluator.version")?,
            case: None,
            own_version: boxed("spanscore.evaluator.own_version"),
        };
        Some(Evaluation {
            id: EvaluationId(self.id("spanscore.evaluation.id")?),
            evaluator: Arc::new(evaluator),
            target: Arc::new(target),
            span_id,
            outcome: self.outcome()?,
            revision: u32::try_from(self.int("spanscore.evaluation.revision")).ok()?,
            revises: self.id("spanscore.evaluation.revises").map(EvaluationId),
            supersedes: None,
            judge: self.judge(),
        })
    }

    fn outcome(&self) -> Option<Outcome> {
        let explanation = self.text("gen_ai.evaluation.explanation").unwrap_or_default();
        match self.text("spanscore.evaluation.outcome")? {
            "scored" => {
                let details = self.text("spanscore.evaluation.details");
                let details = details.and_then(|text| json::parse(text).ok());
                Some(Outcome::Scored(Score {
                    value: self.share("gen_ai.evaluation.score.value")?,
                    explanation: Explanation::content(explanation),
                    details: details.map_or(Value::Null, Value::into_owned),
                    label: Some(self.word("gen_ai.evaluation.score.label")?),
                }))
            }
            "not_evaluable" => {
                let reason = self.word("spanscore.evaluation.reason")?;
                Some(Outcome::NotEvaluable { reason, explanation: explanation.to_owned() })
            }
            "failed" => {
                let error = format!("{}: {explanation}", self.text("error.type")?);
                Some(Outcome::Failed { error_type: ERROR_TYPE, error })
            }
            _ => None,
        }
    }

    fn judge(&self) -> Option<Arc<JudgeUse>> {
        let cost_usd = match self.get("spanscore.judge.cost_usd") {
            Some(AnyValue::Double(cost)) if (0.0..1e6).contains(&cost) => cost,
            _ => 0.0,
        };
        let model = self.text("spanscore.judge.model")?.to_owned();
        Some(Arc::new(JudgeUse { model, cost_usd, ..JudgeUse::default() }))
    }
}
