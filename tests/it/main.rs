//! The integration tests, in one binary.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod captures;
mod emit;
mod parity_dokimos;
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod receive_grpc;
mod receive_http;
mod support;
mod telemetry;

mod config;

mod parity_iris;

#[cfg(test)]
mod parity_uipath;
#[cfg(test)]
mod seeds_uipath;
