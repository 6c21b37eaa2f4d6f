//! Evaluators that answer later: judges (language models) and external programs and services.
//!
//! Each kind has a dispatcher beside the shards, with limits of concurrency, rate, time and money;
//! `scheduler` is what they share.

pub mod external;
pub mod judge;
mod scheduler;
