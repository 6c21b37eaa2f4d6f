//! Remedies for a text in the place of a number, a list or a map.

use super::SettingsError;
use super::duration::duration;

/// Words for no number.
const NOTHING: [&str; 6] = ["none", "nil", "off", "no", "unlimited", "infinite"];

impl SettingsError {
    /// Suggests the number that a text holds: a percentage, a ratio, a sign before it.
    pub(super) fn or_share(self, text: &str) -> Self {
        let percent = text.strip_suffix('%').and_then(|digits| digits.trim().parse::<f64>().ok());
        // `$5`, `>= 0.8`, `0.9,`
        let bare = text.trim_matches(|c: char| "$<>=, ".contains(c));
        let parts = text.split_once('/').map(|(part, whole)| (part.trim(), whole.trim()));
        let ratio = parts.and_then(|(part, whole)| {
            Some(part.parse::<f64>().ok()? / whole.parse::<f64>().ok().filter(|it| *it > 0.0)?)
        });
        let number = ratio.or_else(|| bare.parse().ok().filter(|_| bare != text));
        match (percent, number) {
            (Some(percent), _) => self.with_help(format!("write {} for {text}", percent / 100.0)),
            (None, Some(number)) => self.with_help(format!("write {number}")),
            (None, None) => self,
        }
    }

    /// Suggests to leave out what is a word for no number.
    pub(super) fn or_nothing(self, text: &str) -> Self {
        let is_none = NOTHING.contains(&&*text.to_lowercase());
        if is_none { self.with_help("leave it out") } else { self }
    }

    /// Suggests the list of numbers if a text such as `1-5` holds as many as expected.
    pub(super) fn or_numbers(self, text: &str, expected: &str) -> Self {
        let digits = text.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<u64> = digits.filter_map(|digits| digits.parse().ok()).collect();
        let is_all = expected == format!("a list of {}", numbers.len());
        if is_all { self.with_help(format!("write {numbers:?}")) } else { self }
    }

    /// Suggests the bare number if the text is one in quotes, or begins with one.
    pub(super) fn or_bare(self, text: &str, is_number: bool) -> Self {
        if self.help.is_some() || !text.starts_with(|c: char| c.is_ascii_digit()) {
            return self;
        }
        self.with_help(if is_number {
            "write it without quotes"
        } else {
            "write it in digits alone: no unit, no sign between them"
        })
    }
}

/// Splits a text at commas; a text with spaces inside is one part.
pub(super) fn parts_of(text: &str) -> Vec<&str> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let are_words = parts.iter().all(|part| !part.is_empty() && !part.contains(' '));
    if are_words { parts } else { vec![text] }
}

/// Splits a setting from its value where a space or `=` stands for the colon.
pub(super) fn separated<'t>(text: &'t str, fields: &[&str]) -> Option<(&'t str, &'t str)> {
    let (key, value) = text.split_once(['=', ' '])?;
    let value = value.trim_start_matches([' ', '=']).trim_end();
    let is_one = !value.is_empty() && !value.contains([' ', ':', '=']);
    let key = key.trim();
    (is_one && fields.contains(&key)).then_some((key, value))
}

/// Returns the setting that a text in place of a map is meant for, with its value: `key = value`, a
/// path, an address or a model.
pub(super) fn main_setting(text: &str, fields: &[&str]) -> Option<String> {
    if let Some((key, value)) = separated(text, fields) {
        return Some(format!("{key}: {value}"));
    }
    if fields.contains(&text) {
        return Some(format!("{text}:` below it, or `{{{text}: }}"));
    }
    let is_place = text.contains(['.', '/', ':']) && !text.contains(' ');
    let mains: &[&str] = if is_place { &["path", "file", "endpoint"] } else { &["age", "model"] };
    let main = mains.iter().find(|main| fields.contains(main))?;
    if *main == "age" && duration(text).is_none() {
        return None;
    }
    Some(format!("{main}: {text}"))
}
