//! Infrastructure shared by stages: TLS, the OTLP client, back-off, circuit breaker, token bucket,
//! a pool for blocking work, tables of metrics, atomic file replacement, a spare descriptor, and
//! the clock.

pub mod backoff;
pub mod blocking;
pub mod circuit;
pub mod client;
pub mod clock;
pub mod file;
pub mod metrics;
pub mod rate;
pub mod spare;
pub mod tls;
