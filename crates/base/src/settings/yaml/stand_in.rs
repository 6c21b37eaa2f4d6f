//! Placeholders for characters that YAML allows only in quotes.
//!
//! Every JSON text is YAML, so a quoted scalar may hold DEL, C1 control characters, U+FFFE and
//! U+FFFF (YAML 1.2.2, section 5.1, `nb-json`). The parser accepts them nowhere. So each is
//! replaced before parsing by a private-use character that the text does not hold, and restored in
//! quoted scalars. One character replaces one, so places stay the same.

use std::borrow::Cow;

use hashbrown::HashSet;

/// Pairs of a character and its placeholder in one text.
pub(super) struct StandIns(Vec<(char, char)>);

/// First placeholder, in two planes of private use.
const FIRST: char = '\u{f0000}';

impl StandIns {
    /// Replaces the unsupported characters. A text that holds every private-use character is
    /// unchanged, and the parser reports the error.
    pub(super) fn replace(text: &str) -> (Cow<'_, str>, Self) {
        let mut needed: Vec<char> = text.chars().filter(|char| is_quoted_only(*char)).collect();
        if needed.is_empty() {
            return (Cow::Borrowed(text), Self(Vec::new()));
        }
        needed.sort_unstable();
        needed.dedup();
        let taken: HashSet<char> = text.chars().filter(|char| *char >= FIRST).collect();
        let free = (FIRST..='\u{10fffd}').filter(|char| !taken.contains(char));
        let pairs = Self(needed.into_iter().zip(free).collect());
        let replaced = text.chars().map(|char| pairs.stand_in(char).unwrap_or(char)).collect();
        (Cow::Owned(replaced), pairs)
    }

    /// Restores the replaced characters.
    pub(super) fn restore<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.first_in(text) {
            Some(_) => text.chars().map(|char| self.real(char).unwrap_or(char)).collect(),
            None => Cow::Borrowed(text),
        }
    }

    /// Returns the first replaced character in this text.
    pub(super) fn first_in(&self, text: &str) -> Option<char> {
        if self.0.is_empty() { None } else { text.chars().find_map(|char| self.real(char)) }
    }

    fn stand_in(&self, real: char) -> Option<char> {
        self.0.iter().find(|(known, _)| *known == real).map(|(_, stand_in)| *stand_in)
    }

    fn real(&self, stand_in: char) -> Option<char> {
        self.0.iter().find(|(_, known)| *known == stand_in).map(|(real, _)| *real)
    }
}

/// Returns true for a character in `nb-json` and not in `c-printable`.
fn is_quoted_only(char: char) -> bool {
    matches!(char, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_comes_back_and_places_stay() {
        for text in ["plain", "a\u{7f}b\u{9b}\u{7f}", "\u{f0000}\u{7f}\u{f0001}\u{ffff}"] {
            let (replaced, stand_ins) = StandIns::replace(text);
            assert!(!replaced.chars().any(is_quoted_only), "{text:?}");
            assert_eq!(replaced.chars().count(), text.chars().count());
            assert_eq!(stand_ins.restore(&replaced), text);
        }
    }

    #[test]
    fn a_text_without_a_free_character_keeps_its_own() {
        let full: String = (FIRST..='\u{10fffd}').chain(['\u{7f}']).collect();
        let (replaced, stand_ins) = StandIns::replace(&full);
        assert_eq!(stand_ins.restore(&replaced), full);
        assert!(replaced.contains('\u{7f}'));
    }
}
