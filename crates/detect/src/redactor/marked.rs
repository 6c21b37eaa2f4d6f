//! Text with placeholders, which never contain findings.

use std::borrow::Cow;
use std::ops::Range;

/// Text with the ranges of its placeholders, in order.
pub(super) struct MarkedText<'t> {
    text: Cow<'t, str>,
    placeholders: Vec<Range<usize>>,
}

impl<'t> MarkedText<'t> {
    /// Takes a text without placeholders.
    pub(super) fn of(text: &'t str) -> Self {
        Self { text: Cow::Borrowed(text), placeholders: Vec::new() }
    }

    /// Takes a text with placeholders of one word.
    pub(super) fn with(text: String, word: &str) -> Self {
        let begin = format!("[{word}");
        let placeholders = memchr::memmem::find_iter(text.as_bytes(), begin.as_bytes());
        let placeholders = placeholders.filter_map(|at| {
            let rest = &text.as_bytes()[at + begin.len()..];
            let number = rest.iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
            (rest.get(number) == Some(&b']')).then(|| at..at + begin.len() + number + 1)
        });
        let placeholders = placeholders.collect();
        Self { text: Cow::Owned(text), placeholders }
    }

    /// Returns the text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if it is still the original text.
    pub(super) fn is_unchanged(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    /// Returns the text, if changed.
    pub(super) fn into_changed(self) -> Option<String> {
        match self.text {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        }
    }

    /// Widens findings, in order, to the ranges for replacement. A finding that reaches into a
    /// placeholder includes all of it; a finding within placeholders is dropped.
    pub(super) fn widened<W>(&self, found: Vec<(Range<usize>, W)>) -> Vec<(Range<usize>, W)> {
        let mut widened: Vec<(Range<usize>, W)> = Vec::new();
        for (range, word) in found {
            let mut wide = range.clone();
            let mut bare = range.len();
            let first = self.placeholders.partition_point(|it| it.end <= range.start);
            let reached = self.placeholders[first..].iter();
            for placeholder in reached.take_while(|it| it.start < range.end) {
                bare -= placeholder.end.min(range.end) - placeholder.start.max(range.start);
                wide = wide.start.min(placeholder.start)..wide.end.max(placeholder.end);
            }
            match widened.last_mut() {
                _ if bare == 0 => {}
                Some((last, _)) if wide.start < last.end => last.end = last.end.max(wide.end),
                _ => widened.push((wide, word)),
            }
        }
        widened
    }

    /// Returns the text with names in place of sorted findings; `None` if it would exceed the
    /// length limit.
    pub(super) fn replaced<N: AsRef<str>>(
        &self,
        found: impl Iterator<Item = (Range<usize>, N)>,
        bytes_max: usize,
    ) -> Option<MarkedText<'static>> {
        let mut out = String::with_capacity(self.text.len());
        let mut placeholders = Vec::new();
        let mut from = 0;
        for (range, name) in found {
            self.copy(from..range.start, &mut out, &mut placeholders);
            let start = out.len();
            out.push_str(name.as_ref());
            if out.len() > bytes_max {
                return None;
            }
            placeholders.push(start..out.len());
            from = range.end;
        }
        self.copy(from..self.text.len(), &mut out, &mut placeholders);
        (out.len() <= bytes_max).then_some(MarkedText { text: Cow::Owned(out), placeholders })
    }

    /// Appends a part with its placeholders.
    fn copy(&self, part: Range<usize>, out: &mut String, placeholders: &mut Vec<Range<usize>>) {
        let first = self.placeholders.partition_point(|it| it.start < part.start);
        let within = self.placeholders[first..].iter().take_while(|it| it.end <= part.end);
        let moved = |at: usize| out.len() + at - part.start;
        placeholders.extend(within.map(|it| moved(it.start)..moved(it.end)));
        out.push_str(&self.text[part]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_into_a_placeholder_takes_it_with_it() {
        let first = MarkedText::of("user:hunter22@host").replaced([(5..13, "[A]")].into_iter(), 99);
        let marked = first.expect("short");
        assert_eq!(marked.text(), "user:[A]@host");
        let widened = marked.widened(vec![(6..7, "within"), (7..10, "behind")]);
        assert_eq!(widened, [(5..10, "behind")]);
        let marked = marked.replaced([(9..13, "[B]")].into_iter(), 99).expect("short");
        assert_eq!(marked.text(), "user:[A]@[B]");
        assert!(marked.widened(vec![(5..8, "first"), (10..11, "second")]).is_empty());
    }

    #[test]
    fn a_text_that_would_become_too_long_is_none() {
        let found = || (0..8).map(|at| (at..at + 1, "[X]"));
        assert!(MarkedText::of("xxxxxxxx").replaced(found(), 24).is_some());
        assert!(MarkedText::of("xxxxxxxx").replaced(found(), 23).is_none());
    }
}
