//! The whole collector: OTLP in, scores at an independent backend.

mod bad_input;
mod forms;
mod large_input;
mod levels;
mod limits;
mod seeds;
mod shutdown;
mod traces;
