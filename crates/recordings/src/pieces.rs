//! Splitting of a file into pieces that can be decoded independently, on any thread.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::foreign::{self, transcript};
use super::lines::TranscriptLines;
use super::text::{Piece, TextSplitter};
use super::unreadable;
use super::{FileError, REQUEST_BYTES_MAX, SNIFF_BYTES, is_text, is_written, signal_of_name};
use spanscore_base::otlp::{ContentCoding, Signal};

/// Size of the read buffer, bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of the length before a binary request.
const LENGTH_BYTES: usize = 4;
/// Highest first byte of a length, which is at most 128 MiB; a binary request begins with a field's
/// tag, which is above this.
const LENGTH_FIRST_MAX: u8 = 8;

/// Bytes at the start of a text that show if it may be a single transcript.
const TRANSCRIPT_SNIFF_BYTES: usize = 4 << 10;

/// One piece of a file, usually one request in any form.
#[derive(Debug)]
pub struct FilePiece {
    place: String,
    content: PieceContent,
}

#[derive(Debug)]
enum PieceContent {
    Text(Vec<u8>),
    Binary(Signal, Bytes),
    Failed(String),
}

impl FilePiece {
    /// Returns the file, with the line if known.
    pub fn place(&self) -> String {
        self.place.clone()
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        match &self.content {
            PieceContent::Text(text) => text.len(),
            PieceContent::Binary(_, body) => body.len(),
            PieceContent::Failed(_) => 0,
        }
    }

    /// Decodes it; one JSON text may hold several requests.
    pub fn requests(self) -> Vec<Result<(Signal, Bytes), FileError>> {
        let Self { place, content } = self;
        let read = match content {
            PieceContent::Text(text) => read_text(&text, &place),
            PieceContent::Binary(signal, body) => Ok(vec![(signal, body)]),
            PieceContent::Failed(message) => Err(message),
        };
        match read {
            Ok(requests) => requests.into_iter().map(Ok).collect(),
            Err(message) => vec![Err(FileError { place, message })],
        }
    }
}

/// Reads the requests of one JSON text.
fn read_text(text: &[u8], place: &str) -> Result<Vec<(Signal, Bytes)>, String> {
    let is_list = text.trim_ascii_start().first() == Some(&b'[');
    let requests = if is_list { Vec::new() } else { foreign::otlp_requests(text)? };
    if requests.is_empty() { foreign::read(text, place) } else { Ok(requests) }
}

/// Iterator over the pieces of one input, in order.
pub struct FilePieces {
    name: String,
    read: Arc<AtomicU64>,
    input: PieceInput,
}

/// Unread rest of the input.
enum PieceInput {
    /// Text, request by request; the first, as the flag says, may be a line of a transcript.
    Text(TextSplitter<Box<dyn BufRead>>, bool),
    /// One binary request.
    Binary(Box<dyn BufRead>),
    /// Binary requests, each after its length.
    Lengths(Box<dyn BufRead>, u64),
    Failed(String),
    Done,
}

/// Reads the pieces of a file; `-` is standard input. The error of an unreadable file is the only
/// item.
pub fn read_pieces(path: &Path) -> FilePieces {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".into() } else { path.to_string_lossy() };
    let name = name.into_owned();
    let read = Arc::<AtomicU64>::default();
    let input = match open(path, &read).and_then(|reader| input(&name, reader)) {
        Ok(input) => input,
        Err(error) => PieceInput::Failed(error.to_string()),
    };
    FilePieces { name, read, input }
}

/// Reader that counts bytes.
struct CountedRead<R> {
    reader: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for CountedRead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn open(path: &Path, read: &Arc<AtomicU64>) -> io::Result<Box<dyn BufRead>> {
    let is_stdin = path == Path::new("-");
    let raw: Box<dyn Read> =
        if is_stdin { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let raw = CountedRead { reader: raw, read: Arc::clone(read) };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, raw);
    let unpacked: Box<dyn Read> = match ContentCoding::from_magic(reader.fill_buf()?) {
        None => return Ok(Box::new(reader)),
        Some(ContentCoding::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        Some(ContentCoding::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
        Some(ContentCoding::Deflate) => Box::new(flate2::bufread::ZlibDecoder::new(reader)),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
}

fn input(name: &str, mut reader: Box<dyn BufRead>) -> io::Result<PieceInput> {
    let start = reader.fill_buf()?;
    if let Some(what) = unreadable::format(start) {
        return Ok(PieceInput::Failed(what.to_owned()));
    }
    let sniffed = &start[..start.len().min(SNIFF_BYTES)];
    if is_text(name, sniffed) {
        let is_whole = transcript::may_begin(&start[..start.len().min(TRANSCRIPT_SNIFF_BYTES)]);
        let splitter = TextSplitter::new(reader, REQUEST_BYTES_MAX);
        let splitter = if is_whole { splitter.in_whole_texts() } else { splitter };
        return Ok(PieceInput::Text(splitter, true));
    }
    if is_written(sniffed) {
        return Ok(PieceInput::Failed(unreadable::text(name).to_owned()));
    }
    Ok(match start.first() {
        Some(first) if *first <= LENGTH_FIRST_MAX => PieceInput::Lengths(reader, 0),
        _ => PieceInput::Binary(reader),
    })
}

impl Iterator for FilePieces {
    type Item = FilePiece;

    fn next(&mut self) -> Option<FilePiece> {
        match std::mem::replace(&mut self.input, PieceInput::Done) {
            PieceInput::Done => None,
            PieceInput::Failed(error) => Some(self.failed(None, error)),
            PieceInput::Binary(reader) => self.next_binary(reader),
            PieceInput::Lengths(reader, index) => self.next_behind_length(reader, index),
            PieceInput::Text(splitter, is_first) => self.next_text(splitter, is_first),
        }
    }
}

impl FilePieces {
    /// Returns the number of bytes read so far, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn piece(&self, line: Option<u64>, content: PieceContent) -> FilePiece {
        let place = match line {
            Some(line) => format!("{}:{line}", self.name),
            None => self.name.clone(),
        };
        FilePiece { place, content }
    }

    fn failed(&self, line: Option<u64>, message: impl ToString) -> FilePiece {
        self.piece(line, PieceContent::Failed(message.to_string()))
    }

    fn signal(&self) -> Signal {
        signal_of_name(self.name.rsplit(['/', '\\']).next().unwrap_or_default())
    }

    fn next_binary(&self, reader: Box<dyn BufRead>) -> Option<FilePiece> {
        let mut body = Vec::new();
        if let Err(error) = reader.take(REQUEST_BYTES_MAX as u64 + 1).read_to_end(&mut body) {
            return Some(self.failed(None, error));
        }
        if body.len() > REQUEST_BYTES_MAX {
            let message = format!("the request is larger than {REQUEST_BYTES_MAX} bytes");
            return Some(self.failed(None, message));
        }
        let signal = self.signal();
        (!body.is_empty()).then(|| self.piece(None, PieceContent::Binary(signal, body.into())))
    }

    fn next_behind_length(
        &mut self,
        mut reader: Box<dyn BufRead>,
        index: u64,
    ) -> Option<FilePiece> {
        let mut read = || -> io::Result<Option<Vec<u8>>> {
            if reader.fill_buf()?.is_empty() {
                return Ok(None);
            }
            let mut len = [0; LENGTH_BYTES];
            reader.read_exact(&mut len)?;
            let len = u64::from(u32::from_be_bytes(len));
            if len > REQUEST_BYTES_MAX as u64 {
                return Err(io::Error::other(format!("a request of {len} bytes")));
            }
            let mut body = Vec::new();
            let count = reader.by_ref().take(len).read_to_end(&mut body)?;
            let is_whole = count as u64 == len;
            is_whole.then_some(Some(body)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        match read() {
            Ok(None) => None,
            Ok(Some(body)) => {
                self.input = PieceInput::Lengths(reader, index + 1);
                Some(self.piece(None, PieceContent::Binary(self.signal(), body.into())))
            }
            // Reading does not recover, so this is the last item.
            Err(error) => Some(self.failed(None, format!("request {}: {error}", index + 1))),
        }
    }

    /// Returns the next text. A transcript with one message or event per line is returned whole, as
    /// one list.
    fn next_text(
        &mut self,
        mut splitter: TextSplitter<Box<dyn BufRead>>,
        is_first: bool,
    ) -> Option<FilePiece> {
        let Piece { line, text } = match splitter.next_piece() {
            Ok(piece) => piece?,
            // Reading does not recover, so this is the last item.
            Err(error) => return Some(self.failed(Some(splitter.line()), error)),
        };
        if let (true, Ok(first)) = (is_first, &text)
            && transcript::is_line(first)
        {
            let lines = TranscriptLines::read(first, &mut splitter);
            if let Some((line, message)) = lines.failed {
                self.input = PieceInput::Failed(format!("line {line}: {message}"));
            }
            return Some(self.piece(None, PieceContent::Text(lines.list)));
        }
        self.input = PieceInput::Text(splitter, false);
        Some(self.piece(Some(line), text.map_or_else(PieceContent::Failed, PieceContent::Text)))
    }
}
