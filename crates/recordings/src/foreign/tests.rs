use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message;

use super::*;

/// Each span in a line: ids, name, times, status, service, attributes.
fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (signal, body) in read(text.as_bytes(), "here").unwrap() {
        assert_eq!(signal, Signal::Traces);
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for resource in request.resource_spans {
            let service = resource.resource.map(|it| values(&it.attributes)).unwrap_or_default();
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let hex = |id: &[u8]| id.iter().map(|it| format!("{it:02x}")).collect::<String>();
                let status = span.status.unwrap_or_default();
                lines.push(format!(
                    "{} {} < {} {} {}..{} {}{} [{service}] [{}] {}",
                    hex(&span.trace_id),
                    hex(&span.span_id),
                    hex(&span.parent_span_id),
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    status.code,
                    status.message,
                    values(&span.attributes),
                    span.events.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(","),
                ));
            }
        }
    }
    lines
}

fn values(attributes: &[KeyValue]) -> String {
    let of = |it: &KeyValue| {
        let value = match it.value.clone().and_then(|it| it.value) {
            Some(any_value::Value::StringValue(text)) => text,
            Some(any_value::Value::IntValue(number)) => number.to_string(),
            Some(any_value::Value::BoolValue(flag)) => flag.to_string(),
            Some(any_value::Value::ArrayValue(list)) => format!("list of {}", list.values.len()),
            other => format!("{other:?}"),
        };
        format!("{}={value}", it.key)
    };
    attributes.iter().map(of).collect::<Vec<_>>().join(" ")
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(lines(text), expected);
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[test]
fn jaeger_spans_keep_their_tags_and_processes() {
    check(
        r#"{"data": [{"traceID": "af7651916cd43dd8448eb211c80319c", "spans": [{
            "traceID": "af7651916cd43dd8448eb211c80319c", "spanID": "b7ad6b7169203331",
            "operationName": "pay", "startTime": 1700000000000001, "duration": 5,
            "references": [{"refType": "CHILD_OF", "spanID": "00000000000000aa"}],
            "tags": [{"key": "tool.name", "type": "string", "value": "pay"},
                     {"key": "n", "type": "int64", "value": 3},
                     {"key": "otel.status_code", "value": "ERROR"},
                     {"key": "otel.status_description", "value": "no"}],
            "logs": [{"timestamp": 1, "fields": [{"key": "event", "value": "exception"}]}],
            "processID": "p1"}],
            "processes": {"p1": {"serviceName": "shop", "tags": []}}}], "total": 0}"#,
        &[&format!(
            "{TRACE} b7ad6b7169203331 < 00000000000000aa pay \
             1700000000000001000..1700000000000006000 2no [service.name=shop] \
             [tool.name=pay n=3] exception"
        )],
    );
}

#[test]
fn tempo_s_answers_are_otlp_with_ids_in_base64() {
    let spans = r#"[{"traceId": "CvdlGRbNQ92ESOshHIAxnA==", "spanId": "t61rcWkgMzE=", "name": "a",
        "kind": "SPAN_KIND_INTERNAL", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [{"key": "kind", "value": {"stringValue": "x"}}],
        "status": {"code": "STATUS_CODE_ERROR"}}]"#;
    let line = format!("{TRACE} b7ad6b7169203331 <  a 1..2 2 [] [kind=x] ");
    let old =
        format!(r#"{{"batches": [{{"instrumentationLibrarySpans": [{{"spans": {spans}}}]}}]}}"#);
    check(&old, &[&line]);
    let new =
        format!(r#"{{"trace": {{"resourceSpans": [{{"scopeSpans": [{{"spans": {spans}}}]}}]}}}}"#);
    check(&new, &[&line]);
}

#[test]
fn phoenix_spans_come_nested_or_as_rows() {
    let line = format!(
        "{TRACE} b7ad6b7169203331 < 00000000000000aa pay \
         1700000000000000000..1700000001000000000 1 [] [tool.name=pay \
         llm.messages.0.role=user tags=list of 2 openinference.span.kind=TOOL] "
    );
    let nested = format!(
        r#"{{"next_cursor": null, "data": [{{"id": "x", "name": "pay", "span_kind": "TOOL",
        "context": {{"trace_id": "{TRACE}", "span_id": "b7ad6b7169203331"}},
        "parent_id": "00000000000000aa", "start_time": "2023-11-14T22:13:20+00:00",
        "end_time": "2023-11-14T22:13:21Z", "status_code": "OK", "events": [],
        "attributes": {{"tool": {{"name": "pay"}}, "llm": {{"messages": [{{"role": "user"}}]}},
        "tags": ["a", "b"]}}}}]}}"#
    );
    check(&nested, &[&line]);
    let row = format!(
        r#"[{{"name": "pay", "span_kind": "TOOL", "parent_id": "00000000000000aa",
        "start_time": "2023-11-14T22:13:20Z", "end_time": "2023-11-14T22:13:21Z",
        "status_code": "OK", "context.trace_id": "{TRACE}", "context.span_id": "b7ad6b7169203331",
        "attributes.tool.name": "pay", "attributes.llm.messages": [{{"role": "user"}}],
        "attributes.tags": ["a", "b"], "attributes.nothing": null}}]"#
    );
    check(&row, &[&line]);
}

#[test]
fn langfuse_observations_are_what_its_sdk_would_have_sent() {
    let trace = r#"{"id": "t-1", "sessionId": "s", "input": "hi", "output": {"a": 1},
        "observations": [
            {"id": "o-1", "traceId": "t-1", "type": "AGENT", "name": "shop",
             "startTime": "2023-11-14T22:13:20.000Z", "endTime": "2023-11-14T22:13:21.000Z"},
            {"id": "o-2", "type": "TOOL", "name": "pay", "parentObservationId": "o-1",
             "startTime": "2023-11-14T22:13:20.000Z", "endTime": null, "level": "ERROR",
             "statusMessage": "no", "input": {"n": 1}, "output": "done", "metadata": {"k": 2}}]}"#;
    let found = lines(trace);
    assert!(
        found[0].contains("langfuse.trace.input=hi langfuse.trace.output={\"a\":1}"),
        "{found:?}"
    );
    let tool = "langfuse.observation.type=tool langfuse.observation.input={\"n\":1} \
        langfuse.observation.output=done langfuse.observation.level=ERROR \
        langfuse.observation.status_message=no session.id=s langfuse.observation.metadata.k=2";
    assert!(found[1].contains(tool) && found[1].contains("..0 2no"), "{found:?}");
    let ids = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(ids(&found[0])[..2], [ids(&found[1])[0].clone(), ids(&found[1])[3].clone()]);
}

#[test]
fn lists_of_requests_are_read_and_anything_else_is_refused() {
    let request = format!(
        r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "{TRACE}",
        "spanId": "b7ad6b7169203331", "name": "a"}}]}}]}}]}}"#
    );
    let line = format!("{TRACE} b7ad6b7169203331 <  a 0..0 0 [] [] ");
    check(&format!("[{request}, [{request}]]"), &[&line, &line]);
    for bad in ["{}", "[1]", "[[[[[[{}]]]]]]", r#"{"data": 1}"#, r#"{"type": "TOOL"}"#, "[nonsense"]
    {
        assert!(read(bad.as_bytes(), "here").is_err(), "{bad}");
    }
}
