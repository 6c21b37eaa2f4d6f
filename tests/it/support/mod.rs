//! Harness that the integration tests share.

pub(crate) mod collector;
pub(crate) mod evaluations;
pub(crate) mod exporters;
pub(crate) mod fake_backend;
pub(crate) mod fake_judge;
pub(crate) mod intake;
pub(crate) mod patience;
pub(crate) mod program;
pub(crate) mod ran;
pub(crate) mod raw_backend;
pub(crate) mod rule_sets;
pub(crate) mod spans;
pub(crate) mod sums;

/// A client over HTTP. Reqwest asks for somebody to name the cryptography before it makes one.
pub(crate) fn web_client() -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}
