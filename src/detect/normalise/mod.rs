//! Normalisation: the text as a reader sees it, with a map back to the bytes as they came.

pub(in crate::detect) mod encoded;
pub(in crate::detect) mod escaped;
pub(in crate::detect) mod leet;
pub(in crate::detect) mod shadow;
pub(in crate::detect) mod spaced;
