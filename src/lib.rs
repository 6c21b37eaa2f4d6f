//! Spans in, scores out: an OpenTelemetry collector that scores what AI agents do with their
//! tools, in live traffic.
//!
//! This package is the program; the stages are crates under `crates/`, mapped in `ARCHITECTURE.md`.
//!
//! ```text
//! receive      OTLP gRPC and HTTP, files: bytes, size-checked
//!   |
//! extract      borrowed view over the bytes -> tool calls and the few other facts needed
//!   |
//! assemble     one shard per core owns its traces: add, complete, expire, evict
//!   |
//! evaluate     deterministic evaluators on the shard; judges are asked beside it
//!   |
//! emit         evaluations -> OTLP spans, events, metrics; Prometheus; console; files
//! ```
//!
//! # Invariants
//! 1. Stages share `base` and tools such as `net`, `log` and `detect`. `ask` is the one that
//!    imports another, `evaluate`, whose inquiries it sends; only `pipeline` knows them all.
//! 2. `extract`, `assemble` and the evaluators do no I/O and read no clock:
//!    `(state, input, now) -> outputs`.
//! 3. Bad input never panics and never poisons its batch.
//! 4. What cannot be judged is not evaluable; what broke is failed; neither is a score.
//! 5. Every queue, buffer, size, depth and wait has a named limit and a counter with a reason.

pub mod cli;
pub mod config;
