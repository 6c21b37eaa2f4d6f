//! TLS of listeners and of clients, by `rustls` with `ring`.
//!
//! In: settings with the OpenTelemetry Collector's names. Out: a [`ServerTls`] for listeners and a
//! [`ClientTls`] for clients. Both reload their files at run time. A new connection uses the latest
//! content, an open one is unaffected. Unusable files leave the previous content in use, with a log
//! line and a counter.
//!
//! Only TLS 1.2 and 1.3 exist here, with the ciphers that `rustls` considers safe.

mod client;
mod pem;
mod remedy;
mod reread;
mod server;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use client::ClientTls;
pub use pem::TlsError;
pub use remedy::remedy;
pub use reread::{Changed, Reread, Rereader};
pub use server::{HandshakeFailure, ServerTls, TlsStream};

/// Returns the cryptography provider of the process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
