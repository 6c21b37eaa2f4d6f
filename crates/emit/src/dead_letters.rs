//! Dead-letter files: permanently refused requests, which `spanscore send` sends again.
//!
//! In: requests as sent, with the reason. Out: `dead_letters/<exporter>.jsonl` in the data
//! directory, one OTLP/JSON request per line. Each line also has the member [`MEMBER`], which
//! receivers ignore: exporter, signal, time, reason. Only the file's owner can read it. It holds at
//! most [`FILE_BYTES_MAX`], as does each of [`BACKUPS_MAX`] older files; requests deleted with the
//! oldest are counted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use parking_lot::Mutex;
use prost::Message;
use serde::Serialize;

use super::counters::{DeadLetterMetrics, Instruments, LogLimiter};
use super::rotating::{Rotating, Rotation};
use spanscore_base::otlp::Signal;
use spanscore_net::metrics::{CounterBy, label};

/// Member of a line with the origin of its request.
pub(super) const MEMBER: &str = "deadLetter";

/// Size beyond which the file is rotated, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Number of rotated files; the oldest is deleted.
const BACKUPS_MAX: u32 = 4;

/// Folder of all dead-letter files.
const FOLDER: &str = "dead_letters";

/// Dead letters of one exporter.
pub(super) struct DeadLetters {
    exporter: Arc<str>,
    /// Path of the file; `None` without a data directory, then nothing is written.
    path: Option<PathBuf>,
    /// File, opened for the first request.
    file: Arc<Mutex<Option<Rotating>>>,
    requests: CounterBy,
    trouble: LogLimiter,
}

impl DeadLetters {
    /// Returns the dead letters of an exporter below the data directory, if any; nothing is opened
    /// yet.
    pub(super) fn new(data_dir: Option<&Path>, exporter: &str, instruments: &Instruments) -> Self {
        let counter = DeadLetterMetrics::new(&instruments.meter);
        let DeadLetterMetrics { requests } = counter.of(&[label("exporter", exporter)]);
        let name = format!("{}.jsonl", file_name(exporter));
        let path = data_dir.map(|data_dir| data_dir.join(FOLDER).join(name));
        let file = Arc::default();
        let trouble = LogLimiter::default();
        Self { exporter: exporter.into(), path, file, requests, trouble }
    }

    /// Appends a protobuf request; returns true if it was written.
    pub(super) async fn keep(&self, signal: Signal, request: &[u8], reason: &str) -> bool {
        let Some(path) = &self.path else { return false };
        let kept = match self.line(signal, request, reason) {
            Some(line) => self.write(path.clone(), line).await,
            None => Err(io::Error::other("the request cannot be read")),
        };
        match kept {
            Ok(dropped) => {
                self.requests.add("dropped", dropped);
                self.requests.add("written", 1);
                true
            }
            Err(error) => {
                self.requests.add("failed", 1);
                if self.trouble.may_log() {
                    let path = path.display();
                    tracing::warn!(exporter = %self.exporter, %path, %error,
                        "failed to keep what the backend refused");
                }
                false
            }
        }
    }

    /// Renders the request as a line.
    fn line(&self, signal: Signal, request: &[u8], reason: &str) -> Option<String> {
        let (mut line, word) = match signal {
            Signal::Logs => (json(&ExportLogsServiceRequest::decode(request).ok()?)?, "logs"),
            Signal::Traces => (json(&ExportTraceServiceRequest::decode(request).ok()?)?, "traces"),
            Signal::Metrics => return None,
        };
        let time = jiff::Timestamp::now().to_string();
        let exporter = &*self.exporter;
        let member = serde_json::json!({
            "exporter": exporter, "signal": word, "time": time, "reason": reason,
        });
        line.pop().filter(|last| *last == '}')?;
        line.push_str(&format!(",\"{MEMBER}\":{member}}}\n"));
        Some(line)
    }

    /// Appends a line; returns the number of older lines deleted by rotation.
    async fn write(&self, path: PathBuf, line: String) -> io::Result<u64> {
        let file = Arc::clone(&self.file);
        let write = move || {
            let mut file = file.lock();
            let open = match file.take() {
                Some(open) => open,
                None => open_file(&path)?,
            };
            let open = file.insert(open);
            let (_, error) = open.append(line.as_bytes(), &[line.len()]);
            error.map_or(Ok(open.take_dropped()), Err)
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}

fn open_file(path: &Path) -> io::Result<Rotating> {
    let rotation =
        Rotation { bytes_max: FILE_BYTES_MAX, backups_max: BACKUPS_MAX, is_private: true };
    Rotating::open_private(path, rotation)
}

fn json(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

/// Converts an exporter's name to a file name: `otlp_grpc/a` becomes `otlp_grpc-a`. Names stay
/// distinct, since no kind contains a `-`.
pub(super) fn file_name(exporter: &str) -> String {
    let mut name = String::with_capacity(exporter.len());
    let (kind, rest) = exporter.split_once('/').map_or((exporter, None), |(k, r)| (k, Some(r)));
    name.push_str(kind);
    if let Some(rest) = rest {
        name.push('-');
        for byte in rest.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
                    name.push(char::from(byte));
                }
                _ => name.push_str(&format!("%{byte:02x}")),
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::SdkMeterProvider;

    use super::*;
    use crate::otlp::testing;
    use spanscore_base::otlp::json::{signals, transcode};

    fn letters(dir: &Path) -> DeadLetters {
        let instruments = Instruments::new(&SdkMeterProvider::default().meter("test"));
        DeadLetters::new(Some(dir), "otlp_http/a b", &instruments)
    }

    #[tokio::test]
    async fn line_is_the_request_that_was_refused_and_says_why() {
        let dir = tempfile::tempdir().expect("a folder");
        let letters = letters(dir.path());
        let (events, spans) = testing::requests(3);
        assert!(letters.keep(Signal::Logs, &events, "HTTP 400: \"never\"").await);
        assert!(letters.keep(Signal::Traces, &spans, "HTTP 413").await);
        let path = dir.path().join("dead_letters/otlp_http-a%20b.jsonl");
        let text = std::fs::read_to_string(&path).expect("the file");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(signals(lines[0].as_bytes()), Ok(vec![Signal::Logs]));
        let sent_again = transcode(Signal::Logs, lines[0].as_bytes()).expect("OTLP/JSON");
        let sent_again = ExportLogsServiceRequest::decode(sent_again).expect("a request");
        assert_eq!(Ok(sent_again), ExportLogsServiceRequest::decode(&*events));
        let sent_again = transcode(Signal::Traces, lines[1].as_bytes()).expect("OTLP/JSON");
        let sent_again = ExportTraceServiceRequest::decode(sent_again).expect("a request");
        assert_eq!(Ok(sent_again), ExportTraceServiceRequest::decode(&*spans));
        let line: serde_json::Value = serde_json::from_str(lines[0]).expect("JSON");
        let member = &line[MEMBER];
        assert_eq!(member["exporter"], "otlp_http/a b");
        assert_eq!(
            (&member["signal"], &member["reason"]),
            (&"logs".into(), &"HTTP 400: \"never\"".into())
        );
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(&dir.path().join("dead_letters")) & 0o777, 0o700);
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("dead_letters"), "a file").expect("written");
        assert!(!letters(dir.path()).keep(Signal::Logs, &testing::requests(1).0, "x").await);
    }

    #[test]
    fn names_of_exporters_are_names_of_files() {
        assert_eq!(file_name("otlp"), "otlp");
        assert_eq!(file_name("otlp/a-b.c"), "otlp-a-b.c");
        assert_eq!(file_name("otlp/../x"), "otlp-..%2fx");
        assert_eq!(file_name("otlp/é%"), "otlp-%c3%a9%25");
    }
}
