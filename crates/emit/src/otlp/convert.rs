//! Conversion of evaluations to OTLP log events, spans and metrics.
//!
//! Each form has the judged trace's resource and the scope `spanscore`. Ids derive from the
//! evaluation's id, so a replay gives the same. Names: OpenTelemetry GenAI conventions
//! (`docs/gen-ai/gen-ai-events.md`), OpenInference (`spec/annotations.md`), and our `spanscore.*`;
//! `docs/output.md` lists all.

mod attributes;
mod metrics;

use hashbrown::HashMap;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

pub(crate) use metrics::metrics;

use super::settings::Placement;
use crate::record::plain_explanation;
use attributes::Attributes;
use spanscore_base::model::{Evaluation, Outcome, Resource, SpanId};
use spanscore_base::otlp::semconv::{
    EVALUATION_EVENT, OWN_SCOPE, RESPONSE_ID, SCHEMA_URL, SERVICE_NAME,
};

/// Settings of the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Placement of spans.
    pub(crate) placement: Placement,
    /// True if explanations, details and error texts of evaluators are sent.
    pub(crate) content: bool,
}

/// Converts evaluations to log events on the judged spans.
pub(crate) fn events(evaluations: &[&Evaluation], options: Options) -> ExportLogsServiceRequest {
    let groups = by_resource(evaluations, |evaluation| event(evaluation, options));
    let resource_logs = groups.into_iter().map(|(resource, log_records)| ResourceLogs {
        resource: Some(resource),
        scope_logs: vec![ScopeLogs {
            scope: Some(scope()),
            log_records,
            schema_url: SCHEMA_URL.to_owned(),
        }],
        schema_url: String::new(),
    });
    ExportLogsServiceRequest { resource_logs: resource_logs.collect() }
}

/// Converts evaluations to spans.
pub(crate) fn spans(evaluations: &[&Evaluation], options: Options) -> ExportTraceServiceRequest {
    let groups = by_resource(evaluations, |evaluation| span(evaluation, options));
    let resource_spans = groups.into_iter().map(|(resource, spans)| ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![ScopeSpans {
            scope: Some(scope()),
            spans,
            schema_url: SCHEMA_URL.to_owned(),
        }],
        schema_url: String::new(),
    });
    ExportTraceServiceRequest { resource_spans: resource_spans.collect() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: OWN_SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Converts evaluations and groups them by resource, in order of appearance.
fn by_resource<T>(
    evaluations: &[&Evaluation],
    convert: impl Fn(&Evaluation) -> T,
) -> Vec<(ProtoResource, Vec<T>)> {
    let mut places = HashMap::<&[u8], usize>::new();
    let mut groups: Vec<(ProtoResource, Vec<T>)> = Vec::new();
    for evaluation in evaluations {
        let resource = &evaluation.target.resource;
        let place = *places.entry(&resource.encoded).or_insert_with(|| {
            groups.push((proto_resource(resource), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(convert(evaluation));
    }
    groups
}

/// Decodes the resource; on failure only its service name is kept.
fn proto_resource(resource: &Resource) -> ProtoResource {
    ProtoResource::decode(resource.encoded.as_slice()).unwrap_or_else(|_| {
        let mut attributes = Attributes::default();
        attributes.text(SERVICE_NAME, resource.service_name.as_str());
        ProtoResource { attributes: attributes.0, ..ProtoResource::default() }
    })
}

fn event(evaluation: &Evaluation, options: Options) -> LogRecord {
    let severity = match evaluation.outcome {
        Outcome::Failed { .. } => SeverityNumber::Warn,
        _ => SeverityNumber::Info,
    };
    let mut attributes = attributes::shared(evaluation, options.content);
    let response = evaluation.target.response.as_ref();
    if let Some((_, id)) = response.filter(|(span, _)| *span == evaluation.span_id) {
        attributes.text(RESPONSE_ID, &**id);
    }
    LogRecord {
        time_unix_nano: evaluation.target.time_ns,
        observed_time_unix_nano: evaluation.target.time_ns,
        severity_number: severity.into(),
        severity_text: if severity == SeverityNumber::Warn { "WARN" } else { "INFO" }.to_owned(),
        attributes: attributes.0,
        trace_id: evaluation.target.trace_id.0.to_vec(),
        span_id: id_bytes(evaluation.span_id),
        event_name: EVALUATION_EVENT.to_owned(),
        ..LogRecord::default()
    }
}

fn span(evaluation: &Evaluation, options: Options) -> Span {
    let target = &evaluation.target;
    let mut attributes = attributes::shared(evaluation, options.content);
    attributes.text("openinference.span.kind", "EVALUATOR");
    let mut span = Span {
        span_id: evaluation.id.span_id().0.to_vec(),
        name: format!("evaluate {}", evaluation.evaluator.name),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: evaluation.target.time_ns,
        end_time_unix_nano: evaluation.target.time_ns,
        status: status(evaluation, options.content),
        ..Span::default()
    };
    match options.placement {
        Placement::Child => {
            span.trace_id = target.trace_id.0.to_vec();
            span.parent_span_id = id_bytes(evaluation.span_id);
        }
        Placement::Linked => {
            attributes::open_inference(&mut attributes, evaluation, options.content);
            span.trace_id = evaluation.id.0.to_vec();
            span.links = vec![Link {
                trace_id: target.trace_id.0.to_vec(),
                span_id: evaluation.span_id.0.to_vec(),
                ..Link::default()
            }];
        }
    }
    span.attributes = attributes.0;
    span
}

/// Returns the bytes of an id; empty for the null id.
fn id_bytes(id: SpanId) -> Vec<u8> {
    if id.is_none() { Vec::new() } else { id.0.to_vec() }
}

fn status(evaluation: &Evaluation, content: bool) -> Option<Status> {
    let Outcome::Failed { error, .. } = &evaluation.outcome else { return None };
    let message = if content { error.clone() } else { plain_explanation(evaluation) };
    Some(Status { message, code: StatusCode::Error.into() })
}

#[cfg(test)]
mod tests;
