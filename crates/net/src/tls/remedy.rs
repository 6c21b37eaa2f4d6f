//! Remedies for certificates that a client refuses, as plain `openssl req -x509` makes them.
//!
//! The errors of `rustls` name the fault in one word; what to do about it is told here, once for
//! all clients.

/// Part of an error's text, what it means, and what to do.
const REMEDIES: [(&str, &str); 4] = [
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
];

/// Returns the remedy for a refused certificate, from the text of the error.
pub fn remedy(error: &str) -> Option<&'static str> {
    REMEDIES.iter().find(|(part, _)| error.contains(part)).map(|(_, remedy)| *remedy)
}
