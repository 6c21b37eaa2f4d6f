//! Plumbing that several stages share: TLS, the OTLP client, the task of a scheduler, and tables of
//! metrics.

pub mod client;
pub mod lane;
pub mod metrics;
pub mod tls;
