//! Prefilter: the detectors that a text can hit at all, by one pass for all literals.

pub(crate) mod gates;
pub(crate) mod grams;
pub(crate) mod profile;
mod short;
pub(crate) mod sieve;
