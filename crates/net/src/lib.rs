//! Plumbing that several stages share: TLS, the OTLP client, a pool for blocking work,
//! tables of metrics, and a spare descriptor.

pub mod blocking;
pub mod client;
pub mod metrics;
pub mod spare;
pub mod tls;
