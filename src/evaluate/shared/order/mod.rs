//! How much of an expected order was kept: longest common subsequences.

pub mod lcs;
pub mod subsequence;
