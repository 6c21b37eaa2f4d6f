//! Evaluators that answer later: judges (language models) and external programs and services.
//!
//! Each kind has a dispatcher beside the shards, with limits of concurrency, rate, time and money.
//! They share `scheduler`.

pub mod external;
pub mod judge;
mod scheduler;
