//! Evaluators outside of the process, in a whole collector and on the command line.

mod commands;
mod crash;
mod http;
mod process;
mod proto;
mod refused;
mod remote;
mod server;

/// The file of a fixture.
fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/external/{name}", env!("CARGO_MANIFEST_DIR"))
}
