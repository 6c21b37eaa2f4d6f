//! Jaeger: a trace from its HTTP API or its UI's "Trace JSON". Spans refer to other spans and to
//! processes; times are in microseconds.

use serde_json::Value as Json;

use super::span::{ForeignAttributes, ForeignSpan, items, text};

pub(super) fn spans(trace: &Json) -> Vec<ForeignSpan> {
    let of = |span: &Json| foreign(span, trace.get("processes"));
    items(trace, "spans").iter().filter_map(of).collect()
}

fn foreign(span: &Json, processes: Option<&Json>) -> Option<ForeignSpan> {
    let nanoseconds =
        |key: &str| span.get(key).and_then(Json::as_u64).map(|it| it.saturating_mul(1000));
    let start_ns = nanoseconds("startTime")?;
    let process = processes.and_then(|all| all.get(text(span, "processID")?));
    let mut resource = process.map(|it| tags(it, "tags")).unwrap_or_default();
    if let Some(name) = process.and_then(|it| text(it, "serviceName")) {
        resource.push(("service.name".to_owned(), Json::String(name)));
    }
    let mut attributes = tags(span, "tags");
    let mut take = |key: &str| take(&mut attributes, key);
    let status = string(take("otel.status_code"));
    let message = take("otel.status_description");
    let scope = take("otel.scope.name").or_else(|| take("otel.library.name"));
    let is_error = take("error").is_some_and(|it| it == true || it == "true");
    Some(ForeignSpan {
        trace_id: text(span, "traceID")?,
        span_id: text(span, "spanID")?,
        parent_id: parent(span),
        name: text(span, "operationName").unwrap_or_default(),
        start_ns,
        end_ns: start_ns.saturating_add(nanoseconds("duration").unwrap_or_default()),
        status: match status.as_str() {
            "ERROR" => 2,
            "OK" => 1,
            _ if is_error => 2,
            _ => 0,
        },
        status_message: string(message),
        attributes,
        events: items(span, "logs").iter().map(event).collect(),
        resource,
        scope: string(scope),
    })
}

fn parent(span: &Json) -> Option<String> {
    let of = |it: &Json| (text(it, "refType")? == "CHILD_OF").then(|| text(it, "spanID"))?;
    items(span, "references").iter().find_map(of).or_else(|| text(span, "parentSpanID"))
}

fn event(log: &Json) -> (String, u64, ForeignAttributes) {
    let mut fields = tags(log, "fields");
    let name = string(take(&mut fields, "event"));
    let time = log.get("timestamp").and_then(Json::as_u64).unwrap_or_default().saturating_mul(1000);
    (name, time, fields)
}

fn tags(value: &Json, key: &str) -> ForeignAttributes {
    let of = |tag: &Json| Some((text(tag, "key")?, tag.get("value")?.clone()));
    items(value, key).iter().filter_map(of).collect()
}

fn take(attributes: &mut ForeignAttributes, key: &str) -> Option<Json> {
    let at = attributes.iter().position(|(own, _)| own == key)?;
    Some(attributes.remove(at).1)
}

fn string(value: Option<Json>) -> String {
    value.as_ref().and_then(Json::as_str).unwrap_or_default().to_owned()
}
