//! Tests of the transcoder against the types of `opentelemetry-proto`, and against bad input.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::value::json::hard_texts;

fn traces(text: &str) -> Result<ExportTraceServiceRequest, OtlpJsonError> {
    let request = transcode(Signal::Traces, text.as_bytes())?;
    Ok(ExportTraceServiceRequest::decode(request).unwrap())
}

/// Returns the one span of a request whose only span is `span`.
fn span(span: &str) -> Result<Span, OtlpJsonError> {
    let text = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#);
    let mut request = traces(&text)?;
    Ok(request.resource_spans.remove(0).scope_spans.remove(0).spans.remove(0))
}

const TRACES: &str = r#"{"resourceSpans": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}],
                 "droppedAttributesCount": 1},
    "scopeSpans": [{"scope": {"name": "s", "version": "1"}, "schemaUrl": "u", "spans": [{
        "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "eee19b7ec3c1b174",
        "parentSpanId": "eee19b7ec3c1b173", "traceState": "a=b", "name": "call \u00e9\ud83d\ude00",
        "kind": 2, "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": 1544712661000000000,
        "flags": 257, "droppedAttributesCount": 3,
        "attributes": [
            {"key": "int", "value": {"intValue": "-5"}},
            {"key": "yes", "value": {"boolValue": true}}, {"key": "none", "value": {}},
            {"key": "list", "value": {"arrayValue": {"values": [
                {"stringValue": ""}, {"intValue": 7}]}}},
            {"key": "map", "value": {"kvlistValue": {"values": [
                {"key": "inner", "value": {"stringValue": "line\nbreak \"quoted\""}}]}}}],
        "events": [{"timeUnixNano": "9", "name": "e", "droppedAttributesCount": 2}],
        "links": [{"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174"}],
        "status": {"message": "bad", "code": 2}}]}]}]}"#;

#[test]
fn traces_come_out_as_the_reference_reads_them() {
    let expected: ExportTraceServiceRequest = serde_json::from_str(TRACES).unwrap();
    assert_eq!(traces(TRACES).unwrap(), expected);
}

#[test]
fn logs_come_out_as_the_reference_reads_them() {
    let text = r#"{"resourceLogs": [{"resource": {"attributes": []}, "scopeLogs": [{"logRecords": [{
        "timeUnixNano": "1", "observedTimeUnixNano": "2", "severityNumber": 9,
        "severityText": "INFO",
        "body": {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}]}},
        "attributes": [{"key": "a", "value": {"stringValue": "b"}}], "flags": 1,
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
        "eventName": "gen_ai.choice"}]}]}]}"#;
    let request = transcode(Signal::Logs, text.as_bytes()).unwrap();
    let expected: ExportLogsServiceRequest = serde_json::from_str(text).unwrap();
    assert_eq!(ExportLogsServiceRequest::decode(request).unwrap(), expected);
}

#[test]
fn metrics_come_out_as_the_protocol_says() {
    let text = r#"{"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "sum", "unit": "By", "sum": {"aggregationTemporality": 2, "isMonotonic": true,
            "dataPoints": [{"asInt": "-3", "timeUnixNano": "5", "startTimeUnixNano": "4"}]}},
        {"name": "histogram", "histogram": {"aggregationTemporality": 1, "dataPoints": [
            {"count": "3", "sum": 2.5, "bucketCounts": ["1", "2"], "explicitBounds": [0.5],
             "min": 0, "max": "NaN"}]}},
        {"name": "exponential", "exponentialHistogram": {"dataPoints": [
            {"scale": -2, "zeroCount": 1, "positive": {"offset": 3, "bucketCounts": ["1", 2]}}]}}
    ]}]}]}"#;
    let request = transcode(Signal::Metrics, text.as_bytes()).unwrap();
    let request = ExportMetricsServiceRequest::decode(request).unwrap();
    insta::assert_debug_snapshot!(request.resource_metrics[0].scope_metrics[0].metrics);
}

#[test]
fn what_the_specification_allows_is_taken() {
    assert_eq!(span(r#"{"name": "a", "future": {"x": [1, {"y": null}]}}"#).unwrap().name, "a");
    assert_eq!(span(r#"{"attributes": null, "name": null}"#).unwrap(), Span::default());
    assert_eq!(
        span(r#"{"startTimeUnixNano": 1.7e18}"#).unwrap().start_time_unix_nano,
        17 * 10u64.pow(17)
    );
    assert_eq!(
        traces(r#" {"resourceSpans": null} "#).unwrap(),
        ExportTraceServiceRequest::default()
    );
    assert_eq!(traces("{}").unwrap(), ExportTraceServiceRequest::default());
    assert_eq!(span("null").unwrap(), Span::default());
    assert_eq!(span(r#"{"name": "\ud83d cut"}"#).unwrap().name, "\u{fffd} cut");
}

#[test]
fn ids_of_any_length_pass_and_bad_ones_have_no_valid_length() {
    assert_eq!(span(r#"{"traceId": "0aFF"}"#).unwrap().trace_id, [0x0a, 0xff]);
    assert_eq!(span(r#"{"traceId": ""}"#).unwrap().trace_id, [0u8; 0]);
    for bad in ["0", "zz", "W47/95gDgQPSabYzgT/GDA==", "äöäöäöäö"] {
        assert_eq!(span(&format!(r#"{{"spanId": "{bad}"}}"#)).unwrap().span_id, [0], "{bad}");
    }
}

#[test]
fn what_the_specification_forbids_is_refused() {
    for text in [
        "",
        "[]",
        "null",
        "{} x",
        "{}{}",
        r#"{"resourceSpans": {}}"#,
        r#"{"resourceSpans": [1]}"#,
        r#"{"resourceSpans": []"#,
        r#"{"resourceSpans": [],}"#,
        r#"{"a": 01}"#,
        r#"{"a": "\x"}"#,
        r#"{"a": tru}"#,
        r#"{"a" 1}"#,
        r#"{a: 1}"#,
        "{\"a\": \"\n\"}",
        r#"{"a": [1,]}"#,
        r#"{"a": .5}"#,
        r#"{"a": "\u12"}"#,
        r#"{"a": [}"#,
    ] {
        assert!(traces(text).is_err(), "{text}");
    }
    for bad in [
        r#"{"kind": "SPAN_KIND_CLIENT"}"#,
        r#"{"name": 5}"#,
        r#"{"startTimeUnixNano": "soon"}"#,
        r#"{"startTimeUnixNano": 1.5}"#,
        r#"{"startTimeUnixNano": "-1"}"#,
        r#"{"endTimeUnixNano": -1e3}"#,
        r#"{"flags": -1}"#,
        r#"{"status": []}"#,
        r#"{"startTimeUnixNano": "99999999999999999999"}"#,
        r#"{"attributes": [{"value": {"bytesValue": "*"}}]}"#,
        r#"{"attributes": [{"value": {"arrayValue": {"values": [{"intValue": 1}, 5]}}}]}"#,
        r#"{"attributes": [{"value": {"arrayValue": {"values": {}}}}]}"#,
        r#"{"attributes": [{"value": {"kvlistValue": {"values": ["a"]}}}]}"#,
        r#"{"attributes": [{"value": {"kvlistValue": {"values": [{"key": 5}]}}}]}"#,
    ] {
        assert!(span(bad).is_err(), "{bad}");
    }
    assert!(transcode(Signal::Traces, b"{\"a\": \"\xff\"}").is_err());
}

/// Returns the transcoded bytes of a text with a prefix, or the error.
fn outcome(before: &str, text: &str, after: &str) -> String {
    let text = format!("{before}{text}{after}");
    let request = transcode(Signal::Metrics, text.as_bytes());
    request.map_or_else(|error| error.to_string(), |request| format!("{request:?}"))
}

#[test]
fn hard_texts_read_as_ever() {
    let read = |text: &str| {
        let signals = signals(text.as_bytes()).map_err(|error| error.to_string());
        format!("{}, {signals:?}", outcome("", text, ""))
    };
    insta::assert_snapshot!("hard_texts", hard_texts::table(read));
}

#[test]
fn hard_texts_in_fields_read_as_ever() {
    let metric = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"#;
    let read = |text: &str| {
        let name = outcome(&format!("{metric}\"name\": "), text, "}]}]}]}");
        let [int, double] = ["asInt", "asDouble"].map(|field| {
            let before = format!("{metric}\"gauge\":{{\"dataPoints\":[{{\"{field}\": ");
            outcome(&before, text, "}]}}]}]}]}")
        });
        format!("{name}, {int}, {double}")
    };
    insta::assert_snapshot!("hard_texts_in_fields", hard_texts::table(read));
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_stand() {
    for (text, at) in [
        (&b"\xff"[..], 0),
        (b"{\"a\": \"\xc3\"}", 7),
        (b"{\"a\": \"\xed\xa0\x80\"}", 7),
        (b"\xef\xbb\xbf{\xff", 4),
    ] {
        let error = transcode(Signal::Traces, text).unwrap_err();
        assert_eq!((error.at, &*error.message), (at, "not UTF-8"), "{text:?}");
    }
}

/// Returns an attribute nested this many levels deep.
fn nested(levels: usize) -> String {
    let open = r#"{"arrayValue":{"values":["#;
    let value = format!("{}{{\"intValue\":1}}{}", open.repeat(levels), "]}}".repeat(levels));
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"k","value":{value}}}]}}}}]}}"#
    )
}

#[test]
fn deep_nesting_is_taken_up_to_the_limit() {
    for levels in [1, 10, 100, 1_000, 10_000] {
        let request = transcode(Signal::Traces, nested(levels).as_bytes()).unwrap();
        assert!(request.len() > levels * 4, "{levels}");
    }
    let error = transcode(Signal::Traces, nested(11_000).as_bytes()).unwrap_err();
    assert!(error.message.contains("nested deeper"), "{error}");
    let unknown = format!(r#"{{"x": {}"#, "[".repeat(DEPTH_MAX));
    assert!(traces(&unknown).unwrap_err().message.contains("nested deeper"));
}

#[test]
fn nested_lengths_are_right_at_every_depth() {
    // The reference decoder stops at 100 levels of messages.
    for levels in 1..40 {
        let request = traces(&nested(levels)).unwrap();
        let mut value =
            request.resource_spans[0].resource.as_ref().unwrap().attributes[0].value.clone();
        let mut depth = 0;
        use opentelemetry_proto::tonic::common::v1::any_value::Value;
        while let Some(Value::ArrayValue(list)) = value.and_then(|value| value.value) {
            value = list.values.first().cloned();
            depth += 1;
        }
        assert_eq!(depth, levels);
    }
}

#[test]
fn signals_are_known_by_their_keys() {
    let known = |text: &str| signals(text.as_bytes());
    assert_eq!(
        known(r#"{"x": [{"resourceLogs": 1}], "resourceSpans": []}"#),
        Ok(vec![Signal::Traces])
    );
    assert_eq!(
        known(r#"{"resourceMetrics": [], "resourceLogs": [{}]}"#),
        Ok(vec![Signal::Metrics, Signal::Logs])
    );
    assert_eq!(known("{}"), Ok(vec![]));
    assert!(known("[]").is_err());
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = transcode(Signal::Traces, &bytes);
        let _ = signals(&bytes);
    }

    #[test]
    fn damaged_requests_end_in_an_answer(
        at in 0..TRACES.len(),
        with in "[\\[\\]{}\",:0-9a-z\\\\ ]{0,3}",
    ) {
        let damaged = format!("{}{with}{}", &TRACES[..at], &TRACES[at + 1..]);
        if let Ok(request) = transcode(Signal::Traces, damaged.as_bytes()) {
            prop_assert!(ExportTraceServiceRequest::decode(request).is_ok());
        }
    }

    #[test]
    fn any_text_survives(text in "\\PC{0,300}") {
        let encoded = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(span(&format!(r#"{{"name": {encoded}}}"#)).unwrap().name, text);
    }
}

#[test]
fn what_is_made_is_held_as_it_grows() {
    let bounds = "1,".repeat(100_000) + "1";
    let text = format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"m","histogram":
        {{"dataPoints":[{{"explicitBounds":[{bounds}]}}]}}}}]}}]}}]}}"#
    );
    let mut held = 0;
    let whole = transcode_within(Signal::Metrics, text.as_bytes(), &mut |more| {
        held += more;
        true
    });
    let made = whole.unwrap().len();
    assert!(made > 3 * text.len() && held >= made && held <= 2 * made, "{held} for {made}");
    // Without room it stops at once, not after producing all output.
    let mut held = 0;
    let mut asked = 0;
    let cut = transcode_within(Signal::Metrics, text.as_bytes(), &mut |more| {
        asked = held + more;
        let fits = asked <= text.len();
        held += if fits { more } else { 0 };
        fits
    });
    assert!(cut.unwrap_err().message.contains("no room"));
    assert!(asked <= 2 * text.len(), "{asked} of {}", text.len());
}
