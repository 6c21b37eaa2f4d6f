//! The integration tests, in one binary.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod any_order;
mod bounds;
mod captures;
mod cli;
mod collector;
mod config;
mod dialect_docs;
mod docs;
mod early;
mod emit;
mod evaluator_docs;
mod evaluators;
mod expectations;
mod failures;
mod forward;
mod parity_dokimos;
mod parity_iris;
mod parity_uipath;
mod process;
mod receive_connections;
mod receive_floods;
mod receive_grpc;
mod receive_http;
mod receive_protocol;
mod resolution;
mod same_evaluations;
mod scored;
mod seeds_uipath;
mod support;
mod telemetry;
mod terminal;
mod together;
mod traps;
mod work;
