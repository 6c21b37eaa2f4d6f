//! Jaeger: a trace from its HTTP API or its UI's "Trace JSON". Spans refer to other spans and to
//! processes; times are in microseconds.

use serde_json::Value as Json;

use super::span::{ForeignAttributes, ForeignSpan, text};

pub(super) fn spans(trace: &Json) -> Vec<ForeignSpan> {
    let spans = trace.get("spans").and_then(Json::as_array);
    let of = |span: &Json| foreign(span, trace.get("processes"));
    spans.into_iter().flatten().filter_map(of).collect()
}

fn foreign(span: &Json, processes: Option<&Json>) -> Option<ForeignSpan> {
    let nanoseconds =
        |key: &str| span.get(key).and_then(Json::as_u64).map(|it| it.saturating_mul(1000));
    let start_ns = nanoseconds("startTime")?;
    let process = processes.and_then(|all| all.get(text(span, "processID")?));
    let mut resource = process.map(|it| tags(it.get("tags"))).unwrap_or_default();
    if let Some(name) = process.and_then(|it| text(it, "serviceName")) {
        resource.push(("service.name".to_owned(), Json::String(name)));
    }
    let mut attributes = tags(span.get("tags"));
    let mut take = |key: &str| {
        let at = attributes.iter().position(|(own, _)| own == key)?;
        Some(attributes.remove(at).1)
    };
    let status = take("otel.status_code").and_then(|it| it.as_str().map(str::to_owned));
    let message = take("otel.status_description");
    let scope = take("otel.scope.name").or_else(|| take("otel.library.name"));
    let is_error = take("error").is_some_and(|it| it == true || it == "true");
    let logs = span.get("logs").and_then(Json::as_array);
    let events = logs.into_iter().flatten().map(event).collect();
    let string = |value: Option<Json>| {
        value.and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
    };
    Some(ForeignSpan {
        trace_id: text(span, "traceID")?,
        span_id: text(span, "spanID")?,
        parent_id: parent(span),
        name: text(span, "operationName").unwrap_or_default(),
        start_ns,
        end_ns: start_ns.saturating_add(nanoseconds("duration").unwrap_or_default()),
        status: match status.as_deref() {
            Some("ERROR") => 2,
            Some("OK") => 1,
            _ if is_error => 2,
            _ => 0,
        },
        status_message: string(message),
        attributes,
        events,
        resource,
        scope: string(scope),
    })
}

fn parent(span: &Json) -> Option<String> {
    let references = span.get("references").and_then(Json::as_array);
    let of = |it: &Json| (text(it, "refType")? == "CHILD_OF").then(|| text(it, "spanID"))?;
    references.into_iter().flatten().find_map(of).or_else(|| text(span, "parentSpanID"))
}

fn event(log: &Json) -> (String, u64, ForeignAttributes) {
    let mut fields = tags(log.get("fields"));
    let at = fields.iter().position(|(key, _)| key == "event");
    let name = at.map(|at| fields.remove(at).1);
    let name = name.and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default();
    let time = log.get("timestamp").and_then(Json::as_u64).unwrap_or_default().saturating_mul(1000);
    (name, time, fields)
}

fn tags(tags: Option<&Json>) -> ForeignAttributes {
    let tags = tags.and_then(Json::as_array);
    let of = |tag: &Json| Some((text(tag, "key")?, tag.get("value")?.clone()));
    tags.into_iter().flatten().filter_map(of).collect()
}
