//! Texts of strangers that would harm whoever shows them, in every field that is shown.

use std::process::{Command, Stdio};

use prost::Message;
use serde_json::{Value as Json, json};
use spanscore_base::otlp::{Signal, json};

use crate::support::collector::{PROTOBUF, Running};
use crate::support::patience::{eventually, once};
use crate::support::spans::{agent, scoped, text, tool, with};

/// Terminal escapes, bidirectional marks, control characters, label injection, and long texts.
fn corpus() -> Vec<String> {
    let mut texts = vec![
        "\x1b[2J\x1b[H\x1b]0;owned\x07".to_owned(),
        "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\".to_owned(),
        "\x1bP$q\"p\x1b\\\x1b[6n\x1b[5i".to_owned(),
        "\u{9b}31m\u{9d}0;x\u{9c}".to_owned(),
        "a\u{202e}gpj.exe\u{2066}\u{2069}\u{200f}".to_owned(),
        "x\"} 1\nspanscore_fake_total 42\n".to_owned(),
        "a\\\"b\\\\\n{}=,".to_owned(),
        "line\r\nERROR forged log line".to_owned(),
        "=HYPERLINK(\"http://evil\")".to_owned(),
        "\0\0nul".to_owned(),
        "\u{feff}\u{200b}\u{e0041}\u{fff9}".to_owned(),
        "{\"evaluation_id\":\"forged\"}\n{\"x\":1}".to_owned(),
        "y".repeat(200_000),
    ];
    let controls = (0u32..0xa0).filter_map(char::from_u32).filter(|c| c.is_control());
    texts.extend(controls.map(|c| format!("c{c}c")));
    let marks = (0x200bu32..=0x200f).chain(0x202a..=0x202e).chain(0x2066..=0x2069);
    texts.extend(marks.filter_map(char::from_u32).map(|c| format!("m{c}m")));
    let fragments = ["\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\u{9b}", "\u{9d}"];
    for fragment in fragments {
        texts.extend((0..13).map(|n| format!("{fragment}{n};{n}H{n}\x07")));
    }
    // What is shown as two characters, or as none, on some terminals; and one very long text.
    let hidden = (0xe0020u32..0xe0030).chain(0xfe00..0xfe04).chain(0xfff9..0xfffc);
    texts.extend(hidden.filter_map(char::from_u32).map(|c| format!("h{c}h")));
    texts.push(format!("{}\x1b[31m", "z".repeat(1 << 20)));
    texts
}

/// Returns the character of a line that a terminal would obey.
fn obeyed(line: &str) -> Option<char> {
    let is_mark = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
    let is_isolate = |c: char| matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fff9}');
    line.chars().find(|&c| c.is_control() || is_mark(c) || is_isolate(c))
}

#[tokio::test]
async fn files_and_metrics_show_them_harmlessly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.jsonl");
    let config = format!(
        "
evaluators:
  tool_call_args: {{criteria: {{tool_calls: [{{name: mail, args: {{to: nobody}}}}]}}}}
  tool_error:
exporters:
  file: {{path: {}, content: full}}
  prometheus: {{series_max: 50}}
",
        path.display()
    );
    let running = Running::start(&config).await;
    let corpus = corpus();
    assert!(corpus.len() >= 200, "{}", corpus.len());
    for (n, hostile) in corpus.iter().enumerate() {
        let id = u8::try_from(n % 250 + 1).unwrap();
        let mut root = agent(id);
        root.name.clone_from(hostile);
        root.attributes.push(text("session.id", hostile));
        root.attributes[1] = text("agent.name", hostile);
        let call = with(tool(id, 2, hostile), "input.value", hostile);
        let call = with(call, "output.value", hostile);
        let named = with(tool(id, 3, "mail"), "input.value", &format!("{{\"to\": {hostile:?}}}"));
        let request = scoped(hostile, hostile, vec![root, call, named]);
        let request = opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest {
            resource_spans: vec![request],
        };
        let headers = [("content-type", PROTOBUF)];
        let answer = running.post("/v1/traces", &headers, request.encode_to_vec()).await;
        assert_eq!(answer.status(), 200, "{hostile:?}");
    }
    let all = 2 * corpus.len();
    // What has no end yet is being written.
    let lines = || std::fs::read_to_string(&path).map_or(0, |text| text.matches('\n').count());
    eventually(|| once(lines() >= all, || format!("{} of {all} are judged", lines()))).await;
    let text = std::fs::read_to_string(&path).unwrap();
    for line in text.lines() {
        assert_eq!(obeyed(line), None, "{}", line.escape_debug());
        let record: serde_json::Value = serde_json::from_str(line).expect("one record a line");
        assert_ne!(record["evaluation_id"], "forged");
    }
    let metrics = running.exposition();
    for line in metrics.lines() {
        assert_eq!(obeyed(line), None, "{}", line.escape_debug());
        assert!(!line.starts_with("spanscore_fake_total"), "{line}");
    }
}

/// A span with a hostile text in every field that a sender writes.
fn hostile_span(hostile: &str, trace: usize, id: u64) -> Json {
    let value = json!({"stringValue": hostile});
    let own = |key: &str, value: &Json| json!({"key": key, "value": value});
    let any = [
        own(hostile, &value),
        own("gen_ai.tool.name", &value),
        own("gen_ai.tool.call.id", &value),
        own("gen_ai.tool.call.arguments", &value),
        own("gen_ai.tool.call.result", &value),
        own("gen_ai.agent.name", &value),
        own("gen_ai.conversation.id", &value),
        own("gen_ai.input.messages", &value),
        own("gen_ai.output.messages", &value),
        own("gen_ai.tool.definitions", &value),
        own("error.type", &value),
        own("list", &json!({"arrayValue": {"values": [value]}})),
    ];
    let kind = if id == 1 { "invoke_agent" } else { "execute_tool" };
    let kind = own("gen_ai.operation.name", &json!({"stringValue": kind}));
    let attributes: Vec<_> = any.iter().chain([&kind]).collect();
    let trace_id = format!("{:032x}", trace + 1);
    json!({
        "traceId": trace_id, "spanId": format!("{id:016x}"),
        "parentSpanId": if id == 1 { String::new() } else { format!("{:016x}", 1) },
        "traceState": hostile, "name": hostile,
        "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000001000000000",
        "attributes": attributes,
        "events": [{"name": hostile, "timeUnixNano": "1790000000500000000", "attributes": any}],
        "links": [{"traceId": trace_id, "spanId": format!("{:016x}", 9), "traceState": hostile,
            "attributes": any}],
        "status": {"code": 2, "message": hostile},
    })
}

/// One request with every text of the corpus in every field.
fn hostile_request() -> String {
    let mut texts = corpus();
    // Long ones stand in some fifty places.
    texts.iter_mut().for_each(|text| text.truncate(text.floor_char_boundary(1_000)));
    request_of(&texts)
}

/// One request with each of these texts in every field.
fn request_of(texts: &[String]) -> String {
    let resources: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(n, text)| {
            let value = json!({"stringValue": text});
            let attributes = json!([{"key": "service.name", "value": value},
                {"key": "service.namespace", "value": value}, {"key": text, "value": value}]);
            json!({
                "resource": {"attributes": attributes}, "schemaUrl": text,
                "scopeSpans": [{
                    "scope": {"name": text, "version": text, "attributes": attributes},
                    "schemaUrl": text,
                    "spans": [hostile_span(text, n, 1), hostile_span(text, n, 2)],
                }],
            })
        })
        .collect();
    json!({ "resourceSpans": resources }).to_string()
}

#[track_caller]
fn assert_harmless(what: &str, text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap_or_else(|error| panic!("{what}: {error}"));
    for line in text.lines() {
        assert_eq!(obeyed(line), None, "{what}: {}", line.escape_debug());
        let forged = ["ERROR forged", "spanscore_fake_total", "=HYPERLINK"];
        assert!(!forged.iter().any(|start| line.starts_with(start)), "{what}: {line}");
    }
}

const EVALUATORS: &str = "
evaluators:
  tool_error:
  tool_efficiency:
  tool_loop:
  tool_call_args: {criteria: {tool_calls: [{name: mail, args: {to: nobody}}]}}
";

#[test]
fn every_report_shows_every_field_harmlessly() {
    assert_reports_harmless("t.json", hostile_request().as_bytes());
}

#[test]
fn every_report_shows_bytes_that_are_no_text_harmlessly() {
    // In protobuf any bytes may stand where a text should: an escape between what is no UTF-8, an
    // overlong form and half of a surrogate pair.
    const BYTES: &[u8; 12] = b"\xff\xfe\x1b[2J\xc3(\x00\xed\xa0\x80";
    const MARK: &str = "mark-of-text";
    let request = json::transcode(Signal::Traces, request_of(&[MARK.to_owned()]).as_bytes());
    let mut request = request.unwrap().to_vec();
    let places: Vec<_> = memchr::memmem::find_iter(&request, MARK).collect();
    assert!(places.len() >= 100, "{}", places.len());
    places.into_iter().for_each(|at| request[at..at + BYTES.len()].copy_from_slice(BYTES));
    assert_reports_harmless("t.pb", &request);
}

#[test]
fn every_report_shows_a_text_of_a_mebibyte_harmlessly() {
    let long = format!("{}\x1b[31m{}", "z".repeat(1 << 19), "\u{202e}".repeat(1 << 18));
    let (short, long) = (json!("mark-of-text"), json!(long));
    let request = request_of(&["mark-of-text".to_owned()]);
    // One of each kind: reports of all of them would take minutes.
    let request = ["name", "message", "stringValue"].iter().fold(request, |request, key| {
        request.replacen(&format!("\"{key}\":{short}"), &format!("\"{key}\":{long}"), 1)
    });
    assert!(request.len() > 3 << 20, "{}", request.len());
    assert_reports_harmless("t.json", request.as_bytes());
}

/// Scores a file of requests in every format of reports.
#[track_caller]
fn assert_reports_harmless(name: &str, content: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), content).unwrap();
    std::fs::write(folder.path().join("c.yaml"), EVALUATORS).unwrap();
    let mut ran = 0;
    for format in ["table", "jsonl", "junit", "github", "markdown", "summary"] {
        let score = ["score", "--config", "c.yaml", "--details", "--format", format, name];
        let out = Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .args(score)
            .current_dir(folder.path())
            .env("RUST_LOG", "trace")
            .output()
            .unwrap();
        assert!(out.stdout.len() > 100, "{format}: {}", String::from_utf8_lossy(&out.stderr));
        assert_harmless(format, &out.stdout);
        assert_harmless(format, &out.stderr);
        ran += 1;
    }
    assert_eq!(ran, 6);
}

#[tokio::test]
async fn console_and_logs_of_every_level_show_every_field_harmlessly() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let config = format!(
            "{EVALUATORS}
receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:0'}}}}}}}}
telemetry:
  metrics: {{endpoint: null}}
  health: {{endpoint: null}}
  logs: {{format: {format}}}
exporters: {{console: {{details: true}}, console/lines: {{format: jsonl}}}}
"
        );
        std::fs::write(folder.path().join("c.yaml"), config).unwrap();
        let mut serving = Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .args(["serve", "--config", "c.yaml"])
            .current_dir(folder.path())
            .env("RUST_LOG", "trace,h2=off,hyper=off")
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        let port = eventually(|| {
            let said = String::from_utf8(read("err")).unwrap();
            let started =
                said.lines().find(|line| line.contains("started") && line.contains("http"));
            let rest = started.and_then(|line| line.split("127.0.0.1:").nth(1)).map(str::to_owned);
            let port = rest.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
            port.filter(|port: &String| !port.is_empty()).ok_or("no port is told")
        })
        .await;
        let sent = crate::support::web_client().build().unwrap();
        let sent = sent.post(format!("http://127.0.0.1:{port}/v1/traces"));
        let sent = sent.header("content-type", "application/json").body(hostile_request());
        assert_eq!(sent.send().await.unwrap().status(), 200);
        let pid = serving.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(serving.wait().unwrap().success());
        let (out, err) = (read("out"), read("err"));
        assert!(out.len() > 10_000, "{format}: {}", String::from_utf8_lossy(&out));
        assert_harmless(&format!("{format} out"), &out);
        assert_harmless(&format!("{format} err"), &err);
        if format == "json" {
            let lines = String::from_utf8(err).unwrap();
            for line in lines.lines() {
                assert!(serde_json::from_str::<Json>(line).is_ok(), "not JSON: {line}");
            }
        }
    }
}
