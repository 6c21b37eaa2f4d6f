//! Traps that instrumentations set for whoever looks for tool calls, each with a test of its name.
//!
//! A trap is one or a few spans, written here as JSON, and the calls that they hold.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use serde_json::{Value as Json, json};
use spanscore_extract::dialect::Dialect;

use crate::captures::{Request, resolver, rows, traces};
use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;
use spanscore_base::settings::yaml;

fn any_value(value: &Json) -> Json {
    match value {
        Json::String(text) => json!({ "stringValue": text }),
        Json::Bool(value) => json!({ "boolValue": value }),
        Json::Number(number) if number.is_i64() => json!({ "intValue": number }),
        Json::Number(number) => json!({ "doubleValue": number }),
        Json::Array(items) => {
            json!({ "arrayValue": { "values": items.iter().map(any_value).collect::<Vec<_>>() } })
        }
        Json::Object(map) => json!({ "kvlistValue": { "values": key_values(map) } }),
        Json::Null => json!({}),
    }
}

pub(crate) fn key_values(map: &serde_json::Map<String, Json>) -> Vec<Json> {
    map.iter().map(|(key, value)| json!({ "key": key, "value": any_value(value) })).collect()
}

/// A span: `at` gives its place in time and its id, `parent` the place of its parent.
pub(crate) fn span(at: usize, parent: Option<usize>, name: &str, attributes: Json) -> Json {
    let id = |at: usize| format!("{:016x}", at + 1);
    json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": id(at),
        "parentSpanId": parent.map_or(String::new(), id),
        "name": name,
        "startTimeUnixNano": (1_000_000 + at * 1000).to_string(),
        "endTimeUnixNano": (2_000_000 + at * 1000).to_string(),
        "attributes": key_values(attributes.as_object().unwrap()),
        "status": {}
    })
}

pub(crate) fn request(scope: &str, spans: &[Json]) -> Request {
    let request = json!({ "resourceSpans": [{ "resource": {}, "scopeSpans": [
        { "scope": { "name": scope }, "spans": spans } ] }] });
    Request::Traces(transcode(Signal::Traces, request.to_string().as_bytes()).unwrap().to_vec())
}

/// The one trajectory of these spans, with the user's own dialects beside the built-in ones.
pub(crate) fn trajectory(own: Vec<Dialect>, scope: &str, spans: &[Json]) -> Json {
    let resolver = resolver(own);
    let traces = traces(&resolver, &[request(scope, spans)]);
    let mut rows = rows(&resolver, &traces);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

/// The calls of these spans, as `[name, id, arguments, result]`.
fn check(scope: &str, spans: &[Json], expected: Json) {
    let row = trajectory(Vec::new(), scope, spans);
    let calls = row["tool_calls"].as_array().unwrap().iter();
    let found: Vec<Json> = calls
        .map(|call| json!([call["name"], call["id"], call["arguments"], call["result"]]))
        .collect();
    assert_eq!(Json::Array(found), expected, "{row:#}");
}

#[test]
fn merged_tool_responses_are_no_call() {
    let merged = json!({
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "(merged tools)",
        "gen_ai.tool.call.id": "event-1",
        "gcp.vertex.agent.tool_call_args": "N/A",
        "gcp.vertex.agent.tool_response": "{}"
    });
    check("gcp.vertex.agent", &[span(0, None, "execute_tool (merged)", merged)], json!([]));
}

#[test]
fn output_functions_and_deferred_calls_are_no_calls() {
    let tool = |key: &str, value: &str| {
        json!({
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "final_result",
            "gen_ai.tool.call.id": "c1",
            key: value
        })
    };
    let output = tool("logfire.msg", "running output function: final_result");
    let deferred = tool("pydantic_ai.tool.deferral.name", "approval");
    let spans = [
        span(0, None, "execute_tool final_result", output),
        span(1, None, "execute_tool final_result", deferred),
    ];
    check("pydantic-ai", &spans, json!([]));
}

#[test]
fn handoffs_are_no_calls() {
    let llm = json!({
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "transfer_to_b",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}"
    });
    let handoff = json!({
        "openinference.span.kind": "TOOL", "input.value": "a", "output.value": "b"
    });
    let spans = [span(0, None, "response", llm), span(1, None, "handoff to b", handoff)];
    check("openinference.instrumentation.openai_agents", &spans, json!([]));
}

#[test]
fn a_tool_tagged_agent_is_a_call() {
    let attributes = json!({
        "openinference.span.kind": "AGENT",
        "tool.name": "ask_agent",
        "input.value": "{\"question\": \"x\"}",
        "output.value": "{\"type\": \"tool\", \"data\": {\"content\": \"y\", \
                          \"tool_call_id\": \"c1\", \"status\": \"success\"}}"
    });
    check(
        "openinference.instrumentation.langchain",
        &[span(0, None, "ask_agent", attributes)],
        json!([["ask_agent", "c1", { "question": "x" }, "y"]]),
    );
}

#[test]
fn an_agent_step_that_carries_a_tool_is_no_call() {
    let attributes = json!({
        "openinference.span.kind": "AGENT",
        "tool.name": "search",
        "tool.parameters": "{\"type\": \"object\", \"properties\": {}}"
    });
    check(
        "openinference.instrumentation.llama_index",
        &[span(0, None, "step", attributes)],
        json!([]),
    );
}

#[test]
fn a_schema_is_not_taken_for_arguments() {
    let tool = |parameters: &str| {
        json!({
            "openinference.span.kind": "TOOL", "tool.name": "search", "tool.parameters": parameters
        })
    };
    let schema = tool("{\"properties\": {\"q\": {\"type\": \"string\"}}, \"type\": \"object\"}");
    check("x", &[span(0, None, "t", schema)], json!([["search", null, null, null]]));
    let arguments = tool("{\"q\": \"rust\"}");
    check("x", &[span(0, None, "t", arguments)], json!([["search", null, { "q": "rust" }, null]]));
}

#[test]
fn python_literals_are_read_whatever_their_tag() {
    let attributes = json!({
        "openinference.span.kind": "TOOL",
        "tool.name": "search",
        "input.value": "{'q': \"it's\", 'deep': True, 'limit': None}",
        "input.mime_type": "application/json",
        "output.value": "{'hits': [1, 2.5]}"
    });
    check(
        "x",
        &[span(0, None, "t", attributes)],
        json!([[
            "search",
            null,
            { "q": "it's", "deep": true, "limit": null },
            { "hits": [1, 2.5] }
        ]]),
    );
}

#[test]
fn envelopes_are_taken_off() {
    let attributes = json!({
        "traceloop.span.kind": "tool",
        "gen_ai.provider.name": "langchain",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.arguments":
            "{\"input_str\": \"{'q': 1}\", \"tags\": [], \"inputs\": {\"q\": 1}}",
        "gen_ai.tool.call.result":
            "{\"output\": {\"lc\": 1, \"type\": \"constructor\", \"id\": [\"ToolMessage\"], \
              \"kwargs\": {\"content\": \"[1]\", \"tool_call_id\": \"c1\"}}, \"kwargs\": {}}"
    });
    check(
        "opentelemetry.instrumentation.langchain",
        &[span(0, None, "execute_tool search", attributes)],
        json!([["search", "c1", { "q": 1 }, [1]]]),
    );
}

#[test]
fn doubly_encoded_and_structured_values_are_the_same_values() {
    let tool = |arguments: Json, result: Json| {
        json!({
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result
        })
    };
    let expected = json!([["search", null, { "q": [1] }, "sunny"]]);
    let double = tool(json!("\"{\\\"q\\\": [1]}\""), json!("\"sunny\""));
    check("x", &[span(0, None, "t", double)], expected.clone());
    let structured = tool(json!({ "q": [1] }), json!("sunny"));
    check("x", &[span(0, None, "t", structured)], expected);
}

#[test]
fn placeholders_and_redactions_are_unknown_and_never_empty() {
    let tool = |arguments: &str, result: &str, id: &str| {
        json!({
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": id,
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": result
        })
    };
    let unknown = json!([["search", null, null, null]]);
    let redacted = tool("<REDACTED>", "__REDACTED__", "<not specified>");
    check("x", &[span(0, None, "t", redacted)], unknown.clone());
    check("x", &[span(0, None, "t", tool("None", "<not serializable>", "unknown"))], unknown);
    let empty = tool("{}", "", "c1");
    check("x", &[span(0, None, "t", empty)], json!([["search", "c1", {}, ""]]));
    let cut = tool("{\"q\": \"a long te", "x", "c1");
    let raw = json!({ "_raw": "{\"q\": \"a long te" });
    check("x", &[span(0, None, "t", cut)], json!([["search", "c1", raw, "x"]]));
}

/// The entry that the documentation shows for an invented framework.
const INVENTED: &str = include_str!("../fixtures/invented_dialect.yaml");

#[test]
fn an_invented_framework_takes_a_config_entry_only() {
    let own: Vec<Dialect> = yaml::read(INVENTED).unwrap().read().unwrap();
    let root = json!({
        "acme.kind": "turn", "acme.bot": "helper", "acme.chat": "chat-7",
        "acme.question": "where is it?", "acme.answer": "here"
    });
    let step = json!({
        "acme.kind": "step", "acme.step.tool": "acme/find", "acme.step.call": "c1",
        "acme.step.in": "{\"args\": [], \"kwargs\": {\"what\": \"it\"}}",
        "acme.step.out": "{\"payload\": {\"place\": \"here\"}}"
    });
    let spans = [span(0, None, "turn", root), span(1, Some(0), "step", step)];
    let row = trajectory(own, "acme-agents", &spans);
    let call = &row["tool_calls"][0];
    assert_eq!(call["name"], "find");
    assert_eq!(call["id"], "c1");
    assert_eq!(call["arguments"], json!({ "what": "it" }));
    assert_eq!(call["result"], json!({ "place": "here" }));
    assert_eq!(call["agent"], "helper");
    assert_eq!(call["dialect"], "acme-agents");
    assert_eq!(row["session_id"], "chat-7");
    assert_eq!(row["user_input"], "where is it?");
    assert_eq!(row["final_output"], "here");
    let documented = include_str!("../../docs/dialects.md");
    let entry: String = INVENTED.lines().map(|line| format!("  {line}\n")).collect();
    assert!(documented.contains(&entry), "docs/dialects.md shows another entry");
}

/// A request with each text `~broken~` made a field that OTLP has not.
fn broken(spans: &[Json]) -> Request {
    let Request::Traces(mut body) = request("x", spans) else { panic!("traces") };
    let places: Vec<_> = memchr::memmem::find_iter(&body, b"~broken~").collect();
    assert!(!places.is_empty());
    // Before the text stand its tag and its length; the tag becomes one of a group.
    places.into_iter().for_each(|at| body[at - 2] = 0x0b);
    Request::Traces(body)
}

#[test]
fn what_is_malformed_in_part_is_never_recorded_and_empty() {
    let tool = |arguments: Json, result: Json| {
        span(
            0,
            None,
            "t",
            json!({
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "find",
                "gen_ai.tool.call.arguments": arguments,
                "gen_ai.tool.call.result": result,
            }),
        )
    };
    let check = |arguments: Json, result: Json, expected: [Json; 2]| {
        let resolver = resolver(Vec::new());
        let traces = traces(&resolver, &[broken(&[tool(arguments, result)])]);
        let row = rows(&resolver, &traces).remove(0);
        let call = &row["tool_calls"][0];
        assert_eq!([&call["arguments"], &call["result"]], expected.each_ref(), "{row:#}");
    };
    let raw = |text: &str| json!({ "_raw": text });
    check(
        json!({ "q": "~broken~", "r": 1 }),
        json!(["a", "~broken~"]),
        [raw(r#"{"r":1}"#), raw(r#"["a",null]"#)],
    );
    check(
        json!({ "q": { "deep": [{ "x": "~broken~" }] } }),
        json!([[["~broken~"]]]),
        [raw(r#"{"q":{"deep":[{}]}}"#), raw("[[[null]]]")],
    );
    check(json!(["~broken~"]), json!({ "x": "~broken~" }), [raw("[null]"), raw("{}")]);
}

#[test]
fn bytes_are_their_base64_from_protobuf_and_from_json() {
    let value = |key: &str, value: any_value::Value| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    };
    let nested = AnyValue { value: Some(any_value::Value::BytesValue(b"\xff\x00".to_vec())) };
    let list = any_value::Value::ArrayValue(ArrayValue { values: vec![nested] });
    let span = Span {
        trace_id: vec![7; 16],
        span_id: vec![7; 8],
        start_time_unix_nano: 1,
        end_time_unix_nano: 2,
        attributes: vec![
            value("openinference.span.kind", any_value::Value::StringValue("TOOL".into())),
            value("tool.name", any_value::Value::StringValue("hash".into())),
            value("input.value", list),
            value("output.value", any_value::Value::BytesValue(b"{\"a\": 1}".to_vec())),
        ],
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let request = ExportTraceServiceRequest { resource_spans };
    let json = serde_json::to_vec(&request).unwrap();
    let bodies = [request.encode_to_vec(), transcode(Signal::Traces, &json).unwrap().to_vec()];
    let resolver = resolver(Vec::new());
    for body in bodies {
        let row = rows(&resolver, &traces(&resolver, &[Request::Traces(body)])).remove(0);
        let call = &row["tool_calls"][0];
        assert_eq!(
            (&call["arguments"], &call["result"]),
            (&json!(["/wA="]), &json!("eyJhIjogMX0="))
        );
    }
}

#[test]
fn a_placeholder_where_an_error_would_stand_is_no_error() {
    let conventions = |error: Json| {
        json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                "gen_ai.tool.call.result": "found", "error.type": error })
    };
    let openinference = |error: Json| {
        json!({ "openinference.span.kind": "TOOL", "tool.name": "find",
                "output.value": "found", "error.type": error })
    };
    let claude = |error: Json| -> Json {
        let id = "c1";
        json!({ "tool_name": "find", "tool_use_id": id, "success": true, "error": error })
    };
    let unknown = |error: Json| {
        json!({ "acme.span.kind": "tool", "acme.tool.name": "find", "acme.output": "found",
                "acme.error": error })
    };
    let status = |name: &str, attributes: Json| {
        let row = trajectory(Vec::new(), "x", &[span(0, None, name, attributes)]);
        let call = row["tool_calls"][0].clone();
        assert_eq!(call["name"], "find", "{row:#}");
        json!([call["status"], call["error"]])
    };
    let nothing = ["None", "null", "", "nil", "undefined", "False", "N/A"].map(|text| json!(text));
    for error in nothing.into_iter().chain([json!(false), Json::Null, json!(0)]) {
        for attributes in [conventions, openinference, unknown].map(|of| of(error.clone())) {
            let found = status("find", attributes.clone());
            assert_eq!(found, json!(["ok", null]), "{attributes}");
        }
        let found = status("claude_code.tool.execution", claude(error.clone()));
        assert_eq!(found, json!(["ok", null]), "{error}");
    }
    let text = json!("disk on fire");
    for attributes in [conventions, openinference].map(|of| of(text.clone())) {
        assert_eq!(status("find", attributes)[0], "error");
    }
    assert_eq!(status("find", unknown(text.clone())), json!(["error", "disk on fire"]));
    let found = status("claude_code.tool.execution", claude(text));
    assert_eq!(found, json!(["error", "disk on fire"]));
}

#[test]
fn a_kind_that_no_dialect_states_counts_under_a_key_that_one_names() {
    let tool = json!({ "span.type": "tool", "tool.name": "find", "tool.call.id": "c1",
        "input": r#"{"q":1}"#, "output": "found" });
    check("x", &[span(0, None, "find", tool)], json!([["find", "c1", { "q": 1 }, "found"]]));
    // What a dialect states under the key stays what that one says.
    let chain = json!({ "openinference.span.kind": "CHAIN", "tool.name": "find" });
    check("x", &[span(0, None, "find", chain)], json!([]));
}

#[test]
fn span_that_names_a_tool_and_states_another_kind_is_no_call() {
    let given = json!({ "acme.tool_name": "find", "acme.tool_args": r#"{"q":1}"# });
    let expected = json!([["find", null, { "q": 1 }, null]]);
    check("x", &[span(0, None, "step", given.clone())], expected);
    for kind in ["LLM", "GUARDRAIL", "agent", "chain"] {
        let mut given = given.clone();
        given["acme.span.kind"] = json!(kind);
        check("x", &[span(0, None, "step", given)], json!([]));
    }
}

#[test]
fn what_stands_on_the_root_is_what_was_asked_and_answered_where_nothing_else_says() {
    let tool = json!({ "acme.span.kind": "tool", "acme.tool.name": "find" });
    let root = json!({ "acme.input": "where is it?", "acme.output": { "place": "here" } });
    let spans = [span(0, None, "run", root), span(1, Some(0), "find", tool)];
    let row = trajectory(Vec::new(), "x", &spans);
    assert_eq!(row["user_input"], "where is it?", "{row:#}");
    assert_eq!(row["final_output"], json!({ "place": "here" }), "{row:#}");
    // What a tool was given, nobody asked.
    let tool = json!({ "acme.span.kind": "tool", "acme.tool.name": "find", "acme.input": "x" });
    let row = trajectory(Vec::new(), "x", &[span(0, None, "find", tool)]);
    assert_eq!(row["user_input"], Json::Null, "{row:#}");
}
