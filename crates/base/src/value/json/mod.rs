//! JSON: one lexer, and readers and a writer of values.
//!
//! Strict RFC 8259 with these limits: [`DEPTH_MAX`] levels; lone surrogates in `\u` escapes become
//! U+FFFD. Numbers stay exact ([`Number`](super::Number)); one with a fraction or an exponent is a
//! double, and may overflow to infinity.
//!
//! All readers take their tokens from [`lexer`]: this one, Python's
//! ([`python::json`](super::python::json)), the transcoder of OTLP/JSON
//! ([`otlp::json`](crate::otlp::json)), the checker ([`skip`]) and the field finder ([`fields`]).

pub mod fields;
#[cfg(test)]
pub(crate) mod hard_texts;
pub mod lexer;
mod read;
pub mod skip;
mod write;

pub use read::{DEPTH_MAX, JsonError, parse, parse_prefix};
pub use write::{write, write_string, write_with};
