//! Nesting tracker of a growing JSON text: its depth, and the places where a long list can be cut.
//!
//! A list that stands alone, or as the first list of an object under one of [`LIST_KEYS`], is cut
//! between two of its items: the text before the list goes in front of each part, so that each
//! reads as a shorter text of the same form.

use std::ops::Range;

/// Keys whose lists can be cut: OTLP/JSON, Tempo's `batches`, the `data` of Jaeger, Phoenix and
/// Langfuse. The rest of the object tells nothing of single items.
const LIST_KEYS: [&[u8]; 5] =
    [b"resourceSpans", b"resourceLogs", b"resourceMetrics", b"batches", b"data"];
/// Keys of lists whose items need the fields behind the list: a trace of Jaeger, of Langfuse.
const WHOLE_KEYS: [&[u8]; 2] = [b"spans", b"observations"];
/// Longest text before a list that is cut, in bytes: each part repeats it.
const PREFIX_BYTES_MAX: usize = 4 << 10;

/// State of the list that may be cut.
#[derive(Default)]
enum LongList {
    /// No list has begun.
    #[default]
    Unseen,
    /// The list goes on; its items are this deep.
    Open { start: usize, depth: usize, comma: Option<usize> },
    /// The list has ended, or it cannot be cut.
    Passed,
}

/// Tracker of a text that grows.
#[derive(Default)]
pub(super) struct Nesting {
    /// Bytes that were read; one more than there are behind a `\` at the end.
    at: usize,
    depth: usize,
    in_string: bool,
    /// Start of the string that is read or was read last.
    string_start: usize,
    /// Range of the last string directly in the outermost object or list.
    last_string: Range<usize>,
    list: LongList,
}

impl Nesting {
    /// Reads on to the end of the text; true when nothing is open there.
    pub(super) fn read(&mut self, text: &[u8]) -> bool {
        while let Some(rest) = text.get(self.at..).filter(|rest| !rest.is_empty()) {
            if self.in_string {
                self.read_string(rest);
            } else {
                self.read_mark(rest[0], text);
                self.at += 1;
            }
        }
        self.depth == 0
    }

    fn read_string(&mut self, rest: &[u8]) {
        let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', rest) else {
            self.at += rest.len();
            return;
        };
        if rest[found] == b'\\' {
            self.at += found + 2;
            return;
        }
        // No string goes over a line, so a quote is missing and the text broken.
        self.in_string = false;
        if self.depth == 1 {
            self.last_string = self.string_start..self.at + found;
        }
        self.at += found + 1;
    }

    fn read_mark(&mut self, byte: u8, text: &[u8]) {
        match byte {
            b'"' => {
                self.in_string = true;
                self.string_start = self.at + 1;
            }
            b'{' => self.depth += 1,
            b'[' => {
                if matches!(self.list, LongList::Unseen) && self.depth < 2 {
                    self.begin_list(text);
                }
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if matches!(self.list, LongList::Open { depth, .. } if self.depth < depth) {
                    self.list = LongList::Passed;
                }
            }
            b',' => {
                if let LongList::Open { depth, comma, .. } = &mut self.list
                    && *depth == self.depth
                {
                    *comma = Some(self.at);
                }
            }
            _ => {}
        }
    }

    fn begin_list(&mut self, text: &[u8]) {
        let key = text.get(self.last_string.clone()).unwrap_or_default();
        let is_alone = text[..self.at].trim_ascii().is_empty();
        if is_alone || (self.depth == 1 && LIST_KEYS.contains(&key)) {
            let start = self.at + 1;
            let depth = self.depth + 1;
            let can_be_cut = start <= PREFIX_BYTES_MAX;
            self.list = if can_be_cut {
                LongList::Open { start, depth, comma: None }
            } else {
                LongList::Passed
            };
        } else if WHOLE_KEYS.contains(&key) {
            self.list = LongList::Passed;
        }
    }

    /// Returns true if the text goes on with an item of a list that stands alone: a request.
    pub(super) fn awaits_item(&self, text: &[u8]) -> bool {
        let is_between = self.depth == 1 && matches!(self.list, LongList::Open { depth: 1, .. });
        is_between && matches!(text.trim_ascii_end().last(), Some(b',' | b'['))
    }

    /// Cuts the text between two items of its list: `text` retains the part that can be read by
    /// itself, and the text to be read on is returned, with the number of line ends in its items.
    /// `None` if there is no such place.
    pub(super) fn cut(&mut self, text: &mut Vec<u8>) -> Option<(Vec<u8>, usize)> {
        let LongList::Open { start, depth, comma } = &mut self.list else { return None };
        let at = comma.take()?;
        let items = text[at + 1..].trim_ascii_start();
        let lines = memchr::memchr_iter(b'\n', items).count();
        let rest = [&text[..*start], items].concat();
        let gone = text.len() - rest.len();
        text.truncate(at);
        text.extend_from_slice(if *depth == 1 { b"]" } else { b"]}" });
        self.at -= gone;
        self.string_start = self.string_start.saturating_sub(gone);
        Some((rest, lines))
    }
}
