//! Shared vocabulary of the stages: spans, tool calls and evaluations; values; OTLP on the wire;
//! settings with their places.
//!
//! Plain data without I/O: no clock, no runtime, no network.

pub mod glob;
pub mod model;
pub mod otlp;
pub mod panics;
pub mod settings;
pub mod statistics;
pub mod tally;
pub mod value;
pub mod visible;
