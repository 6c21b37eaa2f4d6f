//! Recorded requests from files and standard input.
//!
//! In: OTLP/JSON (one request, pretty-printed or not, or one per line), or one binary protobuf
//! request; each plain, gzip or zstd. Out: requests in their encoded protobuf form. A bad line
//! does not lose the others. Limits: [`REQUEST_BYTES_MAX`]; text is read line by line, so a file
//! may be of any size.
//!
//! JSON holds its signal in its top key. Binary requests do not say what they are: a name with
//! `logs` or `metrics` among its parts says it, others are taken as traces.

mod text;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bytes::Bytes;

use crate::otlp::{ContentCoding, Signal, json};
use text::TextSplitter;

/// Largest request in a file, in bytes, decompressed.
pub const REQUEST_BYTES_MAX: usize = 256 << 20;

/// Buffer for reading, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Bytes at the start of a file that tell its form.
const SNIFF_BYTES: usize = 64;

/// Why a request of a file could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct FileError {
    /// File, and line where there is one: `traces.jsonl:17`.
    pub place: String,
    /// What is wrong.
    pub message: String,
}

/// The requests of one input, in order; see [`read_requests`].
pub struct FileRequests {
    name: String,
    source: RequestInput,
    ready: VecDeque<Result<(Signal, Bytes), FileError>>,
}

/// What is left to read.
enum RequestInput {
    /// Text, request by request.
    Text(TextSplitter<Box<dyn BufRead>>),
    /// One binary request.
    Binary(Box<dyn BufRead>),
    Done,
}

/// Reads the requests of a file; `-` is standard input. A file that cannot be opened is the first
/// and only item; after a bad request reading goes on with the next.
pub fn read_requests(path: &Path) -> FileRequests {
    let name =
        if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
    let name = name.into_owned();
    match open(path).and_then(|reader| source(&name, reader)) {
        Ok(source) => FileRequests { name, source, ready: VecDeque::new() },
        Err(error) => {
            let failed = Err(FileError { place: name.clone(), message: error.to_string() });
            FileRequests { name, source: RequestInput::Done, ready: VecDeque::from([failed]) }
        }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let raw: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, raw);
    let unpacked: Box<dyn Read> = match ContentCoding::from_magic(reader.fill_buf()?) {
        None => return Ok(Box::new(reader)),
        Some(ContentCoding::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Some(ContentCoding::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
}

fn source(name: &str, mut reader: Box<dyn BufRead>) -> io::Result<RequestInput> {
    let start = reader.fill_buf()?;
    Ok(if is_text(name, &start[..start.len().min(SNIFF_BYTES)]) {
        RequestInput::Text(TextSplitter::new(reader, REQUEST_BYTES_MAX))
    } else {
        RequestInput::Binary(reader)
    })
}

/// Tells text from binary by the name, else by the first bytes. A binary request starts with a
/// byte that is white space in text, so the two bytes after white space decide.
fn is_text(name: &str, start: &[u8]) -> bool {
    let mut parts = name.rsplit('.');
    let mut extension = parts.next().unwrap_or_default();
    if matches!(extension, "gz" | "zst" | "zstd") {
        extension = parts.next().unwrap_or_default();
    }
    match extension.to_ascii_lowercase().as_str() {
        "json" | "jsonl" | "ndjson" => return true,
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

impl Iterator for FileRequests {
    type Item = Result<(Signal, Bytes), FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(request) = self.ready.pop_front() {
                return Some(request);
            }
            match std::mem::replace(&mut self.source, RequestInput::Done) {
                RequestInput::Done => return None,
                RequestInput::Binary(reader) => {
                    let request = self.read_binary(reader);
                    self.ready.extend(request);
                }
                RequestInput::Text(splitter) => self.read_text(splitter),
            }
        }
    }
}

impl FileRequests {
    fn error(&self, line: Option<u64>, message: impl Into<String>) -> FileError {
        let place = match line {
            Some(line) => format!("{}:{line}", self.name),
            None => self.name.clone(),
        };
        FileError { place, message: message.into() }
    }

    fn read_binary(&self, reader: Box<dyn BufRead>) -> Option<Result<(Signal, Bytes), FileError>> {
        let mut body = Vec::new();
        if let Err(error) = reader.take(REQUEST_BYTES_MAX as u64 + 1).read_to_end(&mut body) {
            return Some(Err(self.error(None, error.to_string())));
        }
        if body.len() > REQUEST_BYTES_MAX {
            let message = format!("the request is larger than {REQUEST_BYTES_MAX} bytes");
            return Some(Err(self.error(None, message)));
        }
        let file = self.name.rsplit(['/', '\\']).next().unwrap_or_default();
        let signal = signal_of_name(file);
        (!body.is_empty()).then_some(Ok((signal, body.into())))
    }

    fn read_text(&mut self, mut splitter: TextSplitter<Box<dyn BufRead>>) {
        let piece = match splitter.next_piece() {
            Ok(Some(piece)) => piece,
            Ok(None) => return,
            // Reading does not recover, so this is the last item.
            Err(error) => {
                let message = error.to_string();
                self.ready.push_back(Err(self.error(Some(splitter.line()), message)));
                return;
            }
        };
        let line = Some(piece.line);
        match piece.text.map_err(str::to_owned).and_then(|text| read_piece(&text)) {
            Ok(requests) => self.ready.extend(requests.into_iter().map(Ok)),
            Err(message) => self.ready.push_back(Err(self.error(line, message))),
        }
        self.source = RequestInput::Text(splitter);
    }
}

/// What a file carries by its name: traces unless a part of the name says otherwise.
pub(super) fn signal_of_name(file: &str) -> Signal {
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

/// The requests of one JSON text: one for each signal that it holds.
fn read_piece(text: &[u8]) -> Result<Vec<(Signal, Bytes)>, String> {
    let signals = json::signals(text).map_err(|error| error.to_string())?;
    if signals.is_empty() {
        return Err("not an OTLP/JSON request: it has neither `resourceSpans` nor \
                    `resourceLogs` nor `resourceMetrics`"
            .to_owned());
    }
    let transcode = |signal| {
        let request = json::transcode(signal, text).map_err(|error| error.to_string())?;
        Ok((signal, request))
    };
    signals.into_iter().map(transcode).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Reads a file of this name and content: the signals, and the errors without the folder.
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
        let (spans, logs) = (Ok(Signal::Traces), Ok(Signal::Logs));
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
                     `resourceLogs` nor `resourceMetrics`"),
            ],
        );
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
