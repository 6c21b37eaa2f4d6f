//! The program itself as a collector, for what only a process shows: signals and exit codes.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::transport::Channel;

/// The program, killed if the test fails.
pub(crate) struct Program {
    child: Child,
    /// What it said before it listened.
    early: Vec<String>,
    said: Lines<BufReader<ChildStderr>>,
    grpc: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

impl Program {
    /// Starts it on free ports and waits until it listens. `config` is added to that.
    pub(crate) fn start(folder: &Path, config: &str) -> Self {
        let path = folder.join("spanscore.yaml");
        let base = r#"
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
telemetry: {metrics: {endpoint: null}, health: {endpoint: null}}
"#;
        std::fs::write(&path, [base, config].concat()).expect("a config");
        let mut child = Command::new(env!("CARGO_BIN_EXE_spanscore"))
            .arg("serve")
            .arg("--config")
            .arg(path)
            .env_remove("SPANSCORE_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut said = BufReader::new(child.stderr.take().expect("standard error")).lines();
        let mut line = || said.next().expect("it says where it listens").expect("a line");
        let (mut early, mut agents) = (Vec::new(), line());
        while !agents.starts_with("agents:") {
            early.push(std::mem::replace(&mut agents, line()));
        }
        // The other two lines of its greeting.
        line();
        line();
        let (_, address) = agents.split_once('=').expect("an address");
        let grpc = address.split_whitespace().next().unwrap_or_default().to_owned();
        Self { child, early, said, grpc }
    }

    /// A client of its gRPC port.
    pub(crate) async fn client(&self) -> TraceServiceClient<Channel> {
        TraceServiceClient::connect(self.grpc.clone()).await.expect("it listens")
    }

    /// Sends a signal, such as `-TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
    }

    /// Waits for a line on standard error that holds this.
    pub(crate) fn says(&mut self, part: &str) {
        let found = self.early.iter().any(|line| line.contains(part))
            || self.said.by_ref().map_while(Result::ok).any(|line| line.contains(part));
        assert!(found, "it never says {part:?}");
    }

    /// Closes the reading end of its standard error.
    pub(crate) fn close_stderr(&mut self) {
        let mut other = Command::new("true").stderr(Stdio::piped()).spawn().expect("true");
        let stderr = other.stderr.take().expect("standard error");
        self.said = BufReader::new(stderr).lines();
        let _ = other.wait();
    }

    /// Waits for its end: the exit code and the last line on standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let last = self.said.by_ref().map_while(Result::ok).last().unwrap_or_default();
        (self.child.wait().expect("it ends").code(), last)
    }
}
