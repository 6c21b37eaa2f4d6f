//! Requests that two readers would take for different ones: what one takes for a body, the other
//! for the next request. Each is refused, or ends where RFC 9112 says, in the clear and over TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use spanscore_base::settings::Secret;
use spanscore_base::settings::tls::ListenerTlsSettings;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::pki::Authority;
use crate::support::intake::{Harness, small_settings};
use crate::support::patience::PATIENCE;

/// Request that a smuggler hides behind a body.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";

/// Probes: name, headers, part of the body before the hidden request, and the statuses that come
/// back before the connection ends.
const PROBES: &[(&str, &str, &str, &[u16])] = &[
    // Chunks go before a length, and nothing is read behind them.
    ("a length, and chunks", "content-length: 36\r\ntransfer-encoding: chunked", END, &[200]),
    ("chunks, and a length", "transfer-encoding: chunked\r\ncontent-length: 3", END, &[200]),
    ("two lengths", "content-length: 0\r\ncontent-length: 34", "", &[400]),
    ("a list of lengths", "content-length: 0, 34", "", &[400]),
    ("a length with a sign", "content-length: +0", "", &[400]),
    ("a length below zero", "content-length: -1", "", &[400]),
    ("a length in hexadecimal", "content-length: 0x22", "", &[400]),
    ("chunks that come first", "transfer-encoding: chunked, identity", END, &[400]),
    ("no chunks", "transfer-encoding: xchunked", "", &[400]),
    ("chunks behind a tab", "transfer-encoding: \u{b}chunked", END, &[400]),
    ("two encodings", "transfer-encoding: chunked\r\ntransfer-encoding: identity", END, &[400]),
    ("a space before the colon", "transfer-encoding : chunked", END, &[400]),
    ("a folded header", "transfer-encoding:\r\n chunked", END, &[400]),
    ("a return alone", "x: a\rtransfer-encoding: chunked\r\ncontent-length: 0", "", &[400]),
    ("a zero byte", "x: a\0\r\ncontent-length: 0", "", &[400]),
    ("a chunk of 2^64 bytes", "transfer-encoding: chunked", "10000000000000000\r\n", &[400]),
    ("a chunk beyond its size", "transfer-encoding: chunked", "1\r\nGG\r\n0\r\n\r\n", &[400]),
    ("lines of chunks that end early", "transfer-encoding: chunked", "0\n\n", &[400]),
    ("a chunk with half a line", "transfer-encoding: chunked", "0;\n\r\n\r\n", &[400]),
];

/// The last chunk.
const END: &str = "0\r\n\r\n";

/// Returns a probe behind its first line.
fn probe(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-protobuf\r\n\
         {headers}\r\n\r\n{body}{HIDDEN}"
    )
}

/// Returns the statuses of all answers to some bytes, until the other side closes.
async fn statuses(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &str) -> Vec<u16> {
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection stays open: {bytes:?}");
    let answer = String::from_utf8_lossy(&answer);
    let starts = answer.split("HTTP/1.1 ").skip(1);
    starts.filter_map(|rest| rest.get(..3)?.parse().ok()).collect()
}

async fn over_tls(address: SocketAddr, authority: &str) -> impl AsyncRead + AsyncWrite + Unpin {
    let mut roots = RootCertStore::empty();
    let pem = rustls::pki_types::CertificateDer::from_pem_slice(authority.as_bytes());
    roots.add(pem.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn request_smuggled_in_a_body_is_not_processed() {
    let authority = Authority::new();
    let server = authority.server();
    let mut settings = small_settings();
    settings.protocols.http.as_mut().unwrap().tls = Some(ListenerTlsSettings {
        cert_pem: Some(server.cert),
        key_pem: Some(Secret(server.key)),
        ..ListenerTlsSettings::default()
    });
    let (plain, secure) = (Harness::start().await, Harness::with(settings).await);
    for &(name, headers, body, expected) in PROBES {
        let bytes = probe(headers, body);
        let stream = TcpStream::connect(plain.http).await.unwrap();
        assert_eq!(statuses(stream, &bytes).await, expected, "{name}, in the clear");
        let stream = over_tls(secure.http, &authority.pem).await;
        assert_eq!(statuses(stream, &bytes).await, expected, "{name}, over TLS");
    }
}
