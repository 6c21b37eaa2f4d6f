//! Mistakes in matchers, with remedies.

use spanscore_base::settings::{SettingsError, meant_or};

/// Words under `$is`.
pub(super) const WORDS: &[&str] = &[
    "any", "absent", "near", "pattern", "one_of", "range", "unordered", "contains", "instant",
    "text", "json", "equals",
];
/// Options of `near` and `text`.
const OPTIONS: &[&str] = &["within", "trim", "fold_case", "nfc"];

/// Mistake in a matcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatcherMistake {
    /// Unknown word.
    #[error("`{0}` is no matcher")]
    Unknown(String),
    /// No word, or a value that is neither a word nor a map of one.
    #[error("`$is` is empty")]
    Nothing,
    /// Two incompatible words.
    #[error("`{0}` and `{1}` do not go together")]
    Both(String, String),
    /// Word with a value of the wrong type.
    #[error("`{0}` takes {1}")]
    Form(&'static str, &'static str),
    /// Word without a required other one.
    #[error("`{0}` lacks `{1}`")]
    Lacks(&'static str, &'static str),
    /// Invalid pattern.
    #[error("`pattern` is not valid: {0}")]
    Pattern(String),
    /// Absence of something without a key.
    #[error("`absent` goes only with the entry of an object")]
    AbsentItem,
}

impl MatcherMistake {
    /// Returns the remedy.
    fn help(&self) -> String {
        match self {
            Self::Unknown(word) => meant_or(word, WORDS.iter().chain(OPTIONS).copied(), || {
                format!(
                    "known are {}; write `equals` for a value that looks like a matcher",
                    WORDS.join(", ")
                )
            }),
            Self::Nothing => {
                "write a word, such as `{$is: any}` or `{$is: {pattern: '^A-'}}`".into()
            }
            Self::Both(..) => "write one rule".into(),
            Self::Form(..) | Self::Pattern(_) => "see Matchers in docs/evaluators.md".into(),
            Self::Lacks(_, word) => format!("add `{word}`"),
            Self::AbsentItem => "leave it out of the list".into(),
        }
    }

    /// Returns the mistaken word, by which it is located.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Unknown(word) | Self::Both(_, word) => word,
            Self::Form(word, _) | Self::Lacks(word, _) => word,
            Self::Pattern(_) => "pattern",
            Self::Nothing | Self::AbsentItem => "",
        }
    }
}

impl From<MatcherMistake> for SettingsError {
    fn from(mistake: MatcherMistake) -> Self {
        Self::new(mistake.to_string()).with_help(mistake.help())
    }
}
