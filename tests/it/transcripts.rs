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

/// Scores requests and transcripts by `argument_grounding`: the arguments without a source, of each
/// run in order.
fn check_sources(lines: &str, expected: &[&[&str]]) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    };
    let config = write("config.yaml", "evaluators: {argument_grounding: {}}");
    let runs = write("runs.jsonl", lines);
    let asked = ["score", "--format", "jsonl", "--fail-on", "never", "--config", &config, &runs];
    let ended = run(&asked);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let told = ended.out.lines().map(|line| {
        let record: Json = serde_json::from_str(line).expect("JSON");
        let ungrounded = record["details"]["ungrounded"].as_array().expect("scored").clone();
        ungrounded.iter().map(|it| it["argument"].as_str().unwrap_or("-").to_owned()).collect()
    });
    assert_eq!(told.collect::<Vec<Vec<String>>>(), expected, "{lines}");
}

#[test]
fn what_was_said_before_a_call_is_its_source() {
    let call = |arguments: &str| {
        let arguments = Json::from(arguments);
        format!(
            r#"{{"role": "assistant", "content": "Berth K93?", "tool_calls": [{{"id": "c1",
            "type": "function", "function": {{"name": "moor", "arguments": {arguments}}}}}]}},
            {{"role": "tool", "tool_call_id": "c1", "content": "done"}}"#
        )
        .replace('\n', " ")
    };
    let said = |role: &str, text: &str| format!(r#"{{"role": "{role}", "content": "{text}"}}"#);
    let run = |messages: &[String]| format!(r#"{{"messages": [{}]}}"#, messages.join(", "));
    let [hello, which] = [said("user", "Moor my boat"), said("assistant", "Which one? K93?")];
    let boat = call(r#"{"boat": "LM-4402"}"#);
    check_sources(
        &run(&[hello.clone(), which.clone(), said("user", "LM-4402"), boat.clone()]),
        &[&[]],
    );
    check_sources(&run(&[said("system", "Boats: LM-4402"), hello.clone(), boat.clone()]), &[&[]]);
    check_sources(&run(&[hello.clone(), boat, said("user", "LM-4402")]), &[&["boat"]]);
    check_sources(
        &run(&[hello, which, said("user", "Yes"), call(r#"{"berth": "K93"}"#)]),
        &[&["berth"]],
    );
}

#[test]
fn result_of_an_earlier_turn_in_the_history_is_a_source() {
    let history = r#"[{"role": "user", "parts": [{"type": "text", "content": "Which boats?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "boats",
        "arguments": {"harbour": "LM-77"}}]}, {"role": "tool", "parts": [{"type":
        "tool_call_response", "id": "c1", "response": {"boat": "LM-4402"}}]},
        {"role": "user", "parts": [{"type": "text", "content": "Moor it"}]}]"#;
    let attribute = |key: &str, value: &str| {
        format!(r#"{{"key": "{key}", "value": {{"stringValue": {}}}}}"#, Json::from(value))
    };
    let span = |id: u8, name: &str, attributes: &[String]| {
        let times = r#""startTimeUnixNano": "10", "endTimeUnixNano": "20""#;
        let parent = if id == 1 { "" } else { r#""parentSpanId": "0000000000000001","# };
        format!(
            r#"{{"traceId": "{:032}", "spanId": "{id:016}", {parent} "name": "{name}", {times},
            "attributes": [{}]}}"#,
            7,
            attributes.join(", ")
        )
    };
    let operation = |name: &str| attribute("gen_ai.operation.name", name);
    let spans = [
        span(1, "invoke_agent", &[operation("invoke_agent")]),
        span(2, "chat", &[operation("chat"), attribute("gen_ai.input.messages", history)]),
        span(
            3,
            "execute_tool moor",
            &[
                operation("execute_tool"),
                attribute("gen_ai.tool.name", "moor"),
                attribute("gen_ai.tool.call.arguments", r#"{"boat": "LM-4402", "at": "LM-77"}"#),
            ],
        ),
    ];
    let request = format!(
        r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#,
        spans.join(", ")
    );
    check_sources(&request.replace('\n', " "), &[&["at"]]);
}
