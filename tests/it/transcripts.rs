//! Transcripts of other systems, judged like recorded spans.

use serde_json::Value as Json;

use crate::support::ran::run;

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/transcripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Reads a file: each trace in a line of agent, session and the words around its calls; below it
/// each call, with `!` where it failed.
fn check(name: &str, expected: &[&str]) {
    let ended = run(&["inspect", "--format", "jsonl", &fixture(name)]);
    assert_eq!(ended.code, 0, "{name}: {}", ended.err);
    let mut lines = Vec::new();
    for line in ended.out.lines() {
        let trace: Json = serde_json::from_str(line).expect("JSON");
        let word = |key: &str| trace[key].as_str().unwrap_or("-").to_owned();
        lines.push(format!(
            "{} {}: {} > {}",
            word("agent_name"),
            word("session_id"),
            word("user_input"),
            word("final_output")
        ));
        for call in trace["tool_calls"].as_array().expect("calls") {
            let mark = if call["failed"] == true { "!" } else { "" };
            lines.push(format!(
                "{mark}{} {} {} {}",
                call["id"], call["name"], call["arguments"], call["result"]
            ));
        }
    }
    assert_eq!(lines, expected, "{name}");
}

#[test]
fn lists_of_messages_are_runs() {
    check(
        "openai.json",
        &[
            "- -: A ferry to Moss and one to Horten, please. > Seat 12 to Moss; there is no ferry \
             to Horten today.",
            r#""c1" "book" {"to":"Moss"} {"seat":12}"#,
            r#"!"c2" "book" {"to":"Horten"} "Error: no ferry today""#,
        ],
    );
    check(
        "openai_lines.jsonl",
        &["- -: Weather in Bodø? > 4 degrees.", r#""c1" "weather" {"city":"Bodø"} "4 degrees""#],
    );
    check(
        "anthropic.jsonl",
        &[
            "- -: Close ticket 4. > There is no ticket 4.",
            r#"!"t1" "close" {"ticket":4} "no such ticket""#,
            "- -: Close ticket 5. > Done.",
            r#""t1" "close" {"ticket":5} "closed""#,
        ],
    );
    check(
        "responses.json",
        &["- -: Is bridge 7 open? > It is open.", r#""c1" "bridge_state" {"bridge":7} "open""#],
    );
}

#[test]
fn a_session_of_claude_code_is_a_run_for_each_prompt() {
    check(
        "claude_code.jsonl",
        &[
            "claude-code s-1: Set the port to 81. > The file changed meanwhile.",
            r#""t1" "Read" {"file_path":"/src/quay/port.toml"} "port = 80""#,
            r#""t9" "Grep" {"pattern":"port"} "port.toml:1""#,
            r#"!"t2" "Edit" {"old_string":"80","new_string":"81"} "File has changed since""#,
            "claude-code s-1: Thanks. > You are welcome.",
        ],
    );
}

#[test]
fn a_log_of_inspect_is_a_run_for_each_sample() {
    check(
        "inspect.json",
        &[
            "- -: How many berths are free? > Three are free.",
            r#""c1" "count" {"of":"berths"} 3"#,
            "- -: How many berths are free? > I could not count them.",
            r#"!"c1" "count" {"of":"berths"} "Command timed out before completing.""#,
        ],
    );
}
