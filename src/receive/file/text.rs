//! Splits a text of JSON requests: one a line, or over several lines, or both.
//!
//! A request ends where its brackets do. When a line begins a request anew while one is open, the
//! open one is broken: it is handed out as it is, and reading goes on with the new one.

use std::io::{self, BufRead, Read};

/// The start of a request that stands at the start of its line.
const REQUEST_STARTS: [&[u8]; 3] =
    [b"{\"resourceSpans\"", b"{\"resourceLogs\"", b"{\"resourceMetrics\""];

/// One request's text.
#[derive(Debug)]
pub(super) struct Piece {
    /// The line that it starts on, from 1.
    pub(super) line: u64,
    /// The text, or why it is not there.
    pub(super) text: Result<Vec<u8>, &'static str>,
}

/// Reads pieces.
pub(super) struct TextSplitter<R> {
    reader: R,
    bytes_max: usize,
    line: u64,
    /// A line that was read and belongs to the next piece.
    kept: Vec<u8>,
}

impl<R: BufRead> TextSplitter<R> {
    pub(super) fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, bytes_max, line: 0, kept: Vec::new() }
    }

    /// The last line that was read, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The next piece; `None` at the end.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut text = Vec::new();
        let mut nesting = Nesting::default();
        let mut first_line = 0;
        loop {
            let start = text.len();
            if !self.next_line(&mut text)? {
                let is_empty = text.trim_ascii().is_empty();
                return Ok((!is_empty).then_some(Piece { line: first_line, text: Ok(text) }));
            }
            if text.len() > self.bytes_max {
                self.skip_line()?;
                let text = Err("the request is too large");
                return Ok(Some(Piece { line: first_line.max(1), text }));
            }
            if start > 0 && REQUEST_STARTS.iter().any(|begin| text[start..].starts_with(begin)) {
                self.kept = text.split_off(start);
                return Ok(Some(Piece { line: first_line, text: Ok(text) }));
            }
            if text.trim_ascii().is_empty() {
                text.clear();
                continue;
            }
            if start == 0 {
                first_line = self.line;
            }
            if nesting.read(&text[start..]) {
                return Ok(Some(Piece { line: first_line, text: Ok(text) }));
            }
        }
    }

    /// Appends the next line with its end; false at the end of the text.
    fn next_line(&mut self, text: &mut Vec<u8>) -> io::Result<bool> {
        if !self.kept.is_empty() {
            text.append(&mut self.kept);
            return Ok(true);
        }
        let room = self.bytes_max.saturating_add(1).saturating_sub(text.len());
        let read = self.reader.by_ref().take(room as u64).read_until(b'\n', text)?;
        self.line += u64::from(read > 0);
        Ok(read > 0)
    }

    /// Passes over the rest of a line that is too long.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

/// How deep a text is nested so far.
#[derive(Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Reads on; true when nothing is open at the end.
    fn read(&mut self, text: &[u8]) -> bool {
        for byte in text {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    // No string goes over a line, so a quote is missing and the text broken.
                    b'"' | b'\n' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, bytes_max: usize, expected: &[(u64, Option<&str>)]) {
        let mut splitter = TextSplitter::new(text.as_bytes(), bytes_max);
        let mut pieces = Vec::new();
        while let Some(piece) = splitter.next_piece().unwrap() {
            let text = piece.text.ok().map(|text| String::from_utf8(text).unwrap());
            pieces.push((piece.line, text.map(|text| text.trim().to_owned())));
        }
        let expected: Vec<_> =
            expected.iter().map(|(line, text)| (*line, text.map(str::to_owned))).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn pieces_end_with_their_brackets() {
        check("{}\n\n[\"}\\\"\"]\n", 99, &[(1, Some("{}")), (3, Some("[\"}\\\"\"]"))]);
        check("\n{\n1}\n{}", 99, &[(2, Some("{\n1}")), (4, Some("{}"))]);
        check("{\"a", 99, &[(1, Some("{\"a"))]);
    }

    #[test]
    fn a_line_past_the_limit_is_one_error() {
        check("{123456}\n{}\n", 9, &[(1, Some("{123456}")), (2, Some("{}"))]);
        check("{12345678}\n{}\n", 9, &[(1, None), (2, Some("{}"))]);
    }
}
