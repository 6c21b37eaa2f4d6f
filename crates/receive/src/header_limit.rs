//! Limit on the size of a request's headers, separate from its body.
//!
//! HTTP/2 reads somewhat more than the limit, so that the sender receives a proper OTLP error and
//! does not retry. Beyond that the HTTP/2 layer answers a bare 431, and beyond four times as much
//! it closes the connection.

use http::Request;

use super::status::{RefusalReason, RefusedRequest};

/// Largest size of a request's headers as counted by HTTP/2: name, value and 32 bytes for each
/// field. Twice the default that the gRPC specification suggests.
pub(super) const HEADER_BYTES_MAX: usize = 16 << 10;

/// Largest size of headers that HTTP/2 reads in order to answer. Four times this exceeds a
/// mebibyte, as a sender with data in its metadata may reach.
pub(super) const HEADER_BYTES_READ: u32 = 320 << 10;

/// Additional bytes of each field: RFC 9113, section 6.5.2.
const FIELD_BYTES: usize = 32;

/// Refuses a request with oversized headers.
pub(super) fn check_size<B>(request: &Request<B>) -> Result<(), RefusedRequest> {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    let host = request.uri().authority().map_or("", |authority| authority.as_str());
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    if fields.sum::<usize>() + path.len() + host.len() <= HEADER_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the headers are larger than {HEADER_BYTES_MAX} bytes");
    Err(RefusedRequest::new(RefusalReason::HeadersTooLarge, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_past_the_limit_is_too_large() {
        let sized = |bytes: usize| {
            let value = "v".repeat(bytes - FIELD_BYTES - "x".len() - "/".len());
            check_size(&Request::post("/").header("x", value).body(()).unwrap())
        };
        assert!(sized(HEADER_BYTES_MAX).is_ok());
        let failure = sized(HEADER_BYTES_MAX + 1).unwrap_err();
        assert_eq!((failure.reason, failure.retry_after()), (RefusalReason::HeadersTooLarge, None));
        let path = format!("/{}", "p".repeat(HEADER_BYTES_MAX));
        assert!(check_size(&Request::post(path).body(()).unwrap()).is_err());
    }
}
