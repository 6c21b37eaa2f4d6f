//! Remedies for failed TLS connections: refused certificates, as made by plain `openssl req -x509`,
//! and peers of which only one speaks TLS.
//!
//! The errors of `rustls` name the fault in one word; the remedies are here, for all clients.

/// Part of an error's text, its meaning, and its remedy.
const REMEDIES: [(&str, &str); 8] = [
    (
        "CaUsedAsEndEntity",
        "the server shows the certificate of an authority (CA:TRUE), as plain `openssl req -x509` \
         makes it: add `-addext basicConstraints=critical,CA:FALSE` and `-addext \
         subjectAltName=DNS:NAME`, or use those of `spanscore certs DIR`",
    ),
    (
        "UnsupportedCertVersion",
        "the server's certificate is of X.509 version 1, which names no hosts: make one of version \
         3 with `-addext subjectAltName=DNS:NAME`, or use those of `spanscore certs DIR`",
    ),
    (
        "not valid for any names",
        "a common name (CN) does not count: make a certificate with `-addext \
         subjectAltName=DNS:NAME`, or use those of `spanscore certs DIR`",
    ),
    (
        "UnknownIssuer",
        "its authority is not trusted here: name it with `tls.ca_file`, or with `send --ca FILE`",
    ),
    (
        "CertificateRequired",
        "the server lets in only clients with a certificate: name one with `tls.cert_file` and \
         `tls.key_file`, or with `send --cert FILE --key FILE`",
    ),
    (
        "UnknownCA",
        "the server does not trust the authority of the client's certificate: show one of the \
         authority in its `client_ca_file`",
    ),
    ("InvalidContentType", "the port does not speak TLS: write `http://` for it"),
    ("invalid HTTP version parsed", "the port may speak TLS: write `https://` for it"),
];

/// Returns the remedy for a failed TLS connection, from the error's text.
pub fn remedy(error: &str) -> Option<&'static str> {
    REMEDIES.iter().find(|(part, _)| error.contains(part)).map(|(_, remedy)| *remedy)
}
