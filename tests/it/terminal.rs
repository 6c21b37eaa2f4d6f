//! Texts of strangers never reach a terminal as they are: every command that prints some.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use spanscore_base::visible::is_hidden;

/// Renames the window, clears the screen, turns red in two ways, reverses and hides text.
const HOSTILE: &str =
    "x\u{1b}]0;pwned\u{7}\u{1b}[31m\u{1b}[2J\r\n\u{9b}31m\u{202e}\u{2066}\u{200b}\u{2028}\u{7f}y";

/// Recorded agents, one for each way in which calls are found, hostile wherever text may stand.
fn recorded() -> String {
    let attributes = |entries: &[(&str, Json)]| {
        let entries = entries.iter().map(|(key, value)| json!({"key": key, "value": value}));
        entries.collect::<Vec<_>>()
    };
    let text = |text: &str| json!({"stringValue": text});
    let hostile = || text(HOSTILE);
    let kind = |kind: &str| ("openinference.span.kind", text(kind));
    let span = |id: u32, parent: Option<u32>, entries: Vec<(&str, Json)>| {
        let span_id = |id: u32| format!("{id:016x}");
        json!({
            "traceId": format!("{:032x}", 7), "spanId": span_id(id), "name": HOSTILE,
            "parentSpanId": parent.map(span_id).unwrap_or_default(),
            "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000001000000000",
            "attributes": attributes(&entries),
            "status": {"code": 2, "message": HOSTILE},
        })
    };
    let arguments = text(&json!({HOSTILE: HOSTILE}).to_string());
    let agent = vec![
        kind("AGENT"),
        ("agent.name", hostile()),
        ("session.id", hostile()),
        ("input.value", hostile()),
        ("output.value", hostile()),
    ];
    let tool = vec![
        kind("TOOL"),
        ("tool.name", hostile()),
        ("input.value", arguments.clone()),
        ("output.value", hostile()),
    ];
    let call = "llm.output_messages.0.message.tool_calls.0.tool_call";
    let (id, name) = (format!("{call}.id"), format!("{call}.function.name"));
    let model = vec![kind("LLM"), (&*id, hostile()), (&*name, hostile())];
    let spans = vec![span(1, None, agent), span(2, Some(1), tool), span(3, Some(1), model)];
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&[("service.name", hostile())])},
        "scopeSpans": [{"scope": {"name": "openinference.instrumentation.x"}, "spans": spans}],
    }]})
    .to_string()
}

/// Returns the output of a command, standard output and standard error.
fn printed(folder: &std::path::Path, args: &[&str]) -> (String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(args)
        .current_dir(folder)
        .env_remove("SPANSCORE_CONFIG")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(ran.stdout), text(ran.stderr))
}

#[track_caller]
fn assert_harmless(text: &str) {
    let hidden = text.chars().find(|char| *char != '\n' && is_hidden(*char));
    assert_eq!(hidden, None, "{text:?}");
    // A line break of a stranger would begin a line that looks like one of ours.
    assert!(!text.lines().any(|line| line.starts_with("\u{9b}") || line.starts_with("\\u{9b}")));
}

#[test]
fn recorded_traces_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.json"), recorded()).expect("a file");
    let custom = json!({"evaluators": {"contains/own": {
        "target": "tool_results", "criteria": {"search_text": HOSTILE},
    }, "output_rules": {}, "tool_error": {}, "tool_efficiency": {}}});
    std::fs::write(folder.path().join("c.json"), custom.to_string()).expect("a file");
    for (args, shown) in [
        (&["inspect", "t.json"][..], r"x\u{1b}]0;pwned\u{7}"),
        (&["inspect", "--explain", "t.json"], r"x\u{1b}]0;pwned\u{7}"),
        (&["inspect", "--format", "jsonl", "t.json"], r"\u202e\u2066\u200b\u2028\u007fy"),
        (&["inspect", "--sessions", "t.json"], r"x\u{1b}]0;pwned\u{7}"),
        (&["score", "t.json"], r"x\u{1b}]0;pwned\u{7}"),
        (&["score", "--config", "c.json", "t.json"], r"x\u{1b}]0;pwned\u{7}"),
        (&["score", "--format", "jsonl", "t.json"], r"\u202e\u2066\u200b\u2028\u007fy"),
    ] {
        let (out, err) = printed(folder.path(), args);
        assert!(out.contains(shown), "{args:?}: {out}{err}");
        assert_harmless(&out);
        assert_harmless(&err);
    }
}

#[test]
fn json_lines_read_back_as_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("t.json"), recorded()).expect("a file");
    let (inspected, _) = printed(folder.path(), &["inspect", "--format", "jsonl", "t.json"]);
    let trajectory: Json = serde_json::from_str(&inspected).expect("JSON");
    for key in ["service_name", "agent_name", "session_id", "user_input", "final_output"] {
        assert_eq!(trajectory[key], HOSTILE, "{key}");
    }
    assert_eq!(trajectory["tool_calls"][0]["arguments"], json!({HOSTILE: HOSTILE}));
    let (scored, _) = printed(folder.path(), &["score", "--format", "jsonl", "t.json"]);
    let record: Json = serde_json::from_str(scored.lines().next().expect("a line")).expect("JSON");
    assert_eq!(record["service_name"], HOSTILE);
}

#[test]
fn mistakes_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("a file");
    };
    write("plain.yaml", "evaluators:\n  \u{202e}tool\u{200b}: {}\u{1b}[2J\n");
    write("key.json", &json!({"evaluators": {HOSTILE: {}}, HOSTILE: 1}).to_string());
    write("names.json", &json!({"exporters": {format!("console/{HOSTILE}"): {}}}).to_string());
    write("bad.json", &format!("{{\"resourceSpans\": [{{\"{HOSTILE}\": tru}}]}}"));
    for args in [
        &["check", "--config", "plain.yaml"][..],
        &["check", "--config", "key.json"],
        &["check", "--config", "names.json"],
        &["check", "--print", "--config", "names.json"],
        &["inspect", "bad.json"],
        &["score", "bad.json", HOSTILE],
        &["send", "bad.json"],
    ] {
        let (out, err) = printed(folder.path(), args);
        assert!(!out.is_empty() || !err.is_empty(), "{args:?}");
        assert_harmless(&out);
        assert_harmless(&err);
    }
}

/// A collector that gives one answer, whatever is sent; its address.
fn answers(status: &str, content_type: &str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = BufReader::new(connection.expect("a connection"));
            let mut length = 0;
            loop {
                let mut line = String::new();
                connection.read_line(&mut line).expect("a header");
                let header = line.to_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if line == "\r\n" {
                    break;
                }
            }
            connection.read_exact(&mut vec![0; length]).expect("a body");
            connection.get_mut().write_all(answer.as_bytes()).expect("an answer");
        }
    });
    format!("http://{address}")
}

#[test]
fn answers_of_a_collector_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let partial =
        json!({"partialSuccess": {"rejectedSpans": "1", "errorMessage": HOSTILE}}).to_string();
    for (status, content_type, body) in [
        ("400 Bad Request", "text/plain", HOSTILE.to_owned()),
        ("400 Bad Request", "application/json", json!({"message": HOSTILE}).to_string()),
        ("200 OK", "application/json", partial),
    ] {
        let endpoint = answers(status, content_type, body);
        let (out, err) = printed(folder.path(), &["send", "--sample", "--endpoint", &endpoint]);
        assert!(err.contains(r"x\u{1b}]0;pwned\u{7}"), "{status}: {out}{err}");
        assert_harmless(&out);
        assert_harmless(&err);
    }
}
