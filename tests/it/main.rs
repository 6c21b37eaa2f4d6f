//! The integration tests, in one binary.
mod captures;
mod receive_grpc;
mod receive_http;
mod support;
mod telemetry;
