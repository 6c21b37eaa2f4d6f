//! The query interface of a real collector.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::program::Program;
use crate::support::spans::{agent, request, searches, tool, with};
use crate::support::web_client;

const CONFIG: &str = "
traces: {quiet_period: 100ms, idle_timeout: 1s}
evaluators: {tool_error/each: {level: call}, tool_efficiency: }
";
const TOKEN: &str = "0123456789abcdef";

/// Asks a path of the interface.
async fn ask(program: &Program, path: &str) -> Value {
    let interface = program.interface.as_deref().expect("an interface");
    let client = web_client().build().expect("a client");
    let asked = client.get(format!("{interface}{path}")).bearer_auth(TOKEN);
    let answer = asked.send().await.expect("it answers");
    serde_json::from_str(&answer.text().await.expect("a text")).expect("JSON")
}

#[tokio::test]
async fn what_is_sent_is_found_by_the_interface() {
    let folder = tempfile::tempdir().unwrap();
    // Detectors would take their time to be built.
    let dashboard = format!("dashboard: {{endpoint: \"127.0.0.1:0\", token: {TOKEN}}}");
    let config = format!("{CONFIG}{dashboard}\nstore: {{content: full}}\n");
    let program = Program::start(folder.path(), &config);
    let mut client = program.client().await;
    let call = with(tool(10, 2, "search"), "input.value", r#"{"to": "jane@acme-post.net"}"#);
    client.export(request(vec![agent(10), call])).await.unwrap();
    client.export(request(searches(11, &[2, 3]))).await.unwrap();
    let is_written = |page: &crate::support::sums::Page| {
        page.sum("store_written_total", "trajectories") == 2
            && page.sum("store_written_total", "evaluations") >= 5
    };
    program.page_when(is_written).await;
    let runs = ask(&program, "/traces").await;
    assert_eq!(runs["count"]["count"], 2, "{runs}");
    let run = ask(&program, "/traces/0a0a0a0a").await;
    assert_eq!(run["calls"][0]["tool"], "search", "{run}");
    assert!(run["evaluations"].as_array().unwrap().len() >= 2, "{run}");
    assert_eq!(run["calls"][0]["arguments"]["value"]["to"], "jane@acme-post.net", "{run}");
    let item = json!({"trace_id": "0a0a0a0a", "key": "k-1"});
    let made = change(&program, "/datasets/golden/items", &item).await;
    assert_eq!(made["criteria"]["tool_calls"][0]["name"], "search", "{made}");
    let verdict = json!({"trace_id": "0a0a0a0a", "label": "fail", "author": "ann"});
    change(&program, "/annotations", &verdict).await;
    let status = ask(&program, "/status").await;
    let store = status["store"]["path"].as_str().unwrap();
    let export = |rows: &[&str]| {
        let mut export = Command::new(env!("CARGO_BIN_EXE_spanscore"));
        let output = export.arg("export").args(rows).args(["--store", store]).output();
        serde_json::from_slice::<Value>(&output.expect("it runs").stdout).expect("one line")
    };
    assert_eq!(export(&["dataset", "--dataset", "golden"])["criteria"], made["criteria"]);
    assert_eq!(export(&["annotations"])["author"], "ann");
    assert_eq!(status["store"]["state"], "working", "{status}");
    let step = |name: &str| {
        let steps = status["steps"].as_array().unwrap();
        let step = steps.iter().find(|it| it["step"] == name);
        step.unwrap_or_else(|| panic!("no {name}"))["count"].as_u64().unwrap()
    };
    assert_eq!((step("requests"), step("traces"), step("stored")), (2, 2, 2), "{status}");
    assert_eq!((step("spans"), step("calls"), step("ignored_traces")), (5, 3, 0), "{status}");
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
}

#[tokio::test]
async fn a_command_makes_links_for_browsers_and_curl_takes_the_header_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let data = data_dir.display();
    let config = format!("{CONFIG}data_dir: {data}\ndashboard: {{endpoint: \"127.0.0.1:0\"}}\n");
    let program = Program::start(folder.path(), &config);
    let open = || {
        Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .args(["open", "--config"])
            .arg(folder.path().join("spanscore.yaml"))
            .output()
            .expect("it runs")
    };
    let interface = program.interface.clone().expect("an interface");
    let page = interface.strip_suffix("api/v1").unwrap();
    let opened = open();
    let link = String::from_utf8(opened.stdout).unwrap();
    let code = link.trim_end().strip_prefix(&format!("{page}#/login?")).expect("a link");
    let client = web_client().build().expect("a client");
    let log_in = async || {
        let login = client.post(format!("{page}login")).body(code.to_owned());
        let origin = page.trim_end_matches('/');
        login.header("origin", origin).send().await.expect("it answers").status().as_u16()
    };
    assert_eq!((log_in().await, log_in().await), (200, 401));
    let header = data_dir.join("dashboard/header");
    let status = format!("{interface}/status");
    let curl = |more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &status]).args(more);
        String::from_utf8(curl.output().expect("curl").stdout).unwrap()
    };
    assert_eq!(curl(&[]), "401");
    assert_eq!(curl(&["-H", &format!("@{}", header.display())]), "200");
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    let opened = open();
    let told = String::from_utf8_lossy(&opened.stderr);
    assert_eq!(opened.status.code(), Some(1), "{told}");
    assert!(told.contains("no running collector has left its address"), "{told}");
}

/// Sends a change to a path of the interface.
async fn change(program: &Program, path: &str, body: &Value) -> Value {
    let interface = program.interface.as_deref().expect("an interface");
    let client = web_client().build().expect("a client");
    let sent = client.post(format!("{interface}{path}")).bearer_auth(TOKEN);
    let sent = sent.header("content-type", "application/json").body(body.to_string());
    let answer = sent.send().await.expect("it answers");
    serde_json::from_str(&answer.text().await.expect("a text")).expect("JSON")
}

/// Takes the default port; `None` if another program has it for good.
async fn take_default_port() -> Option<TcpListener> {
    let started = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    loop {
        looks.tick().await;
        // Programs of other tests have it for seconds.
        match TcpListener::bind("127.0.0.1:8890") {
            Ok(taken) => return Some(taken),
            Err(_) if started.elapsed() > Duration::from_secs(20) => return None,
            Err(_) => {}
        }
    }
}

#[tokio::test]
async fn a_taken_port_ends_the_start_only_if_it_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let other = take_default_port().await;
    let mut program = Program::start(folder.path(), CONFIG);
    assert_eq!(program.interface, None);
    program.says("the store is not shown");
    assert_eq!(program.page().await.sum("dashboard_listening", ""), 0);
    program.signal("-TERM");
    assert_eq!(program.end().0, Some(0));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = format!(
        "dashboard: {{endpoint: \"{address}\"}}
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: \"127.0.0.1:0\"}}}}}}}}
telemetry: {{metrics: {{endpoint: null}}, health: {{endpoint: null}}}}"
    );
    let path = folder.path().join("chosen.yaml");
    std::fs::write(&path, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_spanscore"))
        .args(["serve", "--config"])
        .arg(path)
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("change `dashboard.endpoint`"), "{told}");
    drop(other);
}

#[test]
fn a_listener_beyond_loopback_without_tls_and_token_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let check = |config: &str, words: Option<&str>| {
        let path = folder.path().join("spanscore.yaml");
        std::fs::write(&path, config).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .args(["check", "--config"])
            .arg(&path)
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        let code = if words.is_some() { 78 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{config}: {told}");
        assert!(words.is_none_or(|words| told.contains(words)), "{config}: {told}");
    };
    let token = "token: 0123456789abcdef0123456789abcdef";
    check("dashboard: {endpoint: \"0.0.0.0:8890\"}", Some("has no token"));
    let bare = format!("dashboard: {{endpoint: \"0.0.0.0:8890\", {token}}}");
    check(&bare, Some("has no TLS"));
    check("dashboard: {endpoint: \"0.0.0.0:8890\", insecure: true}", Some("has no token"));
    let all = format!("dashboard: {{endpoint: \"0.0.0.0:8890\", insecure: true, {token}}}");
    check(&all, None);
    check("dashboard: {token: tiny-1}", Some("shorter than 16 bytes"));
    check("dashboard: {base_path: scores}", Some("write it as `/spanscore`"));
    check("dashboard: {endpont: \"127.0.0.1:1\"}", Some("did you mean `endpoint`?"));
    check("{store: false, dashboard: {token: 0123456789abcdef0123456789abcdef}}", Some("is off"));
    check("{store: false}", None);
    check("dashboard: false", None);
}
