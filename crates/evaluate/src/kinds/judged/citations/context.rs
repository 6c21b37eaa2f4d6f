//! Context of citations: code, starts of lines, lists of sources.
//!
//! Each byte is read a bounded number of times, since an answer can be one long line.

use std::ops::Range;

use super::find::Citation;

/// Limit on the words of a title before an address in a list of sources.
const TITLE_WORDS_MAX: usize = 3;
/// Characters after a number in brackets that are searched for the end of its sentence.
const CHAIN_CHARS: usize = 60;
/// Number of backticks that opens a block instead of a span within a line.
const FENCE_TICKS: usize = 3;

/// Context of a number in brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberContext {
    /// Only a list mark precedes it on its line.
    LineStart,
    /// Prose.
    Prose,
    /// Directly after a word, like an index in code: a citation only if a line explains it.
    Attached,
    /// Code between backticks: no citation.
    Code,
}

/// Reader that advances from one match to the next.
pub(super) struct ContextReader<'t> {
    text: &'t str,
    /// End of the last match.
    end: usize,
    /// End of the last match counted as a citation.
    cited_end: usize,
    /// Number of backticks that opened the current code; 0 outside of code.
    ticks: usize,
}

impl<'t> ContextReader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, end: 0, cited_end: 0, ticks: 0 }
    }

    /// Reads up to the next match; returns the context of a number there.
    pub(super) fn read_to(&mut self, place: &Range<usize>) -> NumberContext {
        let gap = &self.text[self.end..place.start];
        self.read_ticks(gap);
        let begins_line = match gap.rsplit_once('\n') {
            Some((_, before)) => is_list_mark(before),
            None => self.end == 0 && is_list_mark(gap),
        };
        let is_chained = self.cited_end == place.start && place.start > 0;
        self.end = place.end;
        let context = if self.ticks > 0 {
            NumberContext::Code
        } else if begins_line {
            NumberContext::LineStart
        } else if is_chained || !self.is_attached(place) {
            NumberContext::Prose
        } else {
            NumberContext::Attached
        };
        if matches!(context, NumberContext::LineStart | NumberContext::Prose) {
            self.cited_end = place.end;
        }
        context
    }

    /// Opens and closes code. Code opened by one or two backticks ends with its line.
    fn read_ticks(&mut self, gap: &str) {
        let bytes = gap.as_bytes();
        let mut at = 0;
        for next in memchr::memchr2_iter(b'`', b'\n', bytes) {
            if next < at {
                continue;
            }
            let run = bytes[next..].iter().take_while(|byte| **byte == b'`').count();
            at = next + run.max(1);
            self.ticks = match (run, self.ticks) {
                (0, open) if open < FENCE_TICKS => 0,
                (0, open) => open,
                (run, 0) => run,
                (run, open) if run == open || open >= FENCE_TICKS && run > open => 0,
                (_, open) => open,
            };
        }
    }

    /// Returns true for brackets directly after a word or a bracket, unless they end a sentence
    /// (`It rains[1].`). Scripts without spaces have no such words.
    fn is_attached(&self, place: &Range<usize>) -> bool {
        let before = self.text[..place.start].chars().next_back();
        let is_word = before.is_some_and(|c| c.is_ascii_alphanumeric() || "_)]".contains(c));
        is_word && (before == Some(']') || !ends_sentence(&self.text[place.end..]))
    }
}

/// Returns true if the sentence ends here, or after further numbers in brackets.
fn ends_sentence(after: &str) -> bool {
    let mut after =
        after.chars().take(CHAIN_CHARS).skip_while(|c| c.is_ascii_digit() || "[]^-–".contains(*c));
    match after.next() {
        None | Some('\n') => true,
        Some('.' | '!' | '?') => after.next().is_none_or(|c| c.is_whitespace() || c == '*'),
        _ => false,
    }
}

fn is_list_mark(before: &str) -> bool {
    before.chars().all(|c| c.is_whitespace() || matches!(c, '-' | '*' | '•'))
}

/// Returns true for each citation in a line that only lists sources: besides citations, it has list
/// marks and at most a short title that ends with a colon or dash.
pub(super) fn listed(text: &str, found: &[Citation]) -> Vec<bool> {
    let is_one_line = |one: &Citation, next: &Citation| {
        text.get(one.place.end..next.place.start).is_none_or(|gap| !gap.contains('\n'))
    };
    let lines = found.chunk_by(is_one_line).flat_map(|line| {
        let is_listed = lists_only(text, line);
        line.iter().map(move |_| is_listed)
    });
    lines.collect()
}

fn lists_only(text: &str, line: &[Citation]) -> bool {
    let (Some(first), Some(last)) = (line.first(), line.last()) else { return false };
    let before = &text[..first.place.start];
    let before = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    let behind = text[last.place.end..].split('\n').next().unwrap_or_default();
    let gaps = line.windows(2).filter_map(|pair| {
        let [one, next] = pair else { return None };
        text.get(one.place.end..next.place.start)
    });
    is_title(before) && gaps.chain([behind]).all(|gap| !gap.contains(char::is_alphanumeric))
}

/// Returns true for list marks, with or without a short title that ends with a colon or dash.
fn is_title(before: &str) -> bool {
    let is_closed =
        || before.trim_end_matches([' ', '<', '(']).ends_with([':', '：', '-', '–', '—']);
    match words(before).take(TITLE_WORDS_MAX + 1).count() {
        0 => true,
        count => count <= TITLE_WORDS_MAX && is_closed(),
    }
}

/// Returns the first characters of words; a letter of a script without spaces is a word.
fn words(text: &str) -> impl Iterator<Item = char> {
    let mut is_inside = false;
    text.chars().filter(move |c| {
        let is_letter = c.is_alphabetic();
        let begins = is_letter && (!is_inside || is_unspaced(*c));
        is_inside = is_letter;
        begins
    })
}

/// Returns true for letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer,
/// Chinese and Japanese.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::super::find::citations;
    use super::*;

    fn check(text: &str, expected: &[bool]) {
        let found = citations(text, 20).expect("few");
        assert_eq!(listed(text, &found), expected, "{text}");
    }

    #[test]
    fn a_line_lists_sources_where_it_says_nothing_else() {
        check("- https://a.example\n2. <https://b.example>\n[3]: https://c.example", &[true; 3]);
        check("Sources: https://a.example, https://b.example.", &[true, true]);
        check("- Rome today - https://a.example\n- 天气：https://b.example", &[true, true]);
        check("It rains https://a.example", &[false]);
        check("- In Rome it rains today: https://a.example", &[false]);
        check("巴黎今天下雨：https://a.example", &[false]);
        check("巴黎今天下雨，见https://a.example。", &[false]);
        check("https://a.example says rain.\nhttps://b.example", &[false, true]);
        check("Rain: https://a.example and sun: https://b.example", &[false, false]);
    }
}
