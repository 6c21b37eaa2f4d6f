//! Errors in an expression.

use super::VARIABLES;

/// Compile error of an expression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WhenError {
    /// The text is not CEL.
    #[error("{message}")]
    Syntax {
        /// Line within the expression, from 1.
        line: usize,
        /// Column within the line, from 1.
        column: usize,
        /// Message of the CEL parser.
        message: String,
    },
    /// A pattern is computed from data: compiled for each trace, its cost would be up to the
    /// sender.
    #[error("the pattern of `matches` must be a quoted text, such as `name.matches('^get_')`")]
    PatternOfData,
    /// A pattern of `matches` is not a valid regular expression.
    #[error("not a pattern: {message}")]
    Pattern {
        /// Message of the pattern's parser.
        message: String,
    },
    /// `json` is applied to something other than an attribute.
    #[error("`json` takes an attribute, such as `json(attributes[\"metadata\"])`")]
    NoAttribute,
    /// It calls an unknown function.
    #[error("unknown function `{name}`")]
    UnknownFunction {
        /// Unknown function.
        name: String,
    },
    /// It never gives a boolean.
    #[error("it gives {what}, neither true nor false")]
    NoTruthValue {
        /// Description of its result type.
        what: &'static str,
    },
    /// It compares a text with another type, which is never true.
    #[error("`{name}` is a text")]
    OtherThanText {
        /// Variable of the text.
        name: String,
    },
    /// It uses an unknown variable.
    #[error("unknown name `{name}`; known are {}", VARIABLES.join(", "))]
    UnknownName {
        /// Unknown variable.
        name: String,
    },
}
