//! Plumbing that several stages share: TLS, the OTLP client, the task of a scheduler, tables of
//! metrics, and a spare descriptor.

pub mod client;
pub mod lane;
pub mod metrics;
pub mod spare;
pub mod tls;
