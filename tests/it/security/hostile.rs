//! Texts of strangers that would harm whoever shows them, in every field that is shown.

use std::time::Duration;

use prost::Message;

use crate::support::collector::{PROTOBUF, Running};
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
    texts
}

/// Whether a line holds what a terminal would obey.
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
    assert!(corpus.len() >= 150, "{}", corpus.len());
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
    let wait = async {
        let lines = || std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        while lines() < all {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("all are judged");
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
