//! Evaluators that answer later: judges (language models) and external programs and services.
//!
//! Each has a scheduler beside the shards, with limits of concurrency, rate, time and money.

pub mod external;
pub mod judge;
