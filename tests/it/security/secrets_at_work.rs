//! Secrets that are planted in a config and on the command line, and everything that the program
//! prints while it works at its most talkative: backends that are away, refuse, and echo.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use axum::http::{HeaderMap, Response, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::net::TcpListener;

use crate::support::patience::{eventually, once};
use crate::support::web_client;

/// Beginning of all planted secrets.
const PLANTED: &str = "pl4nt-";
/// Users of addresses, which leave as `Basic` in base64.
const USERS: [&str; 3] = ["bob:pl4nt-refused", "bob:pl4nt-busy", "bob:pl4nt-forward"];

/// A backend that answers with the headers that it got.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Refuses `/busy` and `/describe` for now, all else for good.
async fn answer(uri: Uri, headers: HeaderMap) -> Response<String> {
    let lines = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    let echo = format!("echo of {}", lines.collect::<Vec<_>>().join(" "));
    let answer = Response::builder();
    if headers.get("content-type").is_some_and(|kind| kind == "application/grpc") {
        let answer = answer.header("content-type", "application/grpc");
        let answer = answer.header("grpc-status", "3").header("grpc-message", echo);
        return answer.body(String::new()).unwrap();
    }
    let is_busy = uri.path().starts_with("/busy") || uri.path() == "/describe";
    let status = if is_busy { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::BAD_REQUEST };
    answer.status(status).body(echo).unwrap()
}

/// A config whose every backend is at an address; those that are away are at port 9.
fn config(echo: SocketAddr) -> String {
    format!(
        r#"
receivers:
  otlp:
    protocols: {{grpc: {{endpoint: "127.0.0.1:0"}}, http: {{endpoint: "127.0.0.1:0"}}}}
    auth: {{clients: {{a: {{token: pl4nt-token}}}}}}
traces: {{quiet_period: 50ms}}
judges:
  j: {{api: openai, model: m, base_url: "http://bob:pl4nt-judge@{echo}", api_key_env: PLANTED_KEY}}
evaluators:
  tool_error:
  rubric: {{preset: safe_actions, judge: j}}
  http/e: {{endpoint: "http://bob:pl4nt-http@{echo}", headers: {{x-key: pl4nt-http-key}}}}
  grpc/e: {{endpoint: "http://{echo}", headers: {{x-key: pl4nt-grpc-key}}}}
exporters:
  otlp_http/refused:
    endpoint: "http://bob:pl4nt-refused@{echo}"
    headers: {{x-key: pl4nt-key-1}}
  otlp_http/busy:
    endpoint: "http://bob:pl4nt-busy@{echo}/busy"
    headers: {{x-key: pl4nt-key-2}}
  otlp_grpc/refused: {{endpoint: "http://{echo}", headers: {{authorization: Bearer pl4nt-key-3}}}}
  otlp_http/away: {{endpoint: "http://bob:pl4nt-away@127.0.0.1:9", headers: {{x: pl4nt-key-4}}}}
  otlp_grpc/away: {{endpoint: "http://bob:pl4nt-gone@127.0.0.1:9", headers: {{x: pl4nt-key-5}}}}
  console: {{details: true}}
  langfuse: {{endpoint: "http://{echo}", public_key: pk, secret_key: pl4nt-langfuse}}
forward:
  otlp_http/f: {{endpoint: "http://bob:pl4nt-forward@{echo}", headers: {{x: pl4nt-key-6}}}}
telemetry:
  metrics:
    endpoint: "127.0.0.1:0"
    otlp:
      endpoint: "http://bob:pl4nt-push@127.0.0.1:9"
      interval: 100ms
      headers: {{x: pl4nt-key-7}}
  traces:
    otlp: {{endpoint: "http://bob:pl4nt-spans@127.0.0.1:9", interval: 100ms}}
  health: {{endpoint: null}}
shutdown_timeout: 500ms
"#
    )
}

/// The program, killed if the test fails.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn program(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanscore"));
    command
        .args(args)
        .current_dir(folder)
        .env_remove("SPANSCORE_CONFIG")
        .env("PLANTED_KEY", "pl4nt-judge-key")
        .env("RUST_BACKTRACE", "1")
        .env("RUST_LOG", "trace")
        .stdin(Stdio::null());
    command
}

/// Returns the text of a file, once it holds all of these.
async fn said(path: &Path, parts: &[&str]) -> String {
    eventually(|| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        match parts.iter().find(|part| !text.contains(**part)) {
            Some(missing) => Err(format!("never says {missing:?}:\n{text}")),
            None => Ok(text),
        }
    })
    .await
}

/// The port that follows a word of the first line that the program writes.
fn port(text: &str, word: &str) -> String {
    let (_, rest) = text.split_once(&format!("{word}127.0.0.1:")).expect(word);
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let lines = |part: &str| -> Vec<_> { text.lines().filter(|it| it.contains(part)).collect() };
    assert_eq!(lines(PLANTED), [""; 0], "{what}");
    for user in USERS {
        let encoded = STANDARD.encode(user);
        assert_eq!(lines(&encoded), [""; 0], "{what}: {user} in base64");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_at_work_shows_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    let own = config(echo().await);
    std::fs::write(&path, &own).unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let mut command = program(folder.path(), &["serve", "--config", "c.yaml"]);
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut serving = Serving(command.spawn().unwrap());
    let started = said(&err, &["try it:"]).await;
    let url = format!("http://127.0.0.1:{}", port(&started, "http="));
    let post = web_client().build().unwrap().post(format!("{url}/v1/traces"));
    let post = post.header("content-type", "application/x-protobuf").bearer_auth("pl4nt-wrong");
    assert_eq!(post.send().await.unwrap().status(), 401);
    let header = "authorization=Bearer pl4nt-token";
    let mut send = program(folder.path(), &["send", "--sample", "--header", header]);
    send.args(["--endpoint", &url]);
    assert!(send.output().unwrap().status.success());
    let told = [
        "gave up exporter=otlp_http/refused",
        "gave up exporter=otlp_grpc/refused",
        "gave up exporter=langfuse",
        "gave up forward=otlp_http/f",
        "trying again exporter=otlp_http/busy",
        "trying again exporter=otlp_http/away",
        "trying again exporter=otlp_grpc/away",
        "failed to report our own metrics endpoint=http://[REDACTED]@127.0.0.1:9",
        "x-key: [REDACTED]",
        "Basic [REDACTED]",
    ];
    said(&err, &told).await;
    let metrics = format!("http://127.0.0.1:{}/metrics", port(&started, "metrics="));
    let page = web_client().build().unwrap().get(metrics).send().await.unwrap();
    assert_clean("the metrics page", &page.text().await.unwrap());
    let pid = serving.0.id().to_string();
    let signal = |name: &str| Command::new("kill").args([name, &pid]).status().unwrap();
    for (round, (from, to)) in
        [("token: pl4nt-token", "tokn: pl4nt-token"), ("http://bob:pl4nt-away", "bob:pl4nt-away")]
            .into_iter()
            .enumerate()
    {
        std::fs::write(&path, own.replace(from, to)).unwrap();
        signal("-HUP");
        let told = |text: String| text.matches("the config has a mistake").count();
        eventually(|| {
            let text = std::fs::read_to_string(&err).unwrap();
            once(told(text) > round, || "the mistake is not told")
        })
        .await;
    }
    signal("-TERM");
    serving.0.wait().unwrap();
    for path in [out, err] {
        assert_clean("serve", &String::from_utf8_lossy(&std::fs::read(path).unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_shows_those_of_its_arguments_or_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let address = echo().await;
    std::fs::write(folder.path().join("c.yaml"), config(address)).unwrap();
    let at = |user: &str, host: &str| format!("http://bob:{user}@{host}");
    let away = at("pl4nt-away", "127.0.0.1:9");
    let (refused, grpc) = (at("pl4nt-refused", &address.to_string()), address.to_string());
    let header = "authorization=Bearer pl4nt-key";
    for (args, expected) in [
        (&["send", "--sample", "--endpoint", &away, "--header", header][..], "[REDACTED]@127"),
        (&["send", "--sample", "--endpoint", &refused, "--header", "x=pl4nt-key"], "x: [REDACTED]"),
        (
            &[
                "send",
                "--sample",
                "--protocol",
                "grpc",
                "--endpoint",
                &format!("http://{grpc}"),
                "--header",
                header,
            ],
            "echo of",
        ),
        (&["send", "--sample", "--header", "pl4nt-key"], "--header name=value"),
        (&["send", "--sample", "--endpoint", "bob:pl4nt-key@h:4318"], "[REDACTED]@h"),
        (&["send", "--help"], "Usage"),
        (&["run", "--config", "c.yaml", "--", "true"], ""),
        (&["score", "--config", "c.yaml", "none.json"], "none.json"),
    ] {
        let mut command = program(folder.path(), args);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &away);
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x=pl4nt-env");
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = [ran.stdout, ran.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(expected), "{args:?}: {text}");
        assert_clean(&args.join(" "), &text);
    }
}
