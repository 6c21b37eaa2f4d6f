//! `run` and `record`: a collector around one command, and a file that holds what came.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::support::patience::{eventually_blocking, once};
use crate::support::ran::{ended, program, run};
use crate::support::web_client;

const PROGRAM: &str = env!("CARGO_BIN_EXE_spanscore");

fn script(text: &str) -> [&str; 6] {
    ["run", "--wait", "0.1", "--", "sh", text]
}

/// Runs a shell script under `run`; `$1` is the program itself.
#[track_caller]
fn check(options: &[&str], text: &str, code: i32, out: &str, err: &str) {
    let [command, wait, none, dashes, shell, _] = script(text);
    let start = [&[command, wait, none], options, &[dashes, shell, "-c", text, shell, PROGRAM]];
    let ended = run(&start.concat());
    assert_eq!(ended.code, code, "{text}: {}{}", ended.out, ended.err);
    assert!(
        ended.out.contains(out) && ended.err.contains(err),
        "{text}: {}{}",
        ended.out,
        ended.err
    );
}

#[test]
fn a_command_s_telemetry_is_judged_in_every_protocol() {
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        let sends = format!("OTEL_EXPORTER_OTLP_PROTOCOL={protocol} \"$1\" send --sample");
        check(&[], &sends, 2, "0.800  fail", "");
    }
    let all = "\"$1\" send --sample && OTEL_EXPORTER_OTLP_PROTOCOL=grpc \"$1\" send --sample";
    check(&["--format", "summary"], all, 2, "0.800  0.0 %      0     2", "");
    check(&["--fail-on", "never"], "\"$1\" send --sample", 0, "2 evaluations", "");
}

#[test]
fn the_command_s_own_code_goes_before_the_gate_s() {
    check(&[], "\"$1\" send --sample; exit 7", 7, "0.800  fail", "");
    check(&["--fail-on", "never"], "kill -KILL $$", 137, "", "");
    check(&[], "exit 0", 2, "nothing was judged", "sent no telemetry");
    check(&[], "exit 7", 7, "", "ended with code 7 before it sent any telemetry");
    let missing = run(&["run", "--", "no-such-command-at-all"]);
    assert_eq!(missing.code, 127, "{}", missing.err);
    assert!(missing.err.contains("cannot run `no-such-command-at-all`"), "{}", missing.err);
    assert_eq!(run(&["run", "--", "/"]).code, 126);
    assert_eq!(run(&["run"]).code, 64);
}

#[test]
fn an_unknown_option_is_no_command() {
    let mistyped = run(&["run", "--formatt", "junit", "--", "true"]);
    assert_eq!(mistyped.code, 64, "{}", mistyped.err);
    assert!(mistyped.err.contains("'--formatt'"), "{}", mistyped.err);
    assert!(mistyped.err.contains("did you mean `--format`?"), "{}", mistyped.err);
    // What stands behind the command is the command's own, and `--` ends the options.
    let own = run(&["run", "--wait", "0", "echo", "--formatt", "-x"]);
    assert!(own.out.contains("--formatt -x"), "{}{}", own.out, own.err);
    let dashed = run(&["run", "--", "--formatt"]);
    assert!(dashed.code == 127 && dashed.err.contains("cannot run `--formatt`"), "{}", dashed.err);
}

#[test]
fn what_is_found_is_told_beside_the_scores() {
    let text = "\"$1\" send --sample";
    check(&["--explain", "--format", "jsonl"], text, 2, "\"score\":0.8", "issue_refund");
    let quiet = run(&["run", "--wait", "0.1", "--", "sh", "-c", text, "sh", PROGRAM]);
    assert!(!quiet.err.contains("issue_refund"), "{}", quiet.err);
}

#[test]
fn a_mistake_is_told_before_the_command_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("ran");
    let touch = ["--", "touch", mark.to_str().expect("text")];
    for (options, code) in [
        (&["--set", "evaluators.tool_eror={}"][..], 78),
        (&["--baseline", "no-such-file.jsonl"], 1),
        (&["--wait", "-1"], 64),
    ] {
        let ended = run(&[&["run"], options, &touch].concat());
        assert_eq!(ended.code, code, "{options:?}: {}", ended.err);
        assert!(!mark.exists(), "{options:?}");
    }
}

#[test]
fn what_the_user_has_set_for_other_backends_does_not_lead_spans_away() {
    let mut command = program(&["run", "--wait", "0.1", "--", "env"]);
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://192.0.2.1:1/v1/traces");
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").env("OTEL_TRACES_EXPORTER", "console");
    let out = ended(command).out;
    assert!(out.contains("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"), "{out}");
    assert!(!out.contains("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), "{out}");
    assert!(out.contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc"), "{out}");
    assert!(out.contains("OTEL_TRACES_EXPORTER=console,otlp"), "{out}");
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args([name, &id]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn signals_reach_the_command_and_its_spans_are_judged() {
    let text =
        r#"trap '"$1" send --sample; exit 9' TERM; echo ready; while :; do sleep 0.05; done"#;
    let mut child = program(&["run", "--wait", "0.1", "--", "sh", "-c", text, "sh", PROGRAM])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("output")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    signal(&child, "-TERM");
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(9), "{said:?}");
    assert!(said.iter().any(|line| line.contains("0.800  fail")), "{said:?}");
}

/// Records what `sends` sends, and gives what was said.
fn recorded(file: &Path, options: &[&str], sends: &[&str]) -> Vec<String> {
    let file = file.to_str().expect("text");
    let ports = [
        "--set",
        "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
        "--set",
        "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
    ];
    let mut child = program(&[&["record", file], options, &ports].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let line = said.next().expect("a line").expect("text");
    let (_, rest) = line.split_once('=').expect("an address");
    let endpoint = rest.split_whitespace().next().expect("an address").to_owned();
    let more: Vec<String> = said.by_ref().take(2).map(|line| line.expect("text")).collect();
    assert!(more.last().is_some_and(|line| line.contains("recording to")), "{more:?}");
    let sent = run(&[&["send", "--endpoint", &endpoint], sends].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    signal(&child, "-INT");
    let out = child.stdout.take().expect("output");
    let shown = BufReader::new(out).lines().map_while(Result::ok);
    let all = shown.chain(said.map_while(Result::ok)).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    all
}

#[test]
fn a_recording_reads_as_what_was_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kept.jsonl");
    let source = "examples/traces/refund_agent.json";
    let said = recorded(&file, &["--explain"], &[source]);
    assert!(said.iter().any(|line| line.contains("issue_refund")), "{said:?}");
    assert!(
        said.last().is_some_and(|line| line.starts_with("1 requests with 6 items")),
        "{said:?}"
    );
    let kept = file.to_str().expect("text");
    let scores = |file: &str| {
        let out = run(&["score", "--format", "jsonl", file]).out;
        let ids = out.lines().map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
            (record["evaluation_id"].to_string(), record["score"].to_string())
        });
        ids.collect::<Vec<_>>()
    };
    assert_eq!(scores(kept), scores(source));
    let again = folder.path().join("again.jsonl");
    recorded(&again, &[], &[kept]);
    assert_eq!(std::fs::read(&again).expect("a file"), std::fs::read(&file).expect("a file"));
}

/// Answers every connection with these bytes.
fn answering(answer: &'static [u8]) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            // All that comes is read, or the answer would go with a reset.
            let mut buffer = [0; 65_536];
            let wait = |millis| Some(std::time::Duration::from_millis(millis));
            let _ = stream.set_read_timeout(wait(5000));
            let _ = stream.read(&mut buffer);
            let _ = stream.set_read_timeout(wait(300));
            while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
            let _ = stream.write_all(answer);
        }
    });
    format!("http://{address}")
}

#[test]
fn a_wrong_address_says_what_to_do() {
    let check = |args: &[&str], said: &[&str]| {
        let ended = run(&[&["send", "--sample"], args].concat());
        assert_eq!(ended.code, 1, "{args:?}: {}", ended.err);
        for said in said {
            assert!(ended.err.contains(said), "{args:?}: {}", ended.err);
        }
    };
    check(
        &["--endpoint", "localhost:4318"],
        &["has no `http://`", "write `http://localhost:4318`"],
    );
    check(&["--endpoint", "http://b/v1/traces"], &["ends in /v1/traces", "write `http://b`"]);
    let web = answering(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 6\r\n\r\n<html>");
    let place = format!("HTTP 405 (POST {web}/v1/traces); no OTLP/HTTP receiver is at this");
    check(&["--endpoint", &web], &[&place, "4318"]);
    check(
        &["--endpoint", &web, "--protocol", "grpc"],
        &["does not seem to speak OTLP/gRPC", "4317"],
    );
}

#[test]
fn a_folder_that_is_missing_is_told_by_check_and_not_by_score() {
    let path = ["--set", "exporters={file: {path: /no/such/folder/x.jsonl}}"];
    let checked = run(&[&["check"], &path[..]].concat());
    assert_eq!(checked.code, 78, "{}", checked.err);
    assert!(checked.err.contains("the folder /no/such/folder does not exist"), "{}", checked.err);
    let score = ["score", "--fail-on", "never", "examples/traces"];
    assert_eq!(run(&[&score[..], &path].concat()).code, 0);
}

#[test]
fn files_and_keys_that_serve_could_not_use_are_told_by_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = run(&["certs", folder.path().join("certs").to_str().expect("text")]);
    assert_eq!(made.code, 0, "{}", made.err);
    let path = folder.path().join("c.yaml");
    let check = |config: &str, told: &str| {
        let text = config.replace("DIR", folder.path().join("certs").to_str().expect("text"));
        std::fs::write(&path, text).expect("written");
        let mut command = program(&["check", path.to_str().expect("text")]);
        command.env("BLANK_KEY", " ");
        let checked = ended(command);
        // What is not here may be where the config runs: it is told, and no mistake.
        let is_unset = told.ends_with("is not set");
        let is_missing = is_unset || told.starts_with("cannot read");
        let code = if told.is_empty() || is_missing { 0 } else { 78 };
        assert_eq!(checked.code, code, "{config}: {}", checked.err);
        assert_eq!(
            checked.err.contains("would not start"),
            is_missing,
            "{config}: {}",
            checked.err
        );
        let is_placed = told.is_empty() || is_unset || checked.err.contains("c.yaml:2:");
        assert!(is_placed && checked.err.contains(told), "{config}: {}", checked.err);
    };
    let listener = |tls: (&str, &str)| {
        let port = "receivers: {otlp: {protocols: {http: {endpoint: '127.0.0.1:0',";
        check(&format!("{port}\n  tls: {{{}}}}}}}}}}}", tls.0), tls.1);
    };
    let pair = "cert_file: DIR/server.pem, key_file: DIR/server.key";
    listener((pair, ""));
    listener((&format!("{pair}, client_ca_file: DIR/x"), "cannot read `"));
    listener(("cert_file: DIR/server.pem, key_file: DIR/client.key", "do not match"));
    let exporter = |settings: &str, file: &str, told: &str| {
        check(&format!("exporters: {{{settings}\n tls: {{{file}}}}}}}"), told);
    };
    let https = "otlp_http/b: {endpoint: 'https://b:4318',";
    exporter(https, "ca_file: DIR/x", "cannot read `");
    exporter(https, "ca_file: DIR/server.key", "holds no certificate");
    exporter("otlp_http/b: {endpoint: 'http://b:4318',", "ca_file: DIR/server.key", "");
    exporter("otlp/b: {endpoint: 'b:4317',", "ca_file: DIR/server.key", "holds no certificate");
    exporter("otlp/b: {endpoint: 'b:4317',", "insecure: true, ca_file: DIR/x", "");
    exporter("kafka: {brokers: ['b:9092'],", "ca_file: DIR", "");
    exporter("kafka: {brokers: ['b:9092'],", "ca_file: DIR/x", "cannot read `");
    let tokens = |file: &str, told: &str| {
        let port = "receivers: {otlp: {protocols: {http: }, auth: {clients: {shop:";
        check(&format!("{port}\n  {{file: DIR/{file}}}}}}}}}}}"), told);
    };
    tokens("x", "cannot read `");
    tokens("server.pem", "no bearer token");
    let judge = |sign_in: &str, told: &str| {
        check(&format!("judges: {{a: {{api: openai, model: m,\n {sign_in}}}}}"), told);
    };
    judge("api_key_env: PATH", "");
    judge("api_key_env: NO_SUCH_KEY", "NO_SUCH_KEY, which `api_key_env` names, is not set");
    judge("api_key_env: BLANK_KEY", "BLANK_KEY, which `api_key_env` names, is not set");
    let access = "AWS_ACCESS_KEY_ID, which `aws` signs with, is not set";
    judge("aws: {region: eu-central-1}", access);
}

#[test]
fn mistakes_of_the_first_hour_name_their_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let check = |args: &[&str], code: i32, said: &str| {
        let ended = run(args);
        assert!(ended.code == code && ended.err.contains(said), "{args:?}: {}", ended.err);
    };
    let recording = "examples/traces/refund_agent.json";
    let config = write("a.yaml", "evaluators: {tool_error: {threshold: 80%}}");
    check(&["check", &config], 78, "write 0.8 for 80%");
    check(&["check", "examples/refunds.yaml", "--config", &config], 64, "cannot be used with");
    check(&["check", &write("b.yaml", "tool_error: {}")], 78, "below `evaluators:`");
    check(&["check", &write("c.yaml", "evaluators:\n\ttool_error:")], 78, "indent with spaces");
    check(&["score", "--config", recording, recording], 78, "name it without `--config`");
    check(&["score", "--baseline", recording, recording], 1, "not a record of");
    let scores = folder.path().join("scores.jsonl");
    let scores = scores.to_str().expect("text");
    run(&["score", "--format", "jsonl", "-o", scores, recording]);
    check(&["score", "--fail-on", "never", scores], 1, "and no recording: `--baseline` reads it");
    let nobody = ["send", "--sample", "--endpoint", "http://127.0.0.1:1"];
    check(&nobody, 1, "nothing listens there: start `spanscore`");
}

/// Browser of the test: it copies the file that it is to open, and leaves no more.
fn browser(folder: &Path) -> String {
    let path = folder.join("browser");
    let script = "#!/bin/sh\ncp \"$1\" \"$0.part\" && mv \"$0.part\" \"$0.opened\"\n";
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("rights");
    path.to_str().expect("text").to_owned()
}

/// The pages show what was judged, to the browser that the link lets in, until a signal.
#[tokio::test]
async fn the_pages_of_a_command_are_open_until_a_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let browser = browser(folder.path());
    let text = "\"$1\" send --sample";
    let mut child =
        program(&["run", "--open", "--wait", "0.1", "--", "sh", "-c", text, "sh", PROGRAM])
            .env("BROWSER", &browser)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let mut said = said.map_while(Result::ok);
    let pages = said.find_map(|line| Some(line.strip_prefix("pages: ")?.to_owned()));
    let pages = pages.expect("the place of the pages");
    assert!(pages.ends_with(" (Ctrl-C ends them)") && !pages.contains("code="), "{pages}");
    let base = pages.split(' ').next().expect("an address");
    let opened = folder.path().join("browser.opened");
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
    while !opened.exists() {
        looks.tick().await;
    }
    let page = std::fs::read_to_string(&opened).expect("the page that leads there");
    let code = page.split("#/login?").nth(1).and_then(|rest| rest.split('"').next());
    let client = web_client().redirect(reqwest::redirect::Policy::none());
    let client = client.build().expect("a client");
    let login = client.post(format!("{base}login")).body(code.expect("a code").to_owned());
    let login =
        login.header("origin", base.trim_end_matches('/')).send().await.expect("it answers");
    let cookie = login.headers()["set-cookie"].to_str().expect("text").to_owned();
    let cookie = cookie.split(';').next().expect("a cookie").to_owned();
    let runs = client.get(format!("{base}api/v1/traces")).header("cookie", cookie);
    let runs = runs.send().await.expect("it answers").text().await.expect("text");
    let runs: serde_json::Value = serde_json::from_str(&runs).expect("JSON");
    assert_eq!(runs["count"]["count"], 1, "{runs}");
    assert_eq!(runs["items"][0]["calls"], 5, "{runs}");
    assert_eq!(runs["items"][0]["failed"], 2, "{runs}");
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
    let mut out = String::new();
    child.stdout.take().expect("output").read_to_string(&mut out).expect("text");
    assert!(out.contains("0.800  fail"), "{out}");
}

/// Counts what a folder holds, but for empty folders: that of the user's links stays.
fn left(folder: &Path) -> usize {
    let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|it| it.read_dir().map_or(true, |mut inner| inner.next().is_some())).count()
}

/// An evaluator outside of the program holds the judging up.
#[test]
fn a_signal_while_runs_are_judged_leaves_no_temporary_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let [temporary, asked] = ["tmp", "asked"].map(|name| folder.path().join(name));
    std::fs::create_dir(&temporary).expect("a folder");
    let command = format!("touch {asked:?}; exec sleep 600");
    let slow = format!("evaluators.agentevals/slow={{command: [sh, -c, {command:?}]}}");
    for (signal_name, code) in [("-TERM", 143), ("-INT", 130)] {
        let _ = std::fs::remove_file(&asked);
        let mut child = program(&["score", "--open", "--set", &slow])
            .arg("examples/traces/refund_agent.json")
            .env("TMPDIR", &temporary)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        eventually_blocking(|| once(asked.exists(), || "no evaluator was asked"));
        assert!(left(&temporary) > 0);
        signal(&child, signal_name);
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        assert_eq!(left(&temporary), 0, "{signal_name}");
    }
}

#[test]
fn without_a_store_or_a_run_no_page_opens() {
    let off = ["--open", "--set", "store=false"];
    check(&off, "true", 64, "", "which the config turns off");
    check(&["--open"], "true", 2, "", "there is nothing to open");
}
