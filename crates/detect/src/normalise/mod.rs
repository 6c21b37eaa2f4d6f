//! Normalisation: the text as a reader sees it, with a map back to the original bytes.

pub(crate) mod encoded;
pub(crate) mod escaped;
pub(crate) mod leet;
pub(crate) mod shadow;
pub(crate) mod spaced;
