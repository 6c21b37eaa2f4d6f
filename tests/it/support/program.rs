//! The program itself as a collector, for what only a process shows: signals and exit codes.

use std::io::{BufRead, BufReader, Lines};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::transport::Channel;

use super::patience::{PATIENCE, eventually_blocking};
use super::sums::Page;
use super::web_client;

/// The program, killed if the test fails.
pub(crate) struct Program {
    child: Child,
    /// Lines read of its standard error that nobody has waited for yet, in order.
    early: Vec<String>,
    /// Rest of them, from a socket, since a read of one ends: a line that never comes fails a test.
    said: Lines<BufReader<UnixStream>>,
    grpc: String,
    /// Address of its metrics page.
    metrics: String,
    /// Address of its query interface.
    pub(crate) interface: Option<String>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // Until it is gone it has its files: whoever starts next would find them taken.
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts it on free ports and waits until it listens. `config` is added to that; one that
    /// begins with `receivers` has its own, and so has one with a section `telemetry`.
    pub(crate) fn start(folder: &Path, config: &str) -> Self {
        Self::start_by(&[], folder, config)
    }

    /// The same, run by another program that is given it, its arguments behind its own.
    pub(crate) fn start_by(by: &[&str], folder: &Path, config: &str) -> Self {
        let path = folder.join("spanscore.yaml");
        let receivers = r#"receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}"#;
        let receivers = if config.starts_with("receivers:") { "" } else { receivers };
        let telemetry = r#"
telemetry: {metrics: {endpoint: "127.0.0.1:0"}, health: {endpoint: null}}
"#;
        let telemetry = if config.contains("\ntelemetry:") { "\n" } else { telemetry };
        std::fs::write(&path, [receivers, telemetry, config].concat()).expect("a config");
        let words = by.iter().copied().chain([env!("CARGO_BIN_EXE_spanscore"), "serve"]);
        let words: Vec<&str> = words.collect();
        let (ours, its) = UnixStream::pair().expect("a pair of sockets");
        ours.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg("--config")
            .arg(path)
            .env_remove("SPANSCORE_CONFIG")
            .env("XDG_RUNTIME_DIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(OwnedFd::from(its)))
            .spawn()
            .expect("the program starts");
        let mut said = BufReader::new(ours).lines();
        let mut early: Vec<String> = Vec::new();
        let agents = loop {
            match said.next() {
                Some(line) => early.push(line.expect("a line")),
                None => panic!("it ends before it listens: {early:#?}"),
            }
            if let Some(agents) = early.pop_if(|line| line.starts_with("agents:")) {
                break agents;
            }
        };
        let mut line = || said.next().expect("it says all of its greeting").expect("a line");
        // The other lines of its greeting; what is brought back may say something between.
        let metrics = loop {
            let line = line();
            match line.split([',', ' ']).find(|part| part.ends_with("/metrics")) {
                Some(page) => break page.to_owned(),
                None => early.push(line),
            }
        };
        early.push(line());
        let pages = early.iter().find_map(|line| line.strip_prefix("pages: "));
        let pages = pages.and_then(|way| way.split_whitespace().next());
        let interface = pages.map(|url| format!("{url}api/v1"));
        let (_, address) = agents.split_once('=').expect("an address");
        let grpc = address.split_whitespace().next().unwrap_or_default().to_owned();
        Self { child, early, said, grpc, metrics, interface }
    }

    /// Its metrics page.
    pub(crate) async fn page(&self) -> Page {
        let client = web_client().build().expect("a client");
        let answer = client.get(&self.metrics).send().await.expect("it answers");
        Page(answer.text().await.expect("a page"))
    }

    /// Its metrics page, once that is as it should be.
    pub(crate) async fn page_when(&self, is_so: impl Fn(&Page) -> bool) -> Page {
        let started = Instant::now();
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        loop {
            looks.tick().await;
            let page = self.page().await;
            if is_so(&page) {
                return page;
            }
            let (late, why) = (started.elapsed() > PATIENCE, page.difference());
            assert!(!late, "{why:?} {:?} {:?}", page.spans(), page.evaluations());
        }
    }

    /// The address of its gRPC port.
    pub(crate) fn grpc_address(&self) -> &str {
        self.grpc.trim_start_matches("http://")
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

    /// Its memory that is in use, KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    }

    /// Waits for a line on standard error that holds this, and that no earlier wait was for.
    pub(crate) fn says(&mut self, part: &str) {
        let mut seen = 0;
        while let Some(line) = self.early.get(seen).cloned().or_else(|| self.reads()) {
            if line.contains(part) {
                self.early.remove(seen);
                return;
            }
            seen += 1;
        }
        panic!("it never says {part:?}: {:#?}", self.early);
    }

    /// The next line on standard error, which is then the last of `early`.
    fn reads(&mut self) -> Option<String> {
        let line = self.said.next()?.ok()?;
        self.early.push(line.clone());
        Some(line)
    }

    /// Closes the reading end of its standard error.
    pub(crate) fn close_stderr(&mut self) {
        let (other, _) = UnixStream::pair().expect("a pair of sockets");
        self.said = BufReader::new(other).lines();
    }

    /// Waits for its end while nobody reads what it says: the exit code.
    pub(crate) fn end_unread(mut self) -> Option<i32> {
        self.code()
    }

    /// Its exit code, once it has ended.
    fn code(&mut self) -> Option<i32> {
        let child = &mut self.child;
        eventually_blocking(|| child.try_wait().expect("its state").ok_or("it does not end")).code()
    }

    /// Waits for its end: the exit code and the last line on standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let last = self.said.by_ref().map_while(Result::ok).last();
        let last = last.or_else(|| self.early.pop()).unwrap_or_default();
        (self.code(), last)
    }
}
