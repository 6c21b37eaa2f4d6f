//! Network plumbing that several stages share: TLS, the OTLP client, and the task of a scheduler.

pub mod client;
pub mod lane;
pub mod tls;
