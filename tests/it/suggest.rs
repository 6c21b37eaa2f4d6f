//! Proposals of `inspect --suggest` for instrumentations that nobody knows: pasted into a config,
//! they find the calls.

use hashbrown::HashSet;
use serde_json::{Value as Json, json};
use spanscore::config::{ConfigPart, ResolvedConfig, load};
use spanscore_base::model::{SpanId, TraceId};
use spanscore_extract::dialect::Dialect;
use spanscore_extract::suggest::{SpanSamples, suggest};

use spanscore_base::otlp::Signal;
use spanscore_base::otlp::json::transcode;

use crate::captures::{Request, resolver, rows, traces};
use crate::traps::{key_values, request, span, trajectory};

/// Returns the suggestion for these spans, as a config.
fn suggested(scope: &str, spans: &[Json]) -> String {
    suggested_for(&[request(scope, spans)])
}

fn suggested_for(requests: &[Request]) -> String {
    let resolver = resolver(Vec::new());
    let traces = traces(&resolver, requests);
    let mut samples = SpanSamples::default();
    for request in requests {
        match request {
            Request::Traces(body) => samples.add(body).unwrap(),
            Request::Logs(body) => samples.add_logs(body).unwrap(),
        }
    }
    let known: HashSet<(TraceId, SpanId)> = traces
        .iter()
        .flat_map(|trace| resolver.known_spans(trace).map(|id| (trace.trace_id, id)))
        .collect();
    let entries = suggest(&samples, &known);
    format!("dialects:\n{}", entries.iter().map(ToString::to_string).collect::<String>())
}

/// The dialects of a config, as `check` takes them.
fn pasted(text: &str) -> Vec<Dialect> {
    let part = ConfigPart::Text { name: "suggested.yaml".to_owned(), text: text.to_owned() };
    let lookup = |name: &str| panic!("a suggestion asks for the variable {name}");
    let loaded = load(&[part], &lookup).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let resolved = ResolvedConfig::new(&loaded);
    resolved.unwrap_or_else(|error| panic!("{text}\n{error}")).config.dialects
}

/// Holds the calls that the suggestion finds against `[name, id, arguments, result]` of each; gives
/// the whole trajectory.
fn check(spans: &[Json], expected: Json) -> Json {
    let text = suggested("nobody-knows", spans);
    let row = trajectory(pasted(&text), "nobody-knows", spans);
    let calls = row["tool_calls"].as_array().unwrap().iter();
    let found: Vec<Json> = calls
        .map(|call| json!([call["name"], call["id"], call["arguments"], call["result"]]))
        .collect();
    assert_eq!(Json::from(found), expected, "{text}");
    row
}

#[test]
fn kinds_of_spans_and_dotted_keys_are_understood() {
    let tool = |at: usize, name: &str, arguments: Json, result: &str| {
        let attributes = json!({
            "acme.kind": "tool", "acme.tool": name, "acme.step.call": format!("c-{at}"),
            "acme.step.in": arguments.to_string(), "acme.step.out": result,
            "acme.chat.id": "s-1", "acme.latency": 3 });
        span(at, Some(0), name, attributes)
    };
    let root = json!({ "acme.kind": "agent", "acme.agent.name": "Refund Agent",
        "acme.chat.id": "s-1", "acme.question": "refund please", "acme.answer": "done" });
    let spans = [
        span(0, None, "turn", root),
        tool(1, "find", json!({ "order": 1 }), r#"{"total": 2}"#),
        tool(2, "pay", json!({ "order": 1, "sum": 2.5 }), "paid"),
        span(3, Some(0), "think", json!({ "acme.kind": "llm", "acme.chat.id": "s-1" })),
    ];
    let expected = json!([
        ["find", "c-1", { "order": 1 }, { "total": 2 }],
        ["pay", "c-2", { "order": 1, "sum": 2.5 }, "paid"],
    ]);
    let row = check(&spans, expected);
    assert_eq!(row["session_id"], "s-1");
    assert_eq!(row["agent_name"], "Refund Agent");
    assert_eq!(row["user_input"], "refund please");
    assert_eq!(row["final_output"], "done");
}

#[test]
fn keys_in_camel_case_without_a_kind_are_understood() {
    let tool = |at: usize, name: &str, input: Json| {
        let attributes = json!({ "toolName": name, "toolCallId": format!("c-{at}"),
            "toolInput": input.to_string(), "toolOutput": "[1, 2]", "conversationId": "s" });
        span(at, None, "step", attributes)
    };
    let spans = [tool(0, "find", json!({ "q": "x" })), tool(1, "buy", json!({ "q": "y" }))];
    let expected = json!([
        ["find", "c-0", { "q": "x" }, [1, 2]],
        ["buy", "c-1", { "q": "y" }, [1, 2]],
    ]);
    assert_eq!(check(&spans, expected)["session_id"], "s");
}

#[test]
fn names_of_spans_and_arguments_of_their_own_are_understood() {
    let tool = |at: usize, name: &str, city: &str| {
        let attributes = json!({ "x.params.city": city, "x.params.days": 2, "x.result": "ok" });
        span(at, None, &format!("run_tool {name}"), attributes)
    };
    let spans = [tool(0, "weather", "Oslo"), tool(1, "traffic", "Rome")];
    let expected = json!([
        ["weather", null, { "city": "Oslo", "days": 2 }, "ok"],
        ["traffic", null, { "city": "Rome", "days": 2 }, "ok"],
    ]);
    check(&spans, expected);
}

#[test]
fn a_record_of_the_call_in_one_attribute_is_looked_into() {
    let tool = |at: usize, name: &str| {
        let record = json!({ "tool": name, "args": { "n": at }, "result": { "sum": at } });
        span(at, None, "op", json!({ "acme.record": record.to_string() }))
    };
    let spans = [tool(0, "add"), tool(1, "mul")];
    let expected = json!([
        ["add", null, { "n": 0 }, { "sum": 0 }],
        ["mul", null, { "n": 1 }, { "sum": 1 }],
    ]);
    check(&spans, expected);
}

#[test]
fn a_flag_or_a_word_that_says_so_fails_the_call() {
    for (key, good, bad) in [
        ("acme.tool.success", json!(true), json!(false)),
        ("acme.tool.failed", json!(false), json!(true)),
        ("acme.tool.status", json!("done"), json!("failed")),
    ] {
        let tool = |at: usize, outcome: &Json| {
            let mut attributes = json!({ "acme.kind": "tool_call", "acme.tool.name": "pay",
                "acme.tool.args": "{}", "acme.tool.output": "?" });
            attributes[key] = outcome.clone();
            span(at, None, "pay", attributes)
        };
        let spans = [tool(0, &good), tool(1, &bad)];
        let row = check(&spans, json!([["pay", null, {}, "?"], ["pay", null, {}, "?"]]));
        let status = |at: usize| row["tool_calls"][at]["status"].clone();
        assert_eq!([status(0), status(1)], ["ok", "error"], "{key}");
    }
}

/// Log events of the trace of the spans, as `(name, attributes)`.
fn log_events(events: &[(&str, Json)]) -> Request {
    let record = |(at, (name, attributes)): (usize, &(&str, Json))| {
        json!({
            "timeUnixNano": (1_500_000 + at * 1000).to_string(),
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "0000000000000001",
            "eventName": name,
            "attributes": key_values(attributes.as_object().unwrap())
        })
    };
    let records: Vec<Json> = events.iter().enumerate().map(record).collect();
    let request = json!({ "resourceLogs": [{ "resource": {}, "scopeLogs": [
        { "scope": { "name": "nobody-knows" }, "logRecords": records } ] }] });
    Request::Logs(transcode(Signal::Logs, request.to_string().as_bytes()).unwrap().to_vec())
}

#[test]
fn what_log_events_tell_of_a_call_is_taken_by_its_id() {
    let tool = |at: usize, name: &str| {
        let attributes = json!({ "acme.kind": "tool", "acme.tool.name": name,
            "acme.call.id": format!("c-{at}") });
        span(at, Some(0), "step", attributes)
    };
    let root = json!({ "acme.kind": "agent" });
    let spans = [span(0, None, "turn", root), tool(1, "find"), tool(2, "find"), tool(3, "pay")];
    let asked = |at: usize| {
        (
            "acme.tool.asked",
            json!({ "acme.tool.name": "?", "acme.call.id": format!("c-{at}"),
            "acme.tool.parameters": "{\"source\": \"config\"}" }),
        )
    };
    let done = |at: usize, input: Json, more: Json| {
        let mut attributes = json!({ "acme.tool.name": "?", "acme.call.id": format!("c-{at}"),
            "acme.tool.parameters": "{\"source\": \"config\"}",
            "acme.tool.input": input.to_string() });
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("acme.tool.done", attributes)
    };
    let events = [
        asked(1),
        done(2, json!({ "q": "b" }), json!({ "acme.tool.output": "[2]", "acme.success": true })),
        done(1, json!({ "q": "a" }), json!({ "acme.tool.output": "[1]", "acme.success": true })),
        done(3, json!({ "sum": 2 }), json!({ "acme.success": false, "acme.error": "no cash" })),
    ];
    let requests = [request("nobody-knows", &spans), log_events(&events)];
    let text = suggested_for(&requests);
    let resolver = resolver(pasted(&text));
    let row = rows(&resolver, &traces(&resolver, &requests)).remove(0);
    let part = |at: usize| {
        let call = &row["tool_calls"][at];
        json!([call["name"], call["id"], call["arguments"], call["result"], call["failed"]])
    };
    assert_eq!(part(0), json!(["find", "c-1", { "q": "a" }, [1], false]), "{text}\n{row:#}");
    assert_eq!(part(1), json!(["find", "c-2", { "q": "b" }, [2], false]), "{text}");
    assert_eq!(part(2), json!(["pay", "c-3", { "sum": 2 }, "no cash", true]), "{text}\n{row:#}");
}

#[test]
fn schemas_of_arguments_are_no_arguments() {
    let tool = |at: usize, city: &str| {
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        let attributes = json!({ "acme.kind": "TOOL", "acme.tool.name": "weather",
            "acme.tool.parameters": schema.to_string(),
            "acme.input.value": json!({ "city": city }).to_string(), "acme.output.value": "sun" });
        span(at, None, "weather", attributes)
    };
    let spans = [tool(0, "Oslo"), tool(1, "Rome")];
    let expected = json!([
        ["weather", null, { "city": "Oslo" }, "sun"],
        ["weather", null, { "city": "Rome" }, "sun"],
    ]);
    check(&spans, expected);
}

#[test]
fn nothing_is_suggested_for_spans_without_tools_nor_for_known_ones() {
    let http = json!({ "http.method": "GET", "url": "https://x/tool", "code.function": "main" });
    let known = json!({ "openinference.span.kind": "TOOL", "tool.name": "find" });
    let spans = [span(0, None, "GET /tools", http), span(1, None, "find", known)];
    assert_eq!(suggested("http", &spans), "dialects:\n");
}

#[test]
fn spans_that_a_dialect_takes_by_their_name_alone_are_looked_at() {
    let tool = |at: usize, name: &str| {
        let attributes = json!({ "zz.toolCall.name": name, "zz.toolCall.id": format!("c-{at}"),
            "zz.toolCall.args": json!({ "n": at }).to_string(), "zz.toolCall.result": "done" });
        span(at, None, "ai.toolCall", attributes)
    };
    let expected = json!([
        ["find", "c-0", { "n": 0 }, "done"],
        ["pay", "c-1", { "n": 1 }, "done"],
    ]);
    check(&[tool(0, "find"), tool(1, "pay")], expected);
}

#[test]
fn what_a_stranger_writes_says_nothing_else_in_the_config() {
    let tool = |at: usize| {
        let attributes = json!({ "acme.kind": "tool", "acme.tool.name": "find",
            "acme.tool.args\"]\n  evil: 1": "{}", "${env:HOME}.args": "{\"a\": 1}",
            "acme.tool.input": "{\"a\": \"\\n    evil: 1 ${env:HOME}\"}",
            "acme.tool.output": "x\n  - evil: ${env:HOME}\u{1b}[2J" });
        span(at, None, "find\n    evil: ${env:HOME}", attributes)
    };
    let text = suggested("nobody-knows", &[tool(0), tool(1)]);
    assert!(!text.contains('\u{1b}') && !text.lines().any(|line| line.trim().starts_with("evil")));
    let dialects = pasted(&text);
    assert_eq!(dialects.len(), 1, "{text}");
    assert!(!text.contains("${env:HOME}.args"), "{text}");
}

#[test]
fn the_suggestion_is_the_same_in_whatever_order_the_spans_came() {
    let tool = |at: usize, name: &str| {
        let attributes = json!({ "a.kind": "tool", "b.kind": "tool", "a.tool": name,
            "a.in": "{\"x\": 1}", "b.in": "{\"x\": 1}", "a.out": "y" });
        span(at, None, name, attributes)
    };
    let spans = [tool(0, "p"), tool(1, "q"), tool(2, "r")];
    let [one, two, three] = spans.clone();
    let facts = |text: String| {
        let is_fact = |line: &&str| !line.trim_start().starts_with('#');
        text.lines().filter(is_fact).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = facts(suggested("s", &spans));
    assert_eq!(facts(suggested("s", &[three, one, two])), first);
}

#[test]
fn envelopes_around_arguments_and_results_are_looked_into() {
    let tool = |at: usize, city: &str| {
        let input = json!({ "type": "json", "value": { "city": city } });
        let output = json!({ "result": "{\"sky\": \"clear\"}" });
        let attributes = json!({ "acme.span.type": "tool", "acme.tool.name": "weather",
            "acme.input": input.to_string(), "acme.output": output.to_string() });
        span(at, None, "weather", attributes)
    };
    let spans = [tool(0, "Oslo"), tool(1, "Rome")];
    let expected = json!([
        ["weather", null, { "city": "Oslo" }, { "sky": "clear" }],
        ["weather", null, { "city": "Rome" }, { "sky": "clear" }],
    ]);
    check(&spans, expected);
}

#[test]
fn check_says_what_a_dialect_of_ones_own_reads() {
    let text = "dialects:\n  - name: acme\n    detect: {attr: acme.kind, equals: \"tool\"}\n    \
                tool_call: {name: [acme.tool], arguments: [acme.in]}\n    \
                session_id: [acme.chat]\n";
    let part = ConfigPart::Text { name: "own.yaml".to_owned(), text: text.to_owned() };
    let resolved = ResolvedConfig::new(&load(&[part], &|_| None).unwrap()).unwrap();
    let summary = resolved.summary();
    let (_, lines) = summary.iter().find(|(title, _)| *title == "dialects").unwrap();
    assert_eq!(lines[..], ["acme (spans of tool calls; reads name, arguments, session)"]);
}
