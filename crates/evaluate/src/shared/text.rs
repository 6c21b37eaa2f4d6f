//! Text comparison as in Dokimos, independent of locale.
//!
//! The rules are those of the Java library calls used by Dokimos (`String.isBlank`, `trim`,
//! `equalsIgnoreCase`), which differ from Rust's for some Unicode characters.

/// Returns true if a text is blank. No-break spaces, U+0085 and zero-width characters are not white
/// space; the separators U+001C to U+001F are.
#[inline]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_white_space)
}

fn is_white_space(c: char) -> bool {
    match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        _ => c.is_whitespace(),
    }
}

/// Strips space and control characters (U+0000 to U+0020) at both ends.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// Returns the case-folded form of a character: the one-to-one lower case of its one-to-one upper
/// case.
pub fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let upper = single(c.to_uppercase()).unwrap_or(c);
    match upper {
        '\u{130}' => 'i',
        _ => single(upper.to_lowercase()).unwrap_or(upper),
    }
}

fn single(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next()?;
    mapped.next().is_none().then_some(first)
}

/// Returns true if two texts are equal ignoring case.
pub fn equal_ignoring_case(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        return a.eq_ignore_ascii_case(b);
    }
    a.chars().map(fold).eq(b.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_follows_the_list_of_white_space() {
        for blank in ["", " \t\n", "\u{3000}\u{2003}", "\u{1c}\u{1f}\u{b}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for text in ["x", "\u{a0}", "\u{85}", "\u{200b}", "\u{feff}", "\u{2007}", "\u{202f}"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn trim_keeps_no_break_space() {
        assert_eq!(trim("\u{1} a b\t\u{a0}"), "a b\t\u{a0}");
    }

    #[test]
    fn case_folds_one_character_to_one() {
        let check = |a: &str, b: &str, equal: bool| {
            assert_eq!(equal_ignoring_case(a, b), equal, "{a} {b}");
        };
        check("PARIS", "paris", true);
        check("ß", "ẞ", true);
        check("ſ", "S", true);
        check("ς", "Σ", true);
        check("µ", "μ", true);
        check("\u{212a}", "k", true);
        check("İ", "ı", true);
        check("I", "İ", true);
        check("ß", "ss", false);
        check("fi", "ﬁ", false);
        check("é", "e\u{301}", false);
    }
}
