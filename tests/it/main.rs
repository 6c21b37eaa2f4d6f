//! The integration tests, in one binary.
mod receive_grpc;
mod receive_http;
mod support;
mod telemetry;
