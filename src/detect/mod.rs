//! Texts to findings: personal data, secrets, injection, unfinished answers.
//!
//! In goes a text, out come the detectors that hit, with byte ranges. Detectors are data
//! ([`pack`]): an expression, the literals of which one must occur, and a check of the match. A
//! [prefilter] finds all literals in one pass, so that only the expressions of literals
//! that occur run at all. Nothing here knows an evaluator, a trace or a config.
//!
//! ```text
//! pack        detectors as they are written, compiled and run; packs/*.yaml are the built-in ones
//! prefilter   which detectors a text may hit at all
//! failure     whether a tool's result says that the call failed
//! normalise   the text as a reader sees it, with a map back to its bytes
//! validate    check digits and plausible ranges
//! redactor    values with placeholders for what is secret in them
//! js_regex    ECMAScript's patterns in linear time
//! ```

pub(crate) mod bytes;
mod caches;
pub mod failure;
pub(crate) mod js_regex;
pub(crate) mod letters;
pub(crate) mod limits;
pub mod normalise;
pub mod pack;
pub mod prefilter;
pub(crate) mod redact;
pub mod redactor;
mod severity;
pub(crate) mod validate;

pub use severity::Severity;
