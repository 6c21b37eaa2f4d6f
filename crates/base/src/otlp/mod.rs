//! OTLP on the wire: a protobuf walker over borrowed bytes, and views of the messages.
//!
//! No message is decoded as a whole on the hot path. Field numbers are those of
//! `opentelemetry-proto` 1.x (`opentelemetry/proto/{trace,logs,common,resource}/v1`).

pub mod any_value;
pub mod json;
pub mod metrics;
pub mod number;
pub mod request;
pub mod semconv;
pub mod status;
pub mod tag;
pub mod wire;

pub use any_value::AnyValue;

mod body;
mod signal;

pub use body::{ContentCoding, RawBody};
pub use signal::Signal;
