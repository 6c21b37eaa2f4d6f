//! Recorded requests from files and standard input.
//!
//! In: OTLP/JSON (one request, pretty-printed or not, one per line, or a list), exports of other
//! systems and transcripts ([`foreign`]), one binary protobuf request, or several, each after its
//! length in four bytes, as the Collector's file exporter writes. All may be plain, gzip or zstd.
//! Out: requests in protobuf. A bad line does not affect the others. Limits: [`REQUEST_BYTES_MAX`];
//! text is read line by line and long lists in parts, so a file may have any size.
//!
//! The top key of JSON gives its signal. That of binary requests comes from the file name: `logs`
//! or `metrics` among its parts, else traces.

mod foreign;
mod lines;
mod nesting;
mod pieces;
mod text;
mod unreadable;

use std::collections::VecDeque;
use std::path::Path;

use bytes::Bytes;

use spanscore_base::otlp::Signal;

pub use pieces::{FilePiece, FilePieces, read_pieces};

/// Largest decompressed request in a file, bytes.
pub const REQUEST_BYTES_MAX: usize = 256 << 20;

/// Bytes at the start of a file that determine its form.
const SNIFF_BYTES: usize = 64;

/// Error of reading a request from a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct FileError {
    /// File, with the line if known: `traces.jsonl:17`.
    pub place: String,
    /// Description of the fault.
    pub message: String,
}

/// Iterator over the requests of one input, in order; see [`read_requests`].
pub struct FileRequests {
    pieces: FilePieces,
    ready: VecDeque<Result<(Signal, Bytes), FileError>>,
}

/// Reads the requests of a file; `-` is standard input. The error of an unreadable file is the only
/// item; after a bad request reading continues with the next.
pub fn read_requests(path: &Path) -> FileRequests {
    FileRequests { pieces: read_pieces(path), ready: VecDeque::new() }
}

impl FileRequests {
    /// Returns the number of bytes read so far, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.pieces.bytes_read()
    }
}

impl Iterator for FileRequests {
    type Item = Result<(Signal, Bytes), FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(request) = self.ready.pop_front() {
                return Some(request);
            }
            self.ready.extend(self.pieces.next()?.requests());
        }
    }
}

/// Returns true if a file is text: by its name, unless its first bytes are binary, else by these. A
/// binary request starts with a byte that is white space in text, so the two bytes after white
/// space decide.
fn is_text(name: &str, start: &[u8]) -> bool {
    let mut parts = name.rsplit('.');
    let mut extension = parts.next().unwrap_or_default();
    if matches!(extension, "gz" | "zst" | "zstd") {
        extension = parts.next().unwrap_or_default();
    }
    match extension.to_ascii_lowercase().as_str() {
        "json" | "jsonl" | "ndjson" if is_written(start) => return true,
        "pb" | "bin" | "binpb" | "otlp" | "proto" => return false,
        _ => {}
    }
    let start = start.trim_ascii_start();
    let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start);
    match start.split_first() {
        Some((b'{', rest)) => {
            matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}') | None)
        }
        Some((first, _)) => *first == b'[',
        None => true,
    }
}

/// Returns true for the start of a text: UTF-8, possibly cut, without control characters. The first
/// bytes of a binary request include some, as tags of its fields.
fn is_written(start: &[u8]) -> bool {
    let valid = match std::str::from_utf8(start) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    valid.is_some_and(|text| !text.contains(|c: char| c.is_ascii_control() && !c.is_whitespace()))
}

/// Returns the signal of a file by its name: traces unless a part of the name is another's.
pub fn signal_of_name(file: &str) -> Signal {
    file.split(['.', '-', '_']).find_map(signal_of_word).unwrap_or(Signal::Traces)
}

fn signal_of_word(word: &str) -> Option<Signal> {
    match word {
        "traces" | "trace" | "spans" => Some(Signal::Traces),
        "logs" => Some(Signal::Logs),
        "metrics" => Some(Signal::Metrics),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Checks reading a file with this name and content: the signals, and the errors without the
    /// folder.
    fn check(name: &str, content: &[u8], expected: &[Result<Signal, &str>]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let prefix = format!("{}/", folder.path().display());
        let read: Vec<_> = read_requests(&path)
            .map(|request| match request {
                Ok((signal, _)) => Ok(signal),
                Err(error) => Err(error.to_string().replace(&prefix, "")),
            })
            .collect();
        let read: Vec<_> =
            read.iter().map(|r| r.as_ref().copied().map_err(String::as_str)).collect();
        assert_eq!(read, expected, "{name}");
    }

    const SPANS: &str = r#"{"resourceSpans": []}"#;
    const LOGS: &str = r#"{"resourceLogs": []}"#;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn requests_come_one_a_line_or_pretty_printed() {
        let spans = Ok(Signal::Traces);
        let logs = Ok(Signal::Logs);
        check("a.jsonl", format!("{SPANS}\n\n{LOGS}\r\n{SPANS}").as_bytes(), &[spans, logs, spans]);
        check("a.json", b"{\n  \"resourceLogs\": [\n    {}\n  ]\n}\n", &[logs]);
        check("a", b"\n {\n\"resourceLogs\": [\n{}\n]\n}\n{\"resourceSpans\":[]}", &[logs, spans]);
        check("empty.json", b"", &[]);
    }

    #[test]
    fn a_bad_line_does_not_lose_the_others() {
        let broken = format!("{SPANS}\n{{\"resourceSpans\": [\n{SPANS}\nnonsense\n{LOGS}\n{{}}\n");
        check(
            "a.jsonl",
            broken.as_bytes(),
            &[
                Ok(Signal::Traces),
                Err("a.jsonl:2: invalid OTLP/JSON at byte 20: expected a value"),
                Ok(Signal::Traces),
                Err("a.jsonl:4: invalid OTLP/JSON at byte 0: expected `{`"),
                Ok(Signal::Logs),
                Err("a.jsonl:6: not an OTLP/JSON request: it has neither `resourceSpans` nor \
                     `resourceLogs` nor `resourceMetrics`; nor is it an export of Jaeger, Tempo, \
                     Phoenix or Langfuse; nor a transcript: messages with a `role`, an object with \
                     `messages`, a log of Inspect or a session of Claude Code"),
            ],
        );
    }

    #[test]
    fn a_transcript_is_a_request_of_its_lines_together() {
        let said = r#"{"role": "user", "content": "hi"}"#;
        let traces = Ok(Signal::Traces);
        check("a.jsonl", format!("{said}\n{said}\n").as_bytes(), &[traces]);
        check("a.json", format!("[{said},\n{said}]").as_bytes(), &[traces]);
        let whole = format!(r#"{{"messages": [{said}]}}"#);
        check("a.jsonl", format!("{whole}\n{whole}\n").as_bytes(), &[traces, traces]);
        let broken = "a.jsonl: line 2: a line of a transcript that is no JSON: EOF while parsing a \
                      value at line 1 column 8";
        check("a.jsonl", format!("{said}\n{{\"role\":").as_bytes(), &[traces, Err(broken)]);
        let zip = "log.eval: a zip archive: unpack it first; a log of Inspect in the form `.eval` \
                   becomes readable by `inspect log convert --to json`";
        check("log.eval", b"PK\x03\x04 and more", &[Err(zip)]);
    }

    #[test]
    fn binary_requests_are_known_by_name_or_form() {
        let request = b"\x0a\x02\x12\x00";
        check("a.pb", request, &[Ok(Signal::Traces)]);
        check("a.logs.pb", request, &[Ok(Signal::Logs)]);
        check("unnamed", request, &[Ok(Signal::Traces)]);
        let zstd = zstd::bulk::compress(request, 1).unwrap();
        check("metrics_1.pb.zst", &zstd, &[Ok(Signal::Metrics)]);
        check("unnamed", &gzip(SPANS.as_bytes()), &[Ok(Signal::Traces)]);
    }

    #[test]
    fn what_is_no_recording_is_named_with_its_remedy() {
        let text = |name: &str, content: &[u8], part: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let read: Vec<_> = read_requests(&path).collect();
            let is_named = matches!(&read[..], [Err(error)] if error.message.contains(part));
            assert!(is_named, "{name}: {read:?}");
        };
        text("a.yaml", b"evaluators:\n  tool_error:\n", "a config, and no recording");
        text("a.json", b"{\"evaluators\": {}}", "a config, and no recording");
        text("a.csv", b"trace_id,name\n1,f\n", "a table, and no recording");
        text("a.txt", b"2026-01-01 INFO hello\n", "text, and no recording");
        text("a.parquet", b"PAR1\x15\x04", "a Parquet file");
        text("a.db", b"SQLite format 3\0\x10", "spanscore scores --store");
        text("a.json", b"\xff\xfe{\0", "text in UTF-16");
        let run = br#"{"id": "a", "run_type": "tool", "inputs": {}, "trace_id": "t"}"#;
        text("a.jsonl", run, "a run of LangSmith");
        let mlflow = br#"{"info": {}, "data": {"spans": [{"name": "f"}]}}"#;
        text("a.json", mlflow, "a trace of MLflow");
        let spans = br#"[{"traceId": "5b8e", "spanId": "eee1", "name": "f"}]"#;
        text("a.json", spans, "\"resourceSpans\": [{\"scopeSpans\"");
        text("a.json", br#"{"resource_spans": []}"#, "whose keys are in camel case");
        text("a.json", br#"{"object": "chat.completion", "choices": []}"#, "a reply of a model");
        text("a.jsonl", br#"{"prompt": "p", "completion": "c"}"#, "a row of a dataset");
        text("a.json", br#"{"eval_cases": []}"#, "name it with `--golden`");
    }

    #[test]
    fn a_binary_request_is_read_whatever_its_name() {
        check("a.json", b"\x0a\x02\x12\x00", &[Ok(Signal::Traces)]);
    }

    #[test]
    fn a_file_that_is_cut_or_missing_is_one_error() {
        let cut = gzip(&SPANS.repeat(100).into_bytes());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.gz");
        std::fs::write(&path, &cut[..cut.len() - 12]).unwrap();
        assert!(read_requests(&path).last().unwrap().is_err());
        let missing: Vec<_> = read_requests(&folder.path().join("missing")).collect();
        assert!(matches!(&missing[..], [Err(error)] if error.to_string().contains("No such file")));
    }
}
