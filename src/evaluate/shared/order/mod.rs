//! How much of an expected order was kept: longest common subsequences.

pub(crate) mod grouped;
pub mod lcs;
pub mod subsequence;
