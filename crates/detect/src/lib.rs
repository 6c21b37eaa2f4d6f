//! Detection in texts: personal data, secrets, injection, unfinished answers.
//!
//! In: a text. Out: the detectors that hit, with byte ranges. Detectors are data ([`pack`]): an
//! expression, required literals, and a check of the match. A [prefilter] finds all literals in
//! one pass, so that only expressions whose literals occur run at all. Nothing here depends on
//! evaluators, traces or a config.
//!
//! ```text
//! pack        detectors as data, compiled and run; packs/*.yaml are the built-in ones
//! prefilter   gates: the detectors that a text can hit at all
//! automata    lazy DFAs, with a pool of their caches
//! tree        expressions that run by backtracking around their literals
//! failure     tool results to outcomes: failed, refused, interrupted or ordinary
//! normalise   the text as a reader sees it, with a map back to its bytes
//! validate    check digits and plausible ranges
//! redactor    values with placeholders for their secrets
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

/// Returns the memory share of the process for compiled expressions and lazy-DFA caches: one limit
/// for all users of rules.
pub fn memory() -> std::sync::Arc<spanscore_base::model::MemoryQuota> {
    automata::cache_pool::share()
}

/// Evicts all lazy-DFA caches, for an idle process; they are computed again when needed.
pub fn forget() {
    automata::cache_pool::forget();
}
