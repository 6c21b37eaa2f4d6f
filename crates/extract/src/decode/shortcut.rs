//! Shortcuts of decoders: outcomes that a text's first bytes show without running the steps.

use super::{DecodeStep, Decoded, repr};

/// Outcome for a JSON object or list: most arguments are such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfJson {
    /// The object or list itself.
    Kept,
    /// The object or list without its wrapper.
    Unwrapped,
    /// Known only from the steps.
    #[default]
    Other,
}

impl OfJson {
    pub(super) fn of(alternatives: &[Vec<DecodeStep>]) -> Self {
        let reads = |step: &DecodeStep| {
            matches!(
                step,
                DecodeStep::Json
                    | DecodeStep::JsonOrText
                    | DecodeStep::JsonOrPyliteral
                    | DecodeStep::JsonOrPyOrText
            )
        };
        match alternatives {
            [chain] => match &chain[..] {
                [first, rest @ ..] if reads(first) && rest.iter().all(reads) => Self::Kept,
                [first, rest @ .., DecodeStep::Unwrap]
                    if reads(first) && rest.iter().all(reads) =>
                {
                    Self::Unwrapped
                }
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// Outcome for plain words ([`is_words`]): most results are such, and most decoders look for
/// something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfWords {
    /// The words themselves.
    #[default]
    Kept,
    /// Nothing.
    Nothing,
    /// Known only from the steps.
    Other,
}

impl OfWords {
    pub(super) fn of(alternatives: &[Vec<DecodeStep>]) -> Self {
        for chain in alternatives {
            match Self::of_chain(chain) {
                Self::Nothing => {}
                other => return other,
            }
        }
        if alternatives.is_empty() { Self::Kept } else { Self::Nothing }
    }

    fn of_chain(chain: &[DecodeStep]) -> Self {
        for step in chain {
            match step {
                DecodeStep::Value
                | DecodeStep::JsonOrText
                | DecodeStep::JsonOrPyOrText
                | DecodeStep::Unwrap
                | DecodeStep::UnwrapResult
                | DecodeStep::ContentText
                | DecodeStep::ToolMessage
                | DecodeStep::ToolOutput => {}
                DecodeStep::Path(_)
                | DecodeStep::Part { .. }
                | DecodeStep::ToolMessageId
                | DecodeStep::ToolMessageName
                | DecodeStep::ToolMessageError => return Self::Nothing,
                _ => return Self::Other,
            }
        }
        Self::Kept
    }
}

/// Outcome of a decoder for a text, as far as the text shows it.
#[derive(Debug)]
pub enum Shortcut<'a> {
    /// It decodes to this.
    Decoded(Decoded<'a>),
    /// It decodes to nothing.
    Nothing,
    /// Only the steps show it.
    Unknown,
}

/// Returns true if a text begins with a letter and not like a word of JSON, so that it is neither
/// JSON nor a literal with brackets.
pub(super) fn is_words(text: &str) -> bool {
    let is_json_word = || ["true", "false", "null"].iter().any(|word| text.starts_with(word));
    let begins_so = text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    begins_so && !is_json_word() && !repr::may_print_fields(text)
}
