//! External kinds: evaluators outside this process.

pub mod agentevals;
pub mod grpc;
pub mod http;
pub mod settings;
mod trajectory;
