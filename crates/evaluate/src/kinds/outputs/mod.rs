//! Kinds that judge texts and values: the final output, or arguments or results of tools.

pub mod classification;
mod comparison;
pub mod contains;
pub mod exact_match;
pub mod json_similarity;
pub mod output_rules;
pub mod word_overlap;
