//! Shortcuts of decoders: outcomes predicted from a text's first bytes.

use super::{DecodeStep, Decoded, repr};

/// Outcome for a JSON object or list, the usual form of arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfJson {
    /// The object or list itself.
    Kept,
    /// The object or list without its wrapper.
    Unwrapped,
    /// Known only after decoding.
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

/// Outcome for plain words ([`is_words`]), the usual form of results, which most decoders reject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfWords {
    /// The words themselves.
    #[default]
    Kept,
    /// No value.
    Nothing,
    /// Known only after decoding.
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

/// Predicted outcome of a decoder for a text.
#[derive(Debug)]
pub enum Shortcut<'a> {
    /// Decoded value.
    Decoded(Decoded<'a>),
    /// No value.
    Nothing,
    /// Known only after decoding.
    Unknown,
}

/// Returns true if a text starts with a letter but not like a JSON keyword, so that it is neither
/// JSON nor a bracketed literal.
pub(super) fn is_words(text: &str) -> bool {
    let is_json_word = || ["true", "false", "null"].iter().any(|word| text.starts_with(word));
    let begins_so = text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    begins_so && !is_json_word() && !repr::may_print_fields(text)
}
