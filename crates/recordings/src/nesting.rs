//! Nesting tracker of a growing JSON text: its depth, and the places where a long list can be
//! split.
//!
//! A top-level list, or an object's first list under one of [`LIST_KEYS`], is split between two of
//! its items. The text before the list is repeated in front of each part, so that each part is a
//! shorter text of the same form.

use std::ops::Range;

/// Keys of lists that can be split: OTLP/JSON, Tempo's `batches`, the `data` of Jaeger, Phoenix and
/// Langfuse. The object's other fields do not concern single items.
const LIST_KEYS: [&[u8]; 5] =
    [b"resourceSpans", b"resourceLogs", b"resourceMetrics", b"batches", b"data"];
/// Keys of lists whose items need fields after the list: a trace of Jaeger, of Langfuse.
const WHOLE_KEYS: [&[u8]; 2] = [b"spans", b"observations"];
/// Longest text before a split list, bytes: each part repeats it.
const PREFIX_BYTES_MAX: usize = 4 << 10;

/// State of the list that may be split.
#[derive(Default)]
enum LongList {
    /// No list has begun.
    #[default]
    Unseen,
    /// Inside the list, whose items have this depth.
    Open { start: usize, depth: usize, comma: Option<usize> },
    /// The list has ended, or cannot be split.
    Passed,
}

/// Tracker of a growing text.
#[derive(Default)]
pub(super) struct Nesting {
    /// Bytes read; one beyond the end after a final `\`.
    at: usize,
    depth: usize,
    in_string: bool,
    /// Start of the current or last string.
    string_start: usize,
    /// Range of the last string directly in the outermost object or list.
    last_string: Range<usize>,
    list: LongList,
}

impl Nesting {
    /// Reads to the end of the text; returns true if nothing is open there.
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
        // No string spans lines, so a quote is missing and the text is invalid.
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

    /// Returns true if the text continues with an item of a top-level list: a request.
    pub(super) fn awaits_item(&self, text: &[u8]) -> bool {
        let is_between = self.depth == 1 && matches!(self.list, LongList::Open { depth: 1, .. });
        is_between && matches!(text.trim_ascii_end().last(), Some(b',' | b'['))
    }

    /// Splits the text between two items of its list: `text` keeps a complete part; the returned
    /// text is still to be read, with the number of line ends in its items. `None` without such a
    /// place.
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
