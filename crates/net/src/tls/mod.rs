//! TLS of listeners and of clients: one implementation, `rustls` with `ring`.
//!
//! In: settings with the OpenTelemetry Collector's names. Out: a [`ServerTls`] that accepts
//! connections, a [`ClientTls`] that clients connect with. Both reload their files while they run:
//! a new connection uses the last content of the files, an open one goes on as it began. Files that
//! cannot be used leave the content read before in place, with a log line and a counter.
//!
//! Only TLS 1.2 and 1.3 exist here; ciphers are those that `rustls` takes for safe.

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

/// Returns the cryptography of all TLS of the process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
