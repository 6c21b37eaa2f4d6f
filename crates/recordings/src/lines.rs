//! Joining of a transcript with one message or event per line into one list.

use std::io::BufRead;

use serde_json::value::RawValue;

use super::REQUEST_BYTES_MAX;
use super::text::{Piece, TextSplitter};

/// List of the lines of a transcript.
pub(super) struct TranscriptLines {
    /// JSON list.
    pub(super) list: Vec<u8>,
    /// First line with an error, with its description; other invalid lines are omitted, too.
    pub(super) failed: Option<(u64, String)>,
}

impl TranscriptLines {
    /// Reads the lines after the first one.
    pub(super) fn read<R: BufRead>(first: &[u8], splitter: &mut TextSplitter<R>) -> Self {
        let mut lines = Self { list: vec![b'['], failed: None };
        lines.list.extend(first);
        loop {
            match splitter.next_piece() {
                Ok(Some(piece)) if lines.list.len() <= REQUEST_BYTES_MAX => lines.add(piece),
                Ok(Some(Piece { line, .. })) => {
                    let max = REQUEST_BYTES_MAX;
                    lines.fail(line, format!("the transcript is larger than {max} bytes"));
                    break;
                }
                Ok(None) => break,
                Err(error) => {
                    lines.fail(splitter.line(), error.to_string());
                    break;
                }
            }
        }
        lines.list.push(b']');
        lines
    }

    fn add(&mut self, Piece { line, text }: Piece) {
        let is_json = |text: &[u8]| match serde_json::from_slice::<&RawValue>(text) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("a line of a transcript that is no JSON: {error}")),
        };
        let text = text.and_then(|text| is_json(&text).map(|()| text));
        match text {
            Ok(text) => {
                self.list.push(b',');
                self.list.extend(text);
            }
            Err(message) => self.fail(line, message),
        }
    }

    fn fail(&mut self, line: u64, message: String) {
        self.failed.get_or_insert((line, message));
    }
}
