//! Kinds that judge texts and values: the final output, or tools' arguments or results.

pub mod classification;
mod comparison;
pub mod contains;
pub mod exact_match;
pub mod json_similarity;
pub mod output_rules;
pub mod word_overlap;
