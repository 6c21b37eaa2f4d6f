//! Recording of requests to a file, one OTLP/JSON request per line in order of arrival, for
//! [`read_requests`](spanscore_recordings::read_requests) and the file receiver.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::cli::send::typed::TypedRequest;
use spanscore_base::otlp::Signal;
use spanscore_receive::{Accepted, ConnectionAccount, Intake, Received, Refused};

/// Callback for each recorded request, with its signal; protobuf.
pub(crate) type RecordingWatch = Box<dyn Fn(Signal, &[u8]) + Send + Sync>;

/// Creates or truncates a file that only its owner may read, since it quotes agents and tools. An
/// existing one keeps its permissions.
///
/// # Errors
/// Those of the system.
pub(crate) fn create_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// First bytes of every recording, without white space.
const BEGIN: &[u8] = b"{\"resource";
/// Bytes of a file that are searched for them.
const LOOKED_AT: u64 = 256;

/// Refuses to replace a file other than a recording: a config, a program.
fn check_replaceable(path: &Path) -> io::Result<()> {
    let is_other = |file: File| {
        let mut begin = Vec::new();
        let read = file.take(LOOKED_AT).read_to_end(&mut begin);
        begin.retain(|byte| !byte.is_ascii_whitespace());
        read.is_ok() && !BEGIN.starts_with(&begin[..begin.len().min(BEGIN.len())])
    };
    if path.is_file() && File::open(path).is_ok_and(is_other) {
        let text = "it is there, and no recording: name another file";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    Ok(())
}

/// Counts of a recording so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordingCounts {
    /// Requests of traces and logs.
    pub requests: u64,
    /// Their spans and log records.
    pub items: u64,
}

/// Intake that records traces and logs in a file. Metrics are accepted but not recorded, since no
/// evaluator reads them.
pub(crate) struct Recording {
    path: PathBuf,
    state: Mutex<RecordingState>,
    watch: Option<RecordingWatch>,
}

struct RecordingState {
    file: BufWriter<File>,
    counts: RecordingCounts,
    last: Instant,
    error: Option<String>,
}

impl Recording {
    /// Creates or truncates the file, readable only by its owner, since it holds the prompts of
    /// agents.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn create(path: &Path, watch: Option<RecordingWatch>) -> io::Result<Self> {
        check_replaceable(path)?;
        let state = RecordingState {
            file: BufWriter::new(create_own(path)?),
            counts: RecordingCounts::default(),
            last: Instant::now(),
            error: None,
        };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state), watch })
    }

    /// Returns the time of the last request, or of the start.
    pub(crate) fn last(&self) -> Instant {
        self.state.lock().last
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// The first error of any write, with the file's name.
    pub(crate) fn finish(&self) -> Result<RecordingCounts, String> {
        let mut state = self.state.lock();
        let flushed = state.file.flush().map_err(|error| error.to_string());
        match (state.error.take(), flushed) {
            (None, Ok(())) => Ok(state.counts),
            (Some(error), _) | (None, Err(error)) => {
                Err(format!("cannot write {}: {error}", self.path.display()))
            }
        }
    }

    fn keep(&self, received: &Received) -> Result<Accepted, Refused> {
        let Received { signal, request, .. } = received;
        let malformed = |error: &dyn std::fmt::Display| Refused::Malformed(error.to_string());
        let typed = TypedRequest::new(*signal, request).map_err(|error| malformed(&error))?;
        let items = typed.item_count(request);
        let accepted = Accepted { accepted: items, ..Accepted::default() };
        if *signal == Signal::Metrics {
            return Ok(accepted);
        }
        let mut line = typed.json().map_err(|error| malformed(&error))?;
        line.push(b'\n');
        let mut state = self.state.lock();
        state.last = Instant::now();
        // Requests are written whole, so that a concurrent reader, or a kill, finds complete lines.
        let written = state.file.write_all(&line).and_then(|()| state.file.flush());
        if let Err(error) = written {
            state.error.get_or_insert(error.to_string());
            let message = format!("the recording cannot be written: {error}");
            return Err(Refused::Malformed(message));
        }
        state.counts.requests += 1;
        state.counts.items += items;
        drop(state);
        if let Some(watch) = &self.watch {
            watch(*signal, request);
        }
        Ok(accepted)
    }
}

impl Intake for Recording {
    async fn accept_by(
        &self,
        received: Received,
        _: &Arc<ConnectionAccount>,
        _: tokio::time::Instant,
    ) -> Result<Accepted, Refused> {
        self.keep(&received)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use spanscore_recordings::read_requests;

    #[test]
    fn what_was_recorded_reads_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let recording = Recording::create(&path, None).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/traces");
        let mut sent = Vec::new();
        for name in ["refund_agent.json", "weather_agent.json"] {
            for request in read_requests(&source.join(name)) {
                let (signal, request) = request.unwrap();
                recording.keep(&Received::protobuf(signal, request.clone())).unwrap();
                sent.push((signal, request));
            }
        }
        let counts = recording.finish().unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it holds whole prompts");
        assert_eq!(counts.requests, sent.len() as u64);
        assert!(counts.items > 5);
        let read: Vec<_> = read_requests(&path).map(Result::unwrap).collect();
        assert_eq!(read.iter().map(|it| it.0).collect::<Vec<_>>(), [Signal::Traces; 2]);
        for ((_, sent), (_, read)) in sent.iter().zip(&read) {
            let typed = |body| TypedRequest::new(Signal::Traces, body).unwrap().json().unwrap();
            assert_eq!(typed(sent), typed(read));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_and_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording::create(&folder.path().join("r.jsonl"), None).unwrap();
        let bad = Received::protobuf(Signal::Traces, b"\x0a\xff".as_slice().into());
        assert!(matches!(recording.keep(&bad), Err(Refused::Malformed(_))));
        assert_eq!(recording.finish().unwrap(), RecordingCounts::default());
    }
}
