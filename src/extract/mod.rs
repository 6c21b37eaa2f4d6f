//! Spans and log events to tool calls.

pub mod decode;
pub mod dialect;
