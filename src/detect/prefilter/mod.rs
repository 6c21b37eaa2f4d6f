//! Prefilter: the detectors that a text can hit at all, from one pass for all literals.

pub(in crate::detect) mod gates;
pub(in crate::detect) mod grams;
pub(in crate::detect) mod profile;
mod short;
pub(in crate::detect) mod sieve;
