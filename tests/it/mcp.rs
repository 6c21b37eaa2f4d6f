//! `spanscore mcp`: the protocol over standard input and output of the program.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use prost::Message;
use serde_json::{Value, json};

use crate::judges::{asking, refund};
use crate::support::fake_judge::FakeJudge;
use crate::support::program::Program;
use crate::support::ran::{program, run};
use crate::support::spans::{agent, request, tool, with};

const EXAMPLES: &str = "examples/traces";

/// An assistant's end of the conversation.
struct Assistant {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    count: u64,
}

impl Assistant {
    fn start(args: &[&str]) -> Self {
        let mut command = program(&[&["mcp"], args].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::of(command)
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let (to, from) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        Self { child, to, from: BufReader::new(from), count: 0 }
    }

    fn begun(args: &[&str], version: &str) -> (Self, Value) {
        let mut assistant = Self::start(args);
        let who = json!({"name": "test", "version": "1"});
        let own = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": who});
        let answer = assistant.ask("initialize", &own);
        assistant.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        (assistant, answer)
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.to.as_mut().expect("open"), "{message}").expect("it listens");
    }

    /// The whole answer to a request.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.count += 1;
        let id = self.count;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut line = String::new();
        self.from.read_line(&mut line).expect("it answers");
        let answer: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{line}");
        answer
    }

    /// Calls a tool, and returns its answer.
    fn call(&mut self, tool: &str, given: Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": given}));
        let result = &answer["result"];
        let text =
            result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        match result["isError"].as_bool() {
            Some(true) => Err(text),
            _ => {
                assert!(text.len() <= 64 << 10, "an answer of {} bytes", text.len());
                assert_eq!(result["structuredContent"].to_string(), text);
                Ok(result["structuredContent"].clone())
            }
        }
    }

    /// Leaves; the program ends by itself.
    fn leave(mut self) -> Option<i32> {
        drop(self.to.take());
        self.child.wait().expect("it ends").code()
    }
}

#[test]
fn every_version_of_the_protocol_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut assistant, begun) = Assistant::begun(&[EXAMPLES], version);
        assert_eq!(begun["result"]["protocolVersion"], version, "{begun}");
        assert_eq!(begun["result"]["serverInfo"]["name"], "spanscore");
        assert_eq!(assistant.ask("ping", &json!({}))["result"], json!({}));
        assert_eq!(assistant.call("summarize", json!({})).expect("a summary")["traces"], 2);
        assert_eq!(assistant.leave(), Some(0));
    }
    // Since 2026-07-28 there is no handshake: each request says who asks.
    let mut assistant = Assistant::start(&[EXAMPLES]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = assistant.ask("server/discover", &json!({"_meta": meta}));
    assert!(found["result"]["supportedVersions"].to_string().contains("2026-07-28"), "{found}");
    let given = json!({"_meta": meta, "name": "summarize", "arguments": {}});
    let told = assistant.ask("tools/call", &given);
    assert_eq!(told["result"]["structuredContent"]["traces"], 2, "{told}");
    assert_eq!(assistant.leave(), Some(0));
}

#[test]
fn an_assistant_finds_a_bad_run_and_reads_what_happened() {
    let (mut assistant, _) = Assistant::begun(&["--content", "full", EXAMPLES], "2025-06-18");
    let tools = assistant.ask("tools/list", &json!({}));
    let names: Vec<_> = tools["result"]["tools"].as_array().expect("tools").iter().collect();
    assert_eq!(names.len(), 4, "{tools}");
    assert!(names.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true), "{tools}");
    let query = json!({"outcome": "fail", "lowest_first": true, "limit": 1});
    let found = assistant.call("query_evaluations", query).expect("evaluations");
    let worst = &found["evaluations"][0];
    assert!(found["found"].as_u64() >= Some(1) && worst["label"] == "fail", "{found}");
    assert!(worst["explanation"].is_string(), "{found}");
    let read = json!({"trace_id": worst["trace_id"]});
    let run = assistant.call("get_trajectory", read.clone()).expect("a trajectory");
    assert!(run["tool_calls"][0]["arguments"].is_object(), "{run}");
    assert!(run["evaluations"].to_string().contains("fail"), "{run}");
    let uri = format!("spanscore://traces/{}", worst["trace_id"].as_str().expect("an id"));
    let resource = assistant.ask("resources/read", &json!({"uri": uri}));
    let text = resource["result"]["contents"][0]["text"].as_str().expect("a text");
    let whole: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(whole["tool_calls"], run["tool_calls"]);
    let listed = assistant.ask("resources/list", &json!({}));
    assert!(listed.to_string().contains(&uri), "{listed}");
    let kinds = assistant.call("list_evaluators", json!({"kind": "tool_error"})).expect("kinds");
    assert_eq!(kinds["kinds"][0]["kind"], "tool_error", "{kinds}");
}

#[test]
fn rows_are_found_by_their_fields_by_first_digits_and_by_text() {
    let (mut assistant, _) = Assistant::begun(&["--content", "full", EXAMPLES], "2025-06-18");
    let mut found = |query: Value| {
        let answer = assistant.call("query_evaluations", query).expect("evaluations");
        (answer["found"].as_u64().expect("a count"), answer["evaluations"][0].clone())
    };
    let (all, row) = found(json!({}));
    let head = |key: &str| row[key].as_str().expect(key)[..8].to_owned();
    let (of_trace, first) = found(json!({"trace_id": head("trace_id")}));
    assert!(of_trace > 0 && of_trace < all && first["trace_id"] == row["trace_id"], "{first}");
    for key in ["kind", "level", "service_name", "agent_name", "outcome", "label"] {
        let (count, first) = found(json!({key: row[key]}));
        assert!(count > 0 && first[key] == row[key], "{key}: {count}");
    }
    let (count, first) = found(json!({"evaluator_version": head("evaluator_version")}));
    assert!(count > 0 && first["evaluator"] == row["evaluator"], "{first}");
    let (count, first) = found(json!({"text": "REFUND"}));
    assert!(count > 0 && count < all, "{first}");
    assert_eq!(found(json!({"text": "no such words"})).0, 0);
}

#[test]
fn a_wrong_question_is_told_in_words_and_ends_nothing() {
    let (mut assistant, _) = Assistant::begun(&[EXAMPLES], "2025-06-18");
    for (tool, given, part) in [
        ("get_trajectory", json!({"trace_id": "12"}), "32 hexadecimal digits"),
        ("get_trajectory", json!({"trace_id": "1".repeat(32)}), "no trace 1111"),
        ("get_trajectory", json!({}), "missing field `trace_id`"),
        ("query_evaluations", json!({"outcome": "bad"}), "unknown variant `bad`"),
        ("query_evaluations", json!({"level": "traces"}), "unknown variant `traces`"),
        ("query_evaluations", json!({"level": "!trace"}), "unknown variant `!trace`"),
        ("query_evaluations", json!({"lmit": 1}), "unknown field `lmit`"),
        ("query_evaluations", json!({"cursor": "x"}), "`next_cursor`"),
        ("evaluate", json!({"trace_ids": ["1".repeat(32)]}), "--allow-evaluate"),
    ] {
        let told = assistant.call(tool, given).expect_err(tool);
        assert!(told.contains(part), "{told}");
    }
    let unknown = assistant.ask("tools/call", &json!({"name": "rm", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let missing = assistant.ask("resources/read", &json!({"uri": "file:///etc/passwd"}));
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
    assert!(assistant.call("summarize", json!({})).is_ok());
    assert_eq!(assistant.leave(), Some(0));
    let ended = run(&["mcp", "-"]);
    assert!(ended.code == 64 && ended.err.contains("standard input"), "{}", ended.err);
    assert_eq!(run(&["mcp", "--content", "ful", EXAMPLES]).code, 64);
}

/// A trace whose texts are secret, long and deep.
fn heavy(folder: &Path) -> String {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let long =
        format!(r#"{{"mail": "jane.roe@brightmail.org", "list": {}}}"#, json!(vec!["x"; 9_000]));
    let mut spans = vec![with(agent(5), "input.value", "mail jane.roe@brightmail.org")];
    for span in 2..90 {
        let call = with(tool(5, span, "find"), "input.value", &long);
        spans.push(with(call, "output.value", &deep));
    }
    let file = folder.join("heavy.pb");
    std::fs::write(&file, request(spans).encode_to_vec()).expect("written");
    file.to_str().expect("text").to_owned()
}

#[test]
fn answers_are_bounded_and_paged_and_show_as_much_content_as_they_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = heavy(folder.path());
    for (content, shows_mail, shows_lists) in
        [("none", false, false), ("redacted", false, true), ("full", true, true)]
    {
        let args = ["--content", content, &file];
        let (mut assistant, _) = Assistant::begun(&args, "2025-06-18");
        let (mut said, mut calls, mut cursor) = (String::new(), 0, Value::Null);
        loop {
            let given = json!({"trace_id": "05".repeat(16), "cursor": cursor});
            let page = assistant.call("get_trajectory", given).expect("a page");
            said.push_str(&page.to_string());
            calls += page["tool_calls"].as_array().expect("calls").len();
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(calls, 88, "{content}");
        said += &assistant.call("query_evaluations", json!({"limit": 100})).expect("").to_string();
        let uri = format!("spanscore://traces/{}", "05".repeat(16));
        let resource = assistant.ask("resources/read", &json!({"uri": uri})).to_string();
        assert!(resource.len() < 3 << 20, "{}", resource.len());
        said += &resource;
        assert_eq!(said.contains("jane.roe@"), shows_mail, "{content}");
        assert_eq!(said.contains("[EMAIL"), content == "redacted", "{content}");
        assert_eq!(said.contains("more]"), shows_lists, "{content}");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("c.yaml");
    std::fs::write(&config, "limits: {memory_mib: 32}\n").expect("written");
    let mut files = Vec::new();
    for number in 1..=16 {
        let mut spans = refund(number);
        let result = "word ".repeat(600_000);
        spans[1] = with(spans[1].clone(), "metadata", &result);
        spans[1].attributes.retain(|it| it.key != "output.value");
        spans[1] = with(spans[1].clone(), "output.value", &result);
        let file = folder.path().join(format!("{number:02}.pb"));
        std::fs::write(&file, request(spans).encode_to_vec()).expect("written");
        files.push(file);
    }
    let words = "need more memory than `limits.memory_mib`";
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    inspect.arg("inspect").arg("--config").arg(&config).args(&files);
    let done = inspect.env_remove("SPANSCORE_CONFIG").output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains(words), "{said}");
    let config = config.to_str().expect("text");
    let files = files.iter().map(|file| file.to_str().expect("text"));
    let args: Vec<&str> = ["--config", config].into_iter().chain(files).collect();
    let (mut assistant, _) = Assistant::begun(&args, "2025-06-18");
    let answer = format!("{:?}", assistant.call("summarize", json!({})));
    assert!(answer.contains(words), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judges_are_asked_only_where_that_is_allowed_and_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let judge = FakeJudge::saying("yes").await;
    let (config, traces) = (folder.path().join("c.yaml"), folder.path().join("t.pb"));
    let price = ", price: {input: 1, output: 1}";
    std::fs::write(&config, asking(&judge, "openai", price)).expect("written");
    std::fs::write(&traces, request(refund(7)).encode_to_vec()).expect("written");
    let asked = tokio::task::spawn_blocking(move || {
        let args = ["--config", config.to_str().expect("text"), traces.to_str().expect("text")];
        let given = json!({"trace_ids": ["7".repeat(32)]});
        let (mut assistant, _) = Assistant::begun(&args, "2025-06-18");
        let all = assistant.call("summarize", json!({})).expect("a summary");
        assert_eq!(all["all"]["not_asked"], 1, "{all}");
        assert!(assistant.call("evaluate", given).is_err());
        assert_eq!(assistant.leave(), Some(0));
        let allowed = [&["--allow-evaluate"], &args[..]].concat();
        let (mut assistant, _) = Assistant::begun(&allowed, "2025-06-18");
        let waiting = json!({"outcome": "not_asked"});
        let found = assistant.call("query_evaluations", waiting).expect("evaluations");
        let trace = found["evaluations"][0]["trace_id"].clone();
        let given = json!({"trace_ids": [trace]});
        let first = assistant.call("evaluate", given.clone()).expect("evaluations");
        assert_eq!((&first["asked"], &first["evaluations"][0]["score"]), (&json!(1), &json!(1.0)));
        assert!(first["cost_usd"].as_f64() > Some(0.0), "{first}");
        let second = assistant.call("evaluate", given).expect("evaluations");
        assert_eq!((&second["asked"], &second["evaluations"]), (&json!(0), &first["evaluations"]));
    });
    asked.await.expect("no panic");
    assert_eq!(judge.asked().len(), 1);
}

/// A collector writes its store while the assistant asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_of_a_running_collector_answers_the_same_questions() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let config = format!(
        "data_dir: {data:?}\nstore: {{content: full}}\ntraces: {{quiet_period: 100ms, \
         idle_timeout: 1s}}\nevaluators: {{tool_error/each: {{level: call}}, tool_efficiency: }}\n"
    );
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    let call = with(tool(10, 2, "search"), "input.value", r#"{"to": "jane@acme-post.net"}"#);
    client.export(request(vec![agent(10), call])).await.unwrap();
    let is_written =
        |page: &crate::support::sums::Page| page.sum("store_written_total", "evaluations") >= 2;
    program.page_when(is_written).await;
    let store = data.join("scores.db");
    let asked = tokio::task::spawn_blocking(move || {
        let (mut assistant, _) =
            Assistant::begun(&["--store", store.to_str().unwrap()], "2025-06-18");
        let summary = assistant.call("summarize", json!({})).expect("a summary");
        assert_eq!(summary["runs"]["count"], 1, "{summary}");
        let query = json!({"kind": "tool_error", "limit": 1});
        let found = assistant.call("query_evaluations", query).expect("evaluations");
        let row = &found["evaluations"][0];
        assert_eq!(row["evaluator"], "tool_error/each", "{found}");
        let short = row["trace_id"].as_str().expect("an id")[..8].to_owned();
        let run = assistant.call("get_trajectory", json!({"trace_id": short})).expect("a run");
        assert_eq!(run["tool_calls"][0]["tool"], "search", "{run}");
        assert!(!run.to_string().contains("jane@acme-post.net"), "redacted by default: {run}");
        let listed = assistant.call("list_evaluators", json!({})).expect("evaluators");
        assert!(listed.to_string().contains("tool_efficiency"), "{listed}");
        for (query, part) in [
            (json!({"outcome": "not_asked"}), "not_asked"),
            (json!({"level": "traces"}), "unknown variant `traces`"),
            (json!({"trace_id": "run 7"}), "hexadecimal"),
        ] {
            let error = assistant.call("query_evaluations", query).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        let resources = assistant.ask("resources/list", &json!({}));
        let uri = resources["result"]["resources"][0]["uri"].clone();
        let read = assistant.ask("resources/read", &json!({"uri": uri}));
        assert!(read.to_string().contains("search"), "{read}");
        assistant.leave()
    });
    assert_eq!(asked.await.unwrap(), Some(0));
}
