//! Splitter of a text into JSON requests, of one line or several, and of long lists into parts. So
//! a list of any size takes no more memory than its largest item.
//!
//! A request ends with its brackets. If a line begins a request inside an open one, the open one is
//! broken: it is returned as it is, and reading continues with the new one.

use std::io::{self, BufRead, Read};

use super::nesting::Nesting;

/// Text at the start of a line that begins a request.
const REQUEST_STARTS: [&[u8]; 3] =
    [b"{\"resourceSpans\"", b"{\"resourceLogs\"", b"{\"resourceMetrics\""];
/// Bytes of a line read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a part of a list; a larger item is a part by itself.
const PART_BYTES: usize = 1 << 20;

/// Text of one request.
#[derive(Debug)]
pub(super) struct Piece {
    /// Its first line, from 1.
    pub(super) line: u64,
    /// Text, or the reason for its absence.
    pub(super) text: Result<Vec<u8>, String>,
}

/// Reader of pieces.
pub(super) struct TextSplitter<R> {
    reader: R,
    bytes_max: usize,
    part_bytes: usize,
    line: u64,
    /// True if the last byte read does not end its line.
    is_in_line: bool,
    /// Start of a line that belongs to the next piece.
    kept: Vec<u8>,
    /// List of which parts have been returned.
    open: Option<OpenText>,
}

/// Text being read.
#[derive(Default)]
struct OpenText {
    text: Vec<u8>,
    nesting: Nesting,
    first_line: u64,
}

impl<R: BufRead> TextSplitter<R> {
    pub(super) fn new(reader: R, bytes_max: usize) -> Self {
        Self {
            reader,
            bytes_max,
            part_bytes: PART_BYTES,
            line: 0,
            is_in_line: false,
            kept: Vec::new(),
            open: None,
        }
    }

    /// Returns a splitter that does not split lists.
    pub(super) fn in_whole_texts(self) -> Self {
        Self { part_bytes: usize::MAX, ..self }
    }

    /// Returns the last line read, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn next_piece(&mut self) -> io::Result<Option<Piece>> {
        let mut open = self.open.take().unwrap_or_default();
        loop {
            let OpenText { text, nesting, first_line } = &mut open;
            let start = text.len();
            let Some(begins_line) = self.next_chunk(text)? else {
                let is_empty = text.trim_ascii().is_empty();
                return Ok((!is_empty).then(|| open.piece()));
            };
            if text.len() > self.bytes_max {
                self.skip_line()?;
                let max = self.bytes_max;
                let text = format!("a request of more than {max} bytes; its line is passed over");
                return Ok(Some(Piece { line: (*first_line).max(1), text: Err(text) }));
            }
            let begins_anew = REQUEST_STARTS.iter().any(|begin| text[start..].starts_with(begin));
            if start > 0 && begins_line && begins_anew && !nesting.awaits_item(&text[..start]) {
                self.kept = text.split_off(start);
                return Ok(Some(open.piece()));
            }
            if text.trim_ascii().is_empty() {
                text.clear();
                continue;
            }
            if start == 0 {
                *first_line = self.line;
            }
            if nesting.read(text) && !self.is_in_line {
                return Ok(Some(open.piece()));
            }
            if text.len() >= self.part_bytes
                && let Some((rest, lines)) = nesting.cut(text)
            {
                let OpenText { text, nesting, first_line: line } = open;
                let first_line = self.line + u64::from(!self.is_in_line) - lines as u64;
                self.open = Some(OpenText { text: rest, nesting, first_line });
                return Ok(Some(Piece { line, text: Ok(text) }));
            }
        }
    }

    /// Appends the next line with its end, or a chunk of it; returns true if it begins a line,
    /// `None` at the end of the text.
    fn next_chunk(&mut self, text: &mut Vec<u8>) -> io::Result<Option<bool>> {
        if !self.kept.is_empty() {
            text.append(&mut self.kept);
            return Ok(Some(true));
        }
        let room = self.bytes_max.saturating_add(1).saturating_sub(text.len());
        let chunk = room.min(CHUNK_BYTES) as u64;
        let read = self.reader.by_ref().take(chunk).read_until(b'\n', text)?;
        let begins_line = !std::mem::replace(&mut self.is_in_line, false);
        if read == 0 {
            return Ok(None);
        }
        self.is_in_line = text.last() != Some(&b'\n');
        self.line += u64::from(begins_line);
        Ok(Some(begins_line))
    }

    /// Skips the rest of an overlong line.
    fn skip_line(&mut self) -> io::Result<()> {
        while std::mem::replace(&mut self.is_in_line, false) {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(used);
            self.is_in_line = end.is_none();
        }
        Ok(())
    }
}

impl OpenText {
    fn piece(self) -> Piece {
        Piece { line: self.first_line, text: Ok(self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, bytes_max: usize, expected: &[(u64, Option<&str>)]) {
        let splitter = TextSplitter::new(text.as_bytes(), bytes_max);
        check_parts(splitter, expected);
    }

    fn check_parts(mut splitter: TextSplitter<&[u8]>, expected: &[(u64, Option<&str>)]) {
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

    /// Splits a text with lists cut as early as possible.
    fn parts(text: &str, expected: &[(u64, Option<&str>)]) {
        let splitter = TextSplitter { part_bytes: 1, ..TextSplitter::new(text.as_bytes(), 99) };
        check_parts(splitter, expected);
    }

    #[test]
    fn a_list_comes_in_parts_that_read_by_themselves() {
        parts(
            "[{\"a\": [1, \"],\"]},\n[2, 3],\n{}]\n{}\n",
            &[(1, Some("[{\"a\": [1, \"],\"]}]")), (2, Some("[[2, 3]]"))]
                .into_iter()
                .chain([(3, Some("[{}]")), (4, Some("{}"))])
                .collect::<Vec<_>>(),
        );
        parts(
            "{\"total\": 2, \"data\": [{\"spans\": [1, 2]},\n{}], \"errors\": [1,\n2]}",
            &[
                (1, Some("{\"total\": 2, \"data\": [{\"spans\": [1, 2]}]}")),
                (2, Some("{\"total\": 2, \"data\": [{}], \"errors\": [1,\n2]}")),
            ],
        );
        let whole = "{\"observations\": [1,\n2], \"data\": [1,\n2]}";
        parts(whole, &[(1, Some(whole))]);
        let nested = "{\"trace\": {\"data\": [1,\n2]}}";
        parts(nested, &[(1, Some(nested))]);
        parts("[1,\n2,", &[(1, Some("[1]")), (2, Some("[2]")), (2, Some("["))]);
    }

    #[test]
    fn items_at_the_start_of_their_lines_are_no_new_requests() {
        let list = "[\n{\"resourceSpans\": []},\n{\"resourceSpans\": []}\n]";
        check(list, 99, &[(1, Some(list))]);
        let broken = "[1\n{\"resourceSpans\": []}";
        check(broken, 99, &[(1, Some("[1")), (2, Some("{\"resourceSpans\": []}"))]);
    }

    #[test]
    fn a_list_on_one_line_takes_the_memory_of_its_parts() {
        let item = format!("{{\"a\": \"{}\\\\\"}}", "[,".repeat(2000));
        let text = format!("[{}]", vec![item.as_str(); 2000].join(","));
        let mut splitter = TextSplitter::new(text.as_bytes(), 4 << 20);
        let mut joined = Vec::new();
        while let Some(piece) = splitter.next_piece().unwrap() {
            let text = String::from_utf8(piece.text.unwrap()).unwrap();
            assert!(text.len() < PART_BYTES + CHUNK_BYTES + item.len(), "{}", text.len());
            joined.push(text[1..text.len() - 1].to_owned());
        }
        assert!(joined.len() > 5 && format!("[{}]", joined.join(",")) == text);
    }
}
