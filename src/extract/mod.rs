//! Spans and log events to tool calls.
//!
//! ```text
//! dialect   how an instrumentation writes tool calls: data
//! table     dialects compiled into one key look-up and bit tests
//! collect   an encoded request -> records for each shard, one pass per span
//! path      what the keys of a span mean together, remembered from request to request
//! recipe    what becomes of a span: worked out once for each path and the statements that hold
//! logs      the same for log events
//! facts     the form of a record's facts: written by `collect`, read when a trace is complete
//! ```

pub mod decode;
pub mod dialect;
pub mod record;
pub mod resolve;
pub mod table;

#[cfg(test)]
mod testing;
