//! Escaping of untrusted text, so that a terminal shows it and does not obey it.
//!
//! Names, arguments, results, error texts of backends and lines of configs come from others. An
//! escape sequence in one of them moves the cursor, hides lines or renames the window (ECMA-48). A
//! bidirectional mark reorders text; an invisible character makes two names look alike (Unicode
//! Technical Report 36). Each such character is shown as an escape. All output of untrusted text
//! uses one of three forms:
//!
//! | form | for | kept | escaped |
//! |---|---|---|---|
//! | [`line()`] | a field, a cell, a line of a log | nothing | `\n`, `\r`, `\t`, `\u{1b}` |
//! | [`lines`] | a text with its line layout | line feeds and tabs | `\u{1b}` |
//! | [`json`] | JSON Lines: the same values | line feeds, which end a record | `\u001b` |
//!
//! Escaped are the control characters (C0, DEL, C1), line and paragraph separators, the format
//! characters of Unicode (bidirectional marks, joiners, tags, soft hyphens, byte order marks) and
//! letters without a shape. Variation selectors stay: they style the character before them, and
//! emoji use them.

use std::fmt::{self, Display, Write};

/// Text with hidden characters shown as escapes; see [`line()`], [`lines`] and [`json`].
#[derive(Clone, Copy, Debug)]
pub struct Visible<T> {
    text: T,
    form: EscapeStyle,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EscapeStyle {
    Line,
    Lines,
    Json,
}

/// Shows a text in one line: line breaks and tabs are escaped, too.
pub fn line<T: Display>(text: T) -> Visible<T> {
    Visible { text, form: EscapeStyle::Line }
}

/// Shows a text with its lines and tabs.
pub fn lines<T: Display>(text: T) -> Visible<T> {
    Visible { text, form: EscapeStyle::Lines }
}

/// Shows JSON with hidden characters as equal string escapes. The JSON must be valid, with line
/// breaks only between records, so that the escaped characters are inside of strings.
pub fn json<T: Display>(text: T) -> Visible<T> {
    Visible { text, form: EscapeStyle::Json }
}

impl<T: Display> Display for Visible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping { out: f, form: self.form }, "{}", self.text)
    }
}

/// Writer that escapes hidden characters.
struct Escaping<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    form: EscapeStyle,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut shown = 0;
        for (at, char) in text.char_indices() {
            if is_hidden(char) && !self.form.keeps(char) {
                self.out.write_str(&text[shown..at])?;
                self.escape(char)?;
                shown = at + char.len_utf8();
            }
        }
        self.out.write_str(&text[shown..])
    }
}

impl Escaping<'_, '_> {
    fn escape(&mut self, char: char) -> fmt::Result {
        match (self.form, char) {
            (EscapeStyle::Json, _) => {
                let mut units = [0; 2];
                let mut units = char.encode_utf16(&mut units).iter();
                units.try_for_each(|unit| write!(self.out, "\\u{unit:04x}"))
            }
            (_, '\n') => self.out.write_str("\\n"),
            (_, '\r') => self.out.write_str("\\r"),
            (_, '\t') => self.out.write_str("\\t"),
            _ => write!(self.out, "\\u{{{:x}}}", u32::from(char)),
        }
    }
}

impl EscapeStyle {
    fn keeps(self, char: char) -> bool {
        match self {
            Self::Line => false,
            Self::Lines => matches!(char, '\n' | '\t'),
            Self::Json => char == '\n',
        }
    }
}

/// Returns true if a terminal would obey the character or show nothing.
///
/// The categories Cc, Zl and Zp; those of Cf without a shape (the number signs of Arabic and the
/// like have one); of the other default-ignorable characters (`DerivedCoreProperties.txt`) all but
/// the variation selectors.
pub fn is_hidden(char: char) -> bool {
    match char {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        _ => matches!(
            char,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e00ff}'
                | '\u{e01f0}'..='\u{e0fff}'
        ),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::{Map, Value, json as json_text};

    fn check(text: &str, in_a_line: &str, in_lines: &str) {
        assert_eq!(line(text).to_string(), in_a_line);
        assert_eq!(lines(text).to_string(), in_lines);
    }

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        check("\u{1b}]0;pwned\u{7}", r"\u{1b}]0;pwned\u{7}", r"\u{1b}]0;pwned\u{7}");
        check("a\nb\tc\rd", r"a\nb\tc\rd", "a\nb\tc\\rd");
        check("\u{7f}\u{85}\u{9b}31m", r"\u{7f}\u{85}\u{9b}31m", r"\u{7f}\u{85}\u{9b}31m");
        check("", "", "");
    }

    #[test]
    fn what_reorders_or_is_invisible_is_shown() {
        let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}']
            .into_iter()
            .chain(['\u{2069}', '\u{2028}', '\u{2029}', '\u{200b}', '\u{200d}', '\u{ad}'])
            .chain(['\u{feff}', '\u{3164}', '\u{e0041}', '\u{2060}', '\u{180e}']);
        for mark in marks {
            assert!(is_hidden(mark), "{mark:?}");
            let shown = line(format!("pay{mark}")).to_string();
            assert_eq!(shown, format!("pay\\u{{{:x}}}", u32::from(mark)));
        }
    }

    #[test]
    fn what_is_seen_stays() {
        for text in
            ["Zürich", "\u{202f}5 €", "日本語", "سلام", "❤\u{fe0f}👍🏽", r#"a\b "q""#, "\u{600}"]
        {
            check(text, text, text);
        }
    }

    #[test]
    fn padding_and_pieces_do_not_matter() {
        let pieces = format_args!("{}{:>3}{}", "\u{1b}", 7, '\u{202e}');
        assert_eq!(line(pieces).to_string(), r"\u{1b}  7\u{202e}");
    }

    /// Generates texts with many hidden characters.
    fn texts() -> impl Strategy<Value = String> {
        let hidden: Vec<char> = ('\0'..=char::MAX).filter(|char| is_hidden(*char)).collect();
        let hidden = prop::sample::select(hidden);
        let low = prop::char::range('\0', '\u{ff}');
        let general = prop::char::range('\u{2000}', '\u{206f}');
        let char = prop_oneof![low, general, hidden, any::<char>()];
        prop::collection::vec(char, 0..40).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn json_says_the_same_and_hides_nothing(text in texts(), key in texts()) {
            let value = Value::Map(Map::from([(key, Value::from(text))]));
            let shown = json(format_args!("{value}\n{value}\n")).to_string();
            let reference = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            prop_assert_eq!(shown.lines().count(), 2);
            for record in shown.lines() {
                prop_assert_eq!(json_text::parse(record), Ok(value.clone()));
                prop_assert_eq!(reference(record), reference(&value.to_string()));
            }
            prop_assert!(!shown.chars().any(|char| char != '\n' && is_hidden(char)));
        }

        #[test]
        fn nothing_hidden_is_left(text in texts()) {
            prop_assert!(!line(&text).to_string().chars().any(is_hidden));
            let shown = lines(&text).to_string();
            prop_assert!(!shown.chars().any(|char| is_hidden(char) && !"\n\t".contains(char)));
        }
    }
}
