//! Mistakes in an expression.

use super::VARIABLES;

/// Compile error of an expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WhenError {
    /// It is not CEL.
    #[error("{message}")]
    Syntax {
        /// Line within the expression, from 1.
        line: usize,
        /// Column within the line, from 1.
        column: usize,
        /// Message of the CEL parser.
        message: String,
    },
    /// A pattern is computed from data: compiled for each trace, it would cost whatever a sender
    /// likes.
    #[error("the pattern of `matches` is not a text written in the expression")]
    PatternOfData,
    /// A pattern of `matches` is not a valid regular expression.
    #[error("not a pattern: {message}")]
    Pattern {
        /// Message of the pattern's parser.
        message: String,
    },
    /// `json` is asked for something else than an attribute.
    #[error("`json` takes an attribute, such as `json(attributes[\"metadata\"])`")]
    NoAttribute,
    /// It calls a function that does not exist.
    #[error("unknown function `{name}`")]
    UnknownFunction {
        /// Unknown function.
        name: String,
    },
    /// It never gives a truth value, whatever the trace.
    #[error("it gives {what}, neither true nor false")]
    NoTruthValue {
        /// Kind of value that it gives, in words.
        what: &'static str,
    },
    /// It compares a text with something else, which is never true.
    #[error("`{name}` is a text")]
    OtherThanText {
        /// Name of the text.
        name: String,
    },
    /// It uses a name that does not exist.
    #[error("unknown name `{name}`; known are {}", VARIABLES.join(", "))]
    UnknownName {
        /// Unknown name.
        name: String,
    },
}
