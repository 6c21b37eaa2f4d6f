//! Spans in, scores out: an OpenTelemetry collector that scores what AI agents do with their
//! tools, in live traffic.
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
//! The modules below stand in four groups: the shared vocabulary with [`detect`]; transport, the
//! log and the task that [`judge`] and [`external`] share; the stages with their config and
//! telemetry; the program.
//!
//! # Invariants
//! 1. [`model`], [`value`], [`settings`], [`otlp`], [`panics`] and [`visible`] import no stage.
//! 2. Stages import the vocabulary, never each other; only [`pipeline`] knows them all. `emit`
//!    imports [`client`], too, which imports the vocabulary and [`tls`] alone, as listeners do;
//!    `emit` and `evaluate` import [`detect`]; [`judge`] and [`external`] import `client`, the
//!    requests of `evaluate`, and `lane`, their shared task.
//! 3. `extract`, `assemble` and the evaluators do no I/O and read no clock:
//!    `(state, input, now) -> outputs`.
//! 4. Bad input never panics and never poisons its batch.
//! 5. What cannot be judged is not evaluable; what broke is failed; neither is a score.
//! 6. Every queue, buffer, size, depth and wait has a named limit and a counter with a reason.

pub mod config;
pub mod telemetry;

pub mod cli;
pub mod pipeline;
