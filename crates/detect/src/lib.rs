//! Texts to findings: personal data, secrets, injection, unfinished answers.
//!
//! In goes a text, out come the detectors that hit, with byte ranges. Detectors are data
//! ([`pack`]): an expression, the literals of which one must occur, and a check of the match. A
//! [prefilter] finds all literals in one pass, so that only the expressions of literals
//! that occur run at all. Nothing here knows an evaluator, a trace or a config.
//!
//! ```text
//! pack        detectors as they are written, compiled and run; packs/*.yaml are the built-in ones
//! prefilter   gates: the detectors that a text can hit at all
//! automata    lazy DFAs, with a pool of their caches
//! tree        expressions that run by backtracking where their literals stand
//! failure     tool results to outcomes: failed, refused, interrupted or ordinary
//! normalise   the text as a reader sees it, with a map back to its bytes
//! validate    check digits and plausible ranges
//! redactor    values with placeholders for what is secret in them
//! js_regex    ECMAScript's patterns in linear time
//! ```

mod automata;
pub mod bytes;
pub mod failure;
pub mod js_regex;
pub mod letters;
pub mod limits;
pub mod normalise;
pub mod pack;
pub mod prefilter;
pub mod redactor;
mod severity;
mod tree;
pub(crate) mod validate;

pub use severity::Severity;

/// Returns the memory share of compiled expressions and lazy-DFA caches, of the whole process:
/// counted and held within one limit, wherever rules run.
pub fn memory() -> std::sync::Arc<spanscore_base::model::MemoryQuota> {
    automata::cache_pool::share()
}

/// Evicts all lazy-DFA caches, for when there is nothing to read: they are worked out again.
pub fn forget() {
    automata::cache_pool::forget();
}
