//! Placeholders: names of values by kind and number.

use hashbrown::HashMap;

/// Source of placeholders: the same one for the same value of a kind.
pub trait Placeholders {
    /// Returns the placeholder of a value, such as `[EMAIL_1]`, for a kind such as `EMAIL`.
    fn placeholder(&mut self, word: &str, value: &str) -> String;
}

/// Numbers of the values of each kind, in the order of replacement.
#[derive(Default)]
pub struct PlaceholderNumbers(HashMap<String, HashMap<String, usize>>);

impl Placeholders for PlaceholderNumbers {
    fn placeholder(&mut self, word: &str, value: &str) -> String {
        let known = self.0.entry_ref(word).or_default();
        let next = known.len() + 1;
        let number = *known.entry_ref(value).or_insert(next);
        format!("[{word}_{number}]")
    }
}

/// Returns the placeholder word for a kind of finding.
pub(super) fn word(kind: &str) -> String {
    let upper =
        kind.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    upper.collect()
}
